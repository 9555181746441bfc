// Package keyrange is the immutable index that turns a key into the number of
// the slice whose range holds it.
//
// What belongs here: bytes in, ints out. The package knows nothing of endpoints,
// assignments or gRPC and imports no other room. Who may import it:
// balancer/assignment, which builds an index for each assignment, and balancer,
// which looks keys up in it at each pick.
//
// # Layout
//
// A slice is known by its start key, so an index over n slices is n sorted keys
// (A119: a slice runs from its start key to the next one). They lie in one byte
// array, and every other part is a flat array of integers too: there is no
// pointer per slice, so the garbage collector has nothing to walk.
//
//   - words holds one uint64 per slice: the first 7 bytes of the key that its
//     node does not already know, and a length tag (see word).
//   - nodes and tables are a tree over ranges of slices. A node strips the prefix
//     that all keys of its range share, takes the next word, and its table maps
//     the word's position between the smallest and the largest word of the range
//     to a bucket of slices. Where few words differ and many slices have the same,
//     it compares words instead (cuts).
//   - A bucket of few slices is searched by comparing words. A bucket of many, or
//     of many equal words, is a node of its own, which strips the longer prefix
//     its keys share and spreads what is left over a finer table.
//
// Keys without structure are found with one table entry and a few neighbouring
// words. Keys under long shared prefixes, also nested ones, pay one comparison of
// the prefix per node and never one per probe.
//
// Memory is 4 bytes (ends) and 8 bytes (words) a slice beside its key, and 1 to 3
// bytes for nodes and tables. Building is linear in the bytes of the keys.
package keyrange
