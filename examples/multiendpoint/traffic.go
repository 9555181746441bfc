package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// counts are of all RPCs.
type counts struct {
	sent  atomic.Int64
	dying atomic.Int64 // failed on the way from a dead address to another one
	dead  atomic.Int64 // failed with every address dead
	lost  atomic.Int64 // failed for no such reason
}

// traffic is callers of both groups that send one RPC after the other, none of which
// may fail.
type traffic struct {
	story   *story
	cancel  context.CancelFunc
	callers sync.WaitGroup

	mu     sync.Mutex
	sent   int
	failed int
	err    error // of the first that failed
}

func (s *story) startTraffic(ctx context.Context) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	t := &traffic{story: s, cancel: cancel}
	for _, group := range groups {
		t.callers.Go(func() {
			for ctx.Err() == nil {
				_, err := s.ask(ctx, group)
				if ctx.Err() == nil { // else it was cut off by the end
					t.took(group, err)
				}
			}
		})
	}
	return t
}

func (t *traffic) took(group string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if err == nil {
		return
	}
	t.failed++
	t.story.count.lost.Add(1)
	if t.err == nil {
		t.err = fmt.Errorf("an RPC of the group %q: %w", group, err)
	}
}

// stop ends the callers.
func (t *traffic) stop() {
	t.cancel()
	t.callers.Wait()
}

// outcome tells what the callers met.
func (t *traffic) outcome() error {
	t.stop()
	say("of %d RPCs meanwhile %d failed", t.sent, t.failed)
	return t.err
}

// asks says whether a stream is at a server.
func asks(stream *sdktest.EchoStream, want, what string) error {
	got, err := stream.Ask("who?")
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s, but at %s instead of %s", what, got, want)
	}
	say("%s, at %s", what, got)
	return nil
}

// end reads a stream to its end: its pool waits for it.
func end(stream *sdktest.EchoStream) error {
	if err := stream.CloseSend(); err != nil {
		return err
	}
	switch _, err := stream.Recv(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("the stream went on after its end")
	default:
		return err
	}
}
