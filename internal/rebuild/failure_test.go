package rebuild

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Seed row P-13: a build that panics and fails is counted, told and tried again
// after 10 ms doubling to 1 s, while the old value stays and others build.
func TestP13Retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		var at []time.Duration
		var told []string
		began := time.Now()
		var bad atomic.Bool
		p := b.pipeline(Options[*thing]{OnError: func(err error) { told = append(told, err.Error()) }}, func(context.Context, int) error {
			at = append(at, time.Since(began))
			switch {
			case bad.Load() && len(at)%2 == 0:
				panic("no ring")
			case bad.Load():
				return errBuild
			}
			return nil
		})
		p.Request(1)
		synctest.Wait()
		bad.Store(true)
		at, began = nil, time.Now()
		p.Request(2)
		pass(4 * time.Second)
		bad.Store(false)
		other := b.pipeline(Options[*thing]{}, nil)
		other.Request(1)
		synctest.Wait()
		same(t, "publications of another during the wait", b.of(other), []int{1})
		same(t, "publications meanwhile", b.of(p), []int{1})
		pass(time.Second)
		same(t, "publications", b.of(p), []int{1, 2})

		var waits []time.Duration
		for i := 1; i < len(at); i++ {
			waits = append(waits, (at[i]-at[i-1])/time.Millisecond)
		}
		same(t, "the waits in ms", waits, []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000})
		if s := p.Stats(); s.Failed != 10 || s.Builds != 12 || s.Published != 2 || s.Panics != 0 || len(told) != 10 {
			t.Errorf("stats are %+v, told %d", s, len(told))
		}
		if told[0] != errBuild.Error() || !strings.Contains(told[1], "no ring") {
			t.Errorf("told were %q", told)
		}
		accounted(t, p)
		b.free(t)
	})
}

// Seed row P-13: a newer request does not wait, and its own failures are counted
// from the start.
func TestP13NewerSkipsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		p := b.pipeline(Options[*thing]{}, func(_ context.Context, in int) error {
			if in == 1 {
				return errBuild
			}
			if n := len(b.builds()); in == 2 && b.builds()[n-2] != 2 {
				return errBuild // its first try
			}
			return nil
		})
		p.Request(1)
		time.Sleep(5 * time.Second) // in a wait of 1 s
		began := time.Now()
		p.Request(2)
		synctest.Wait()
		if got := b.builds(); got[len(got)-1] != 2 {
			t.Errorf("the newer input waits; builds were %v", got)
		}
		for len(b.of(p)) == 0 {
			pass(time.Millisecond)
		}
		if d := time.Since(began); d != 10*time.Millisecond {
			t.Errorf("published after %v, want the first wait of 10 ms", d)
		}
		same(t, "publications", b.of(p), []int{2})
		accounted(t, p)
		b.free(t)
	})
}

// A request that came during a build that failed replaces its input, at once.
func TestP13NewerDuringTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		p := b.pipeline(Options[*thing]{}, func(_ context.Context, in int) error {
			time.Sleep(time.Second)
			if in == 1 {
				return errBuild
			}
			return nil
		})
		p.Request(1)
		pass(time.Millisecond)
		p.Request(2)
		pass(2*time.Second - time.Millisecond)
		same(t, "publications", b.of(p), []int{2})
		same(t, "builds", b.builds(), []int{1, 2})
		if s := p.Stats(); s.Coalesced != 1 || s.Failed != 1 {
			t.Errorf("stats are %+v", s)
		}
		b.free(t)
	})
}

// Seed row P-15: whatever ends a worker, its input is built again without anyone
// asking, after a wait, or the newer one that came; and the permit is not lost.
func TestP15WorkerDies(t *testing.T) {
	panics := func() { panic("boom") }
	for name, how := range map[string]struct {
		die            func()
		in             string // the callback that dies
		panics, failed uint64
	}{
		"publish panics":            {panics, "publish", 2, 0},
		"publish ends goroutine":    {runtime.Goexit, "publish", 2, 0},
		"Bytes panics":              {panics, "Bytes", 2, 0},
		"Bytes ends goroutine":      {runtime.Goexit, "Bytes", 2, 0},
		"build ends goroutine":      {runtime.Goexit, "build", 2, 0},
		"OnError panics":            {panics, "OnError", 2, 2},
		"OnError ends goroutine":    {runtime.Goexit, "OnError", 2, 2},
		"publish and OnError panic": {panics, "publish, OnError", 4, 0},
	} {
		for _, newer := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", newer pending"}[newer], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					gate := NewGate(GateOptions{})
					var p *Pipeline[int, *thing]
					var published []int
					began, took := time.Now(), time.Duration(0)
					dies := map[string]int{}
					die := func(where string) {
						if !strings.Contains(how.in, where) || dies[where] == 2 {
							return
						}
						dies[where]++
						if newer && dies[where] == 2 && where == how.in {
							p.Request(2)
						}
						how.die()
					}
					p = New(gate, Options[*thing]{
						OnError: func(error) { die("OnError") },
						Bytes:   func(*thing) int64 { die("Bytes"); return 0 },
					}, func(_ context.Context, in int) (*thing, error) {
						die("build")
						if how.in == "OnError" && dies["OnError"] < 2 {
							return nil, errBuild
						}
						return &thing{in: in}, nil
					}, func(in int, _ *thing) {
						die("publish")
						published = append(published, in)
						took = time.Since(began)
					})
					p.Request(1)
					pass(time.Second)
					want, after := 1, 30*time.Millisecond
					if newer && how.in != "publish, OnError" {
						want, after = 2, 10*time.Millisecond
					}
					same(t, "publications", published, []int{want})
					if took != after {
						t.Errorf("published after %v, want %v", took, after)
					}
					if s := p.Stats(); s.Panics != how.panics || s.Failed != how.failed || s.Builds != 3 {
						t.Errorf("stats are %+v", s)
					}
					accounted(t, p)
					p.Request(3)
					synctest.Wait()
					same(t, "publications at last", published, []int{want, 3})
					if gate.held {
						t.Error("the permit is lost")
					}
					p.Close()
				})
			})
		}
	}
}

// What was told of a panic outside a build says so.
func TestP15Told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		calls := 0
		p := New(NewGate(GateOptions{}), Options[int]{OnError: func(err error) { told = append(told, err) }},
			func(_ context.Context, in int) (int, error) { return in, nil },
			func(int, int) {
				calls++
				switch calls {
				case 1:
					panic("boom")
				case 2:
					runtime.Goexit()
				}
			})
		p.Request(1)
		pass(time.Second)
		if len(told) != 2 || !strings.Contains(told[0].Error(), "boom") || !errors.Is(told[1], errEnded) {
			t.Errorf("told were %q", told)
		}
	})
}

// Seed row P-15: a worker that died is not restarted for what was cancelled.
func TestP15CancelledIsNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *Pipeline[int, int]
		builds := 0
		p = New(NewGate(GateOptions{}), Options[int]{},
			func(_ context.Context, in int) (int, error) { builds++; return in, nil },
			func(int, int) {
				p.Cancel()
				panic("boom")
			})
		p.Request(1)
		pass(5 * time.Second)
		if s := p.Stats(); builds != 1 || s.Cancelled != 1 || s.Panics != 1 {
			t.Errorf("%d builds, stats are %+v", builds, s)
		}
	})
}
