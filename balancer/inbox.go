package balancer

import (
	lb "google.golang.org/grpc/balancer"
)

// inbox is what the goroutine of a policy has to do. Of each kind of thing the
// newest replaces older ones.
type inbox struct {
	update        *update
	resolverError error
	assignment    []chan<- struct{} // it changed; closed once picks use it
	changed       []*endpoint       // their child said something
	connect       []*endpoint       // a pick wants a connection
	all           bool              // a pick chooses among all endpoints that are READY
	tend          []*endpoint       // their connections are to be looked at
	connections   bool              // the settings of connections have changed
	options       bool              // so have other ones
	guards        bool              // so has who admits
	reported      []chan<- struct{} // closed once the channel's state is what endpoints have told
	again         bool              // admission may have changed its mind
	selection     bool              // a selector has another policy or other data
	retired       bool              // RetireTimeout is over for some endpoint
	closed        bool
}

// update is one resolver update, with its endpoints copied: the list is the
// resolver's again once UpdateClientConnState has returned (field case LL-07).
type update struct {
	lb.ClientConnState
	usable []namedEndpoint
}

// post lets add put something in the inbox and wakes run.
func (p *policy) post(add func(*inbox)) {
	p.mu.Lock()
	add(&p.inbox)
	p.mu.Unlock()
	p.wakeUp()
}

// add is post for an endpoint and one of the inbox's lists, without a closure:
// thousands may come at a time.
func (p *policy) add(list *[]*endpoint, ep *endpoint) {
	p.mu.Lock()
	*list = append(*list, ep)
	p.mu.Unlock()
	p.wakeUp()
}

func (p *policy) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
