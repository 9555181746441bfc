package main

import "sync"

// serial runs functions one after the other on a goroutine of its own, as gRPC
// does for the calls into a channel's LB policy.
type serial struct {
	mu     sync.Mutex // guards the fields below
	queued []func()
	closed bool

	wake chan struct{} // capacity 1: there is something to do
	done chan struct{} // closed when the goroutine has ended
}

// newSerial starts the goroutine, which ends with close.
func newSerial() *serial {
	s := &serial{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *serial) run() {
	defer close(s.done)
	var spare []func()
	for range s.wake {
		s.mu.Lock()
		tasks, closed := s.queued, s.closed
		s.queued = spare
		s.mu.Unlock()
		for _, f := range tasks {
			f()
		}
		clear(tasks)
		spare = tasks[:0]
		if closed {
			return
		}
	}
}

// put has f run later. After close it does nothing.
func (s *serial) put(f func()) {
	s.mu.Lock()
	if !s.closed {
		s.queued = append(s.queued, f)
	}
	s.mu.Unlock()
	s.notify()
}

// do has f run and waits for it. It must not be called after close.
func (s *serial) do(f func()) {
	ran := make(chan struct{})
	s.put(func() { f(); close(ran) })
	<-ran
}

// close runs what is queued and waits for the end of the goroutine.
func (s *serial) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.notify()
	<-s.done
}

func (s *serial) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
