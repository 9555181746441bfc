package rebuild

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Seed row P-14: Close at every stage. It returns at once, or once the build has
// returned; nothing is published after it and the permit goes on.
func TestP14Close(t *testing.T) {
	for name, stage := range map[string]struct {
		body  func(ctx context.Context, in int) error
		bytes func(closing chan struct{}) func(*thing) int64
		ahead bool          // another build holds the permit, for 1 s
		takes time.Duration // Close
		want  Stats
	}{
		"queued at the gate": {ahead: true, want: Stats{Requests: 1, Cancelled: 1}},
		"building, heeds its context": {
			body: untilDone,
			want: Stats{Requests: 1, Cancelled: 1, Builds: 1},
		},
		"building, heedless, succeeds": {
			body: takes(time.Second), takes: 900 * time.Millisecond,
			want: Stats{Requests: 1, Cancelled: 1, Builds: 1},
		},
		"building, heedless, fails": {
			body:  func(context.Context, int) error { time.Sleep(time.Second); return errBuild },
			takes: 900 * time.Millisecond,
			want:  Stats{Requests: 1, Cancelled: 1, Builds: 1},
		},
		"building, heedless, panics": {
			body:  func(context.Context, int) error { time.Sleep(time.Second); panic("late") },
			takes: 900 * time.Millisecond,
			want:  Stats{Requests: 1, Cancelled: 1, Builds: 1},
		},
		"backing off": {
			body: func(context.Context, int) error { return errBuild },
			want: Stats{Requests: 1, Cancelled: 1, Builds: 4, Failed: 4}, // at 0, 10, 30, 70 ms
		},
		"built, not yet published": {
			bytes: func(closing chan struct{}) func(*thing) int64 {
				return func(*thing) int64 { <-closing; time.Sleep(time.Millisecond); return 0 }
			},
			takes: time.Millisecond,
			want:  Stats{Requests: 1, Cancelled: 1, Builds: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(GateOptions{})
				if stage.ahead {
					b.pipeline(Options[*thing]{}, takes(time.Second)).Request(1)
					synctest.Wait()
				}
				closing := make(chan struct{})
				o := Options[*thing]{OnError: func(error) {
					select {
					case <-closing:
						t.Error("an error was told after Close had begun")
					default:
					}
				}}
				if stage.bytes != nil {
					o.Bytes = stage.bytes(closing)
				}
				p := b.pipeline(o, stage.body)
				p.Request(2)
				pass(100 * time.Millisecond)
				other := b.pipeline(Options[*thing]{}, nil)
				other.Request(3)
				synctest.Wait()

				began := time.Now()
				close(closing)
				p.Close()
				if d := time.Since(began); d != stage.takes {
					t.Errorf("Close took %v, want %v", d, stage.takes)
				}
				p.Close()
				p.Request(4)
				p.Cancel()
				if s := p.Stats(); s != stage.want {
					t.Errorf("stats are %+v, want %+v", s, stage.want)
				}
				pass(5 * time.Second)
				same(t, "publications", b.of(p), nil)
				same(t, "publications of the other", b.of(other), []int{3})
				if b.most != 1 {
					t.Errorf("%d builds at one time", b.most)
				}
				b.free(t)
			})
		})
	}
}

// Seed row P-14 and cancellation flow 5: the permit stays with a cancelled build
// until it has returned.
func TestP14NoOtherBuildBeforeReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		var cancelled, returned, started time.Time
		p := b.pipeline(Options[*thing]{}, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			cancelled = time.Now()
			time.Sleep(700 * time.Millisecond)
			returned = time.Now()
			return nil
		})
		other := b.pipeline(Options[*thing]{}, func(context.Context, int) error { started = time.Now(); return nil })
		p.Request(1)
		synctest.Wait()
		other.Request(1)
		pass(50 * time.Millisecond)
		began := time.Now()
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				p.Close()
				if d := time.Since(began); d != 700*time.Millisecond {
					t.Errorf("Close returned after %v", d)
				}
			})
		}
		closers.Wait()
		synctest.Wait()
		if !cancelled.Equal(began) || started.Before(returned) || started.IsZero() {
			t.Errorf("Close began at %v, the build saw it at %v and returned at %v, the other started at %v", began, cancelled, returned, started)
		}
		b.free(t)
	})
}

// Close waits for a publication that has begun, so that none comes after it.
func TestP14CloseDuringPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := false
		p := New(NewGate(GateOptions{}), Options[int]{},
			func(_ context.Context, in int) (int, error) { return in, nil },
			func(int, int) { time.Sleep(time.Second); done = true })
		p.Request(1)
		pass(time.Millisecond)
		p.Close()
		if !done {
			t.Error("Close returned during publish")
		}
		if s := p.Stats(); s.Published != 1 || s.Cancelled != 0 {
			t.Errorf("stats are %+v", s)
		}
	})
}

// Cancel forgets what was asked before it, and nothing that is asked after it,
// at whatever stage.
func TestCancelThenRequest(t *testing.T) {
	for name, stage := range map[string]struct {
		body  func(ctx context.Context, in int) error
		ahead bool
	}{
		"queued at the gate": {ahead: true},
		"building":           {body: func(ctx context.Context, in int) error { return untilDoneIf(ctx, in == 1) }},
		"building, heedless": {body: takes(time.Second)},
		"backing off": {body: func(_ context.Context, in int) error {
			if in == 1 {
				return errBuild
			}
			return nil
		}},
		"idle": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(GateOptions{})
				if stage.ahead {
					b.pipeline(Options[*thing]{}, takes(time.Second)).Request(0)
					synctest.Wait()
				}
				p := b.pipeline(Options[*thing]{}, stage.body)
				p.Request(1)
				pass(100 * time.Millisecond)
				p.Cancel()
				p.Request(2)
				pass(5 * time.Second)
				want := []int{2}
				if name == "idle" {
					want = []int{1, 2}
				}
				same(t, "publications", b.of(p), want)
				p.Cancel()
				pass(5 * time.Second)
				accounted(t, p)
				b.free(t)
			})
		})
	}
}

func untilDoneIf(ctx context.Context, wait bool) error {
	if wait {
		return untilDone(ctx, 0)
	}
	return nil
}

// Cancel and Request from everywhere, with builds that heed it and builds that do
// not: the last request that no Cancel follows is the last published.
func TestCancelAgainstRequest(t *testing.T) {
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(GateOptions{})
			var pipelines []*Pipeline[int, *thing]
			for i := range 3 {
				pipelines = append(pipelines, b.pipeline(Options[*thing]{}, func(ctx context.Context, in int) error {
					switch (in + i) % 4 {
					case 0:
						return errBuild
					case 1:
						return ctx.Err()
					}
					return nil
				}))
			}
			var callers sync.WaitGroup
			for _, p := range pipelines {
				for range 3 {
					callers.Go(func() {
						for i := range 200 {
							p.Request(i)
							if i%3 == 0 {
								p.Cancel()
							}
							if i%7 == 0 {
								p.Stats()
							}
						}
					})
				}
			}
			callers.Wait()
			for i, p := range pipelines {
				p.Request(1002 - i)
			}
			pass(10 * time.Second)
			for i, p := range pipelines {
				if got := b.of(p); len(got) == 0 || got[len(got)-1] != 1002-i {
					t.Errorf("round %d: pipeline %d: the last published is not %d; stats are %+v", round, i, 1002-i, p.Stats())
				}
				accounted(t, p)
			}
			if b.most != 1 {
				t.Errorf("%d builds at one time", b.most)
			}
			b.free(t)
		})
	}
}

// Close against everything.
func TestP14CloseAgainstRequest(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(GateOptions{})
			var callers sync.WaitGroup
			for range 3 {
				p := b.pipeline(Options[*thing]{}, nil)
				for range 2 {
					callers.Go(func() {
						for i := range 100 {
							p.Request(i)
						}
					})
				}
				callers.Go(p.Cancel)
				callers.Go(func() {
					p.Close()
					n := len(b.of(p))
					p.Request(1000)
					time.Sleep(time.Millisecond)
					if len(b.of(p)) != n {
						t.Error("published after Close")
					}
				})
				defer accounted(t, p)
			}
			callers.Wait()
			b.free(t)
		})
	}
}
