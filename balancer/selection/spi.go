package selection

import "context"

// Call is what a policy may know of the call that an attempt belongs to.
type Call struct {
	// Context is the call's; nil in a programmatic selection.
	Context context.Context
	// Method is the full name, as in "/package.Service/Method"; "" in a
	// programmatic selection.
	Method string
	// Key is the sharding key; meaningful only when HasKey is set.
	Key    string
	HasKey bool
}

// Input is what a Direct rule chooses from. It is passed by value, so that a
// selection allocates nothing.
type Input struct {
	View
	Call
}

// NoOpinion is what Select returns to leave the choice to P2C.
const NoOpinion = -1

// Direct chooses among the members that are READY now. Select is called from
// the goroutine of each RPC, concurrently; it must not block. An index out of
// range or excluded, or a panic, fails that attempt with UNAVAILABLE and nothing
// else (seed 004, custom selector semantics).
type Direct interface {
	Select(in Input) int
}

// Membership is what a Builder builds from.
type Membership struct {
	// Generation counts the changes of the endpoint list.
	Generation uint64
	// Members are all endpoints, READY or not, in the order of their names. Do not
	// change the slice.
	Members []*Member
}

// Builder makes the data of one membership. Build is called off the hot path,
// one at a time for each gate (balancer.RouterOptions); it should watch ctx,
// which ends when the selector is closed. An error or a panic leaves the data
// before in force and is tried again after 10 ms, doubling to 1 s.
type Builder interface {
	Build(ctx context.Context, m Membership) (Order, error)
}

// Order is built data: it gives each call an order of candidates. Next is called
// concurrently and must not block or change what it reads. The zero Cursor asks
// for the first candidate, then each answer's cursor for the next. A negative
// index ends the order. A candidate that came before is passed over.
//
// An Order that has a method Bytes() int64 tells how much memory it holds.
type Order interface {
	Next(call Call, c Cursor) (index int, next Cursor)
}

// Cursor is a position in an Order; what it means is the Order's.
type Cursor struct{ A, B uint64 }
