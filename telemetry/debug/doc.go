// Package debug shows a client to the person who is on call: pages in plain HTML,
// without scripts, each also as JSON. [Handler] serves them from a [Source].
//
// What belongs here: the pages, their stylesheet, what a key that is typed or shown
// looks like, and the ring of control events. It knows no client and no balancer: a
// Source gives it plain values.
//
// Who may import it: sdk, which is the Source and mounts the Handler
// (Client.DebugHandler).
package debug
