// Package configsource reads the configuration of a client from files, the
// environment and code, checks all of it before any of it is used, and tells of
// changes while the program runs.
//
// A [Source] gives an [Update], which is one complete, valid [Config] and where each
// of its values came from:
//
//	src := configsource.Overlay(
//		configsource.File("client.yaml", configsource.FileOptions{}),
//		configsource.Env(""), // the environment wins
//	)
//	u, err := src.Load(ctx)
//
// The struct types of Config are the one table of keys: their tags give the names,
// defaults, limits and units that decoding, [Config.Validate], [Config.WithDefaults],
// [Diff], the JSON Schema (schema.json) and docs/configuration.md share.
//
// A configuration that is wrong is refused whole. The error lists every [Problem]
// with its path, its value, what is allowed, and the line or the variable it came
// from; a key that nobody knows is one, since it is most likely a known one misspelt.
//
// # Who reads a file
//
// Viper parses, and does nothing else here: each reading has a fresh instance of its
// own, which watches nothing, reads no environment and is dropped at once. It lowers
// the case of keys and tells no lines, so that a second pass over the same bytes,
// with the parsers that viper uses itself, finds the keys as they are spelled and
// the lines they are in. Keys that differ only in their case are refused, and nothing
// that is named by a user is a key (field case CR-06).
//
// # Who watches a file
//
// Watching is our own, over fsnotify: see [File]. A source that is not watched has
// no goroutine and no descriptor, and one whose watch has returned has none left
// (field case LL-03).
//
// What belongs here: the types, reading, checking, watching, comparing. What does
// not: anything that knows a channel; package sdk applies what is read here. Who may
// import it: sdk and users. It imports nothing of ours.
package configsource
