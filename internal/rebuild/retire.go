package rebuild

import (
	"context"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"
)

// release is set once a value is out of use: nobody can reach it any more, so its
// last reader is gone too (seed 001, SelectorReleaseSignal). Counting readers
// would cost each pick some 25 ns; the garbage collector knows for nothing, but
// says so only after its next cycle. Nil is the release of a value that is not
// waited for.
//
// It is a flag that is looked at and no channel, because it is set from outside
// any synctest bubble. A weak pointer would do for a flag, but to look at one while
// the collector marks keeps its value alive, for as long as one looks often enough.
type release = *atomic.Bool

// retired is a value that was replaced, or never put in force.
type retired struct {
	release release
	until   time.Time
}

// How often a release is looked at.
const releasePoll = 5 * time.Millisecond

// releaseOf watches what value points to. A value that is no pointer, or small,
// is not watched.
func (g *Gate) releaseOf(value any, bytes int64) release {
	v := reflect.ValueOf(value)
	if bytes <= g.options.RetireOver || v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	r := new(atomic.Bool)
	runtime.AddCleanup((*byte)(v.UnsafePointer()), func(r release) { r.Store(true) }, r)
	return r
}

// retire notes that a value is out of force, for the next build to wait for. The
// holder of the permit calls it.
func (g *Gate) retire(r release) {
	if r == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retired = append(g.retired, retired{r, time.Now().Add(g.options.RetireWait)})
}

// awaitRetired waits until all that was retired is released, of each at most until
// its time is up: a reader that holds on must not hold up everybody. Its error is
// ctx's. The holder of the permit calls it, so nobody else takes from retired.
func (g *Gate) awaitRetired(ctx context.Context) error {
	for {
		g.mu.Lock()
		if len(g.retired) == 0 {
			g.mu.Unlock()
			return nil
		}
		oldest := g.retired[0]
		left := time.Until(oldest.until)
		released := oldest.release.Load()
		if released || left <= 0 {
			g.retired = g.retired[1:]
			if !released {
				g.stats.RetireTimeouts++
			}
			g.mu.Unlock()
			continue
		}
		g.mu.Unlock()

		timer := time.NewTimer(min(left, releasePoll))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
