package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
)

// seedPicker is the pseudo-code of gRFC A119 written down as it stands: an
// object per slice, names looked up in maps, the slice in fallback or not by a
// scan of its endpoints, and a lock around what changes. It is the picker that
// somebody writes first.
type seedPicker struct {
	fallback bool
	slices   []*seedSlice // sorted by start

	mu     sync.Mutex // guards states
	states map[string]seedState
	names  []string // keys of states, in the resolver's order
}

type seedSlice struct {
	start     []byte
	endpoints []string
}

type seedState struct {
	connectivity connectivity.State
	picker       lb.Picker
}

// readyPicker is the picker of an endpoint's pick_first that is READY.
type readyPicker struct{ result lb.PickResult }

func (p readyPicker) Pick(lb.PickInfo) (lb.PickResult, error) { return p.result, nil }

// newSeedPicker makes one for a world whose endpoints are READY.
func newSeedPicker(w world) *seedPicker {
	p := &seedPicker{states: make(map[string]seedState, w.endpoints), names: w.names()}
	for i, name := range p.names {
		sc := &subConn{address: w.address(i)}
		p.states[name] = seedState{connectivity.Ready, readyPicker{lb.PickResult{SubConn: sc}}}
	}
	p.slices = make([]*seedSlice, 0, w.slices)
	add := func(start []byte) {
		s := &seedSlice{start: bytes.Clone(start)}
		for r := range w.replicas {
			s.endpoints = append(s.endpoints, p.names[w.owner(len(p.slices), r)])
		}
		p.slices = append(p.slices, s)
	}
	add(nil)
	for k := range w.keyspace().all() {
		add(k)
	}
	return p
}

func (p *seedPicker) Pick(info lb.PickInfo) (lb.PickResult, error) {
	md, _ := metadata.FromOutgoingContext(info.Ctx)
	values := md.Get(keyHeader)
	if len(values) != 1 {
		return lb.PickResult{}, errors.New("the RPC has no key")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.lookup([]byte(values[0]))
	var known []string
	for _, name := range s.endpoints {
		if _, ok := p.states[name]; ok {
			known = append(known, name)
		}
	}
	if p.fallback && p.inFallback(known) {
		return p.scan(p.names, info)
	}
	return p.scan(known, info)
}

func (p *seedPicker) lookup(key []byte) *seedSlice {
	at, found := slices.BinarySearchFunc(p.slices, key, func(s *seedSlice, k []byte) int { return bytes.Compare(s.start, k) })
	if !found {
		at--
	}
	return p.slices[at]
}

func (p *seedPicker) inFallback(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool {
		return p.states[n].connectivity != connectivity.TransientFailure
	})
}

// scan is pick_from_endpoint_indices, without the request for a connection.
func (p *seedPicker) scan(names []string, info lb.PickInfo) (lb.PickResult, error) {
	if len(names) == 0 {
		return lb.PickResult{}, errors.New("no endpoint")
	}
	first, waiting := rand.IntN(len(names)), false
	for i := range names {
		switch s := p.states[names[(first+i)%len(names)]]; s.connectivity {
		case connectivity.Ready:
			return s.picker.Pick(info)
		case connectivity.TransientFailure:
		default:
			waiting = true
		}
	}
	if waiting {
		return lb.PickResult{}, lb.ErrNoSubConnAvailable
	}
	return lb.PickResult{}, errors.New("every endpoint is failing")
}
