package assignment

import (
	"fmt"
	"time"
)

// Phase is how far a Watcher has got.
type Phase uint8

const (
	// Unconfigured is a Watcher that was never configured.
	Unconfigured Phase = iota
	// Waiting has no assignment yet: RPCs queue.
	Waiting
	// Assigned has an assignment in force, perhaps an old one.
	Assigned
	// Failed has no assignment, and State.Err says why: RPCs need not wait.
	Failed
)

// String gives the phase's name in lower case.
func (p Phase) String() string {
	switch p {
	case Unconfigured:
		return "unconfigured"
	case Waiting:
		return "waiting"
	case Assigned:
		return "assigned"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// State is what routing needs to know. It is immutable.
type State struct {
	Phase Phase
	// Assignment is set in phase Assigned and only there.
	Assignment *Assignment
	// Err is set in phase Failed and only there.
	Err error
}

// Status is a Watcher's condition for operators. It is a copy.
type Status struct {
	Phase      Phase
	ChannelKey string
	Target     string
	ClientUUID string

	// The assignment in force; zero without one.
	Generation int64
	Slices     int
	Uncovered  int // slices without an owner
	Endpoints  int
	Bytes      int
	ReceivedAt time.Time
	// Age is how long ago that was.
	Age time.Duration

	// StreamConnected says whether a stream is open, StreamSince since when it
	// has been so or not.
	StreamConnected bool
	StreamSince     time.Time
	// MessageAt is when the service last sent anything, zero if it has not, or if its
	// target or channel has changed since.
	MessageAt time.Time
	// StaleFor is 0 while a stream is open, else the time since the last one
	// ended that had lived or said anything; before the first stream, since
	// the Watcher was configured.
	StaleFor time.Duration

	// Counts since the Watcher was made.
	StreamsOpened int64
	Accepted      int64
	Stale         int64
	Invalid       int64
	// Superseded counts assignments that a newer one overtook before their build
	// began. They are refused without a fault.
	Superseded int64

	// LastAck is the newest answer to the service, and LastRefusal the newest one for an
	// assignment that was stale or invalid; zero without one.
	LastAck, LastRefusal Ack

	// LastError is the newest error of provider, connection, stream or assignment, "" without one.
	LastError string
}

// Ack is an answer to the sharding service. It may not have reached it: the stream
// may have ended.
type Ack struct {
	At         time.Time
	Generation int64
	Accepted   bool
	// Message says why an assignment was refused, or what is wrong with it all the
	// same; it holds no keys.
	Message string
}
