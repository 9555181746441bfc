package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

const (
	callers   = 12                     // that send one RPC after the other
	pause     = 30 * time.Millisecond  // between two RPCs of a caller, on average
	patience  = 500 * time.Millisecond // of an RPC
	slowAfter = 150 * time.Millisecond // from then on an RPC is slow for the breaker
	slowness  = 250 * time.Millisecond // of a slow server
)

// load is callers of all kinds, until stop.
type load struct {
	echo    sdktest.Echo
	cancel  context.CancelFunc
	callers sync.WaitGroup

	sent, failed atomic.Int64
}

func startLoad(ctx context.Context, client *sdk.Client) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{echo: sdktest.NewEcho(client), cancel: cancel}
	for i := range callers {
		l.callers.Go(func() {
			for ctx.Err() == nil {
				l.one(kind(ctx, i), i%4 == 3)
				select {
				case <-ctx.Done():
				case <-time.After(pause/2 + rand.N(pause)):
				}
			}
		})
	}
	l.callers.Go(func() {
		for ctx.Err() == nil {
			l.talk(ctx)
		}
	})
	return l
}

// kind is the context of an RPC of caller i: which group and selector it asks for.
func kind(ctx context.Context, i int) context.Context {
	ctx = interceptors.WithKeyString(ctx, someKey())
	switch i {
	case 0, 1:
		return interceptors.WithGroup(ctx, readGroup)
	case 2:
		return interceptors.WithSelector(ctx, spreadSelector)
	case 4:
		return interceptors.WithSelector(ctx, ringSelector)
	case 5:
		return interceptors.WithSelector(ctx, mineSelector)
	case 6:
		return interceptors.WithSelector(ctx, nearSelector)
	default:
		return ctx
	}
}

// someKey is a key anywhere in the keyspace.
func someKey() string { return fmt.Sprintf("%c-%04d", 'a'+rand.N('z'-'a'+1), rand.IntN(10_000)) }

// one sends an RPC. One that waits for ready does not fail because a server is away.
func (l *load) one(ctx context.Context, waitForReady bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := l.echo.Who(ctx, "", grpc.WaitForReady(waitForReady))
	l.sent.Add(1)
	if err != nil {
		l.failed.Add(1)
	}
}

// talk has a stream of the group "read" open for a while.
func (l *load) talk(ctx context.Context) {
	ctx, cancel := context.WithCancel(interceptors.WithKeyString(interceptors.WithGroup(ctx, readGroup), someKey()))
	defer cancel()
	stream, err := l.echo.Talk(ctx)
	for range 50 {
		if err != nil {
			break
		}
		_, err = stream.Ask("who?")
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// stop ends the callers.
func (l *load) stop() {
	l.cancel()
	l.callers.Wait()
}
