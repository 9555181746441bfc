// Package callinfo is what travels in the context of one call between the
// interceptors, which write it, and the picker, which reads it.
//
// What belongs here: that record and the rules for names of headers and selectors
// that both sides share. Who may import it: interceptors, balancer, telemetry,
// sdk. It imports no other room.
package callinfo
