// Package wire is the autosharding protocol: the messages of
// autosharding.proto and the one method that carries them.
//
// What belongs here: the protocol and nothing that interprets it. Who may
// import it: balancer/assignment, and sdk/sdktest, which plays the other side.
//
// The messages are generated under our own proto package so that a binary may
// link another copy of the protocol beside this one; bytes and method name are
// the same as everybody's.
package wire

//go:generate bash generate.sh
