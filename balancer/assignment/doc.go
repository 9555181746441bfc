// Package assignment is the client of the sharding service: it keeps the
// assignment of key slices to endpoints that the service last gave.
//
// What belongs here: the stream, the chunks, their validation, the acks, the
// backoff and the rule that the last good assignment stays in force. What does
// not: endpoints that can be dialled, picks, fallback. Who may import it:
// balancer and sdk; it imports keyrange and the wire protocol.
//
// The parts, from the bytes up: an assembler turns frames into flat arrays,
// build makes an immutable Assignment of them or says what is wrong, a machine
// decides (pure, no clock), a client does the I/O of one channel and target and
// reads, a builder beside it takes from an inbox what came whole, builds and acks,
// and a Watcher owns the channel, the client and the published State.
package assignment
