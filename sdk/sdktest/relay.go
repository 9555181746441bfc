package sdktest

import (
	"context"
	"net"
	"sync"
	"time"
)

// relay accepts connections and joins each with another one. It is what Gate and
// Proxy have in common.
type relay struct {
	listener net.Listener
	in       connSet // from clients
	out      connSet // to servers
	ctx      context.Context
	cancel   context.CancelFunc
	// running counts the accept loop, which ends when the listener closes, and
	// the copies, which end with their connections. close waits.
	running sync.WaitGroup
}

// start hands each connection to serve, on a goroutine of its own, and closes it
// when serve returns.
func (r *relay) start(l net.Listener, serve func(client net.Conn)) {
	r.listener = l
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.running.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			client := r.in.add(raw, false)
			if client == nil {
				continue
			}
			r.running.Go(func() {
				defer func() { _ = client.Close() }()
				serve(client)
			})
		}
	})
}

// dial connects to a server for as long as the relay lives.
func (r *relay) dial(addr string) (net.Conn, error) {
	raw, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(r.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := r.out.add(raw, false)
	if c == nil {
		return nil, ErrClosed
	}
	return c, nil
}

// join copies both ways until one side ends, and then ends both. pass, if there
// is one, is asked about each piece.
func (r *relay) join(client, server net.Conn, pass func(ended <-chan struct{}) (bool, error)) {
	ended := make(chan struct{})
	var once sync.Once
	end := func() {
		once.Do(func() {
			close(ended)
			_ = client.Close()
			_ = server.Close()
		})
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer end()
		copyThrough(client, server, ended, pass)
	})
	copyThrough(server, client, ended, pass)
	end()
	back.Wait()
}

func copyThrough(dst, src net.Conn, ended <-chan struct{}, pass func(<-chan struct{}) (bool, error)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			through := true
			if pass != nil {
				var stopped error
				if through, stopped = pass(ended); stopped != nil {
					return
				}
			}
			if through {
				if _, werr := dst.Write(buf[:n]); werr != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// cut ends the joined connections from both sides: a copy may be stalled by pass
// and not see that its own side has gone.
func (r *relay) cut() {
	r.in.cut()
	r.out.cut()
}

func (r *relay) close() {
	r.cancel()
	_ = r.listener.Close()
	r.in.refuse(true)
	r.out.refuse(true)
	r.running.Wait()
}
