package selection

import "sync/atomic"

// Info is what the name resolver says of a member. Immutable.
type Info struct {
	// Address is the first one.
	Address string
	// Weight is the member's share relative to others; grpc-go's weight attribute,
	// 1 where there is none. 0 means no traffic.
	Weight uint32
	// Attributes are the resolver's, nil if there are none.
	Attributes interface{ Value(key any) any }
}

// Member is one endpoint as policies see it. Its counts are live, outlive every
// policy and every membership it is in, and end with the endpoint. All methods
// may be called concurrently.
type Member struct {
	name   string
	handle any
	info   atomic.Pointer[Info] // the owner stores, policies load

	load
}

// NewMember makes a member. handle is the caller's and comes back from Handle.
func NewMember(name string, info Info, handle any) *Member {
	m := &Member{name: name, handle: handle}
	m.SetInfo(info)
	return m
}

// Name identifies the member in its membership.
func (m *Member) Name() string { return m.name }

// Handle is what NewMember was given.
func (m *Member) Handle() any { return m.handle }

// Info is what the name resolver said last.
func (m *Member) Info() Info { return *m.info.Load() }

// SetInfo replaces Info.
func (m *Member) SetInfo(i Info) { m.info.Store(&i) }
