package assignment

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slicewire/slicewire/internal/wire"
)

// asked is a context that ends after it was asked left times, and knows the
// longest time between two questions.
type asked struct {
	context.Context
	left, times int
	last        time.Time
	longest     time.Duration
}

func (a *asked) Err() error {
	a.times++
	now := time.Now()
	if !a.last.IsZero() {
		a.longest = max(a.longest, now.Sub(a.last))
	}
	a.last = now
	if a.times > a.left {
		return context.Canceled
	}
	return nil
}

// buildKinds are assignments that take every loop of build.
func buildKinds(t testing.TB, n int) map[string][][]byte {
	frames := even(t, n, 10_000, 16)
	shuffled := shuffle(t, frames)
	bad := marshal(t, chunkOf(nil, part{"x", "a", nil}, part{"000", "001", []int32{-1}}))
	return map[string][][]byte{
		"sorted":           frames,
		"shuffled":         shuffled,
		"sorted, faulty":   append(frames[:len(frames):len(frames)], bad),
		"shuffled, faulty": append(shuffled[:1:1], bad),
	}
}

func gathered(t testing.TB, frames [][]byte) *assembler {
	t.Helper()
	asm := &assembler{maxBytes: 1 << 30}
	for _, f := range frames {
		if _, _, err := asm.frame(f); err != nil {
			t.Fatal(err)
		}
	}
	return asm
}

// A build looks at its context all along, and goes no further once it has ended.
func TestBuildIsInterrupted(t *testing.T) {
	const n = 100_000
	for name, frames := range buildKinds(t, n) {
		t.Run(name, func(t *testing.T) {
			ctx := &asked{Context: t.Context(), left: 1 << 30}
			if a, message := gathered(t, frames).build(ctx, 1, Revision202610); a == nil {
				t.Fatal(message)
			}
			least := 1 // before the index, which is all the work on sorted slices
			if name != "sorted" {
				least = 2 * n / pauseEvery
			}
			all := ctx.times
			if all < least {
				t.Errorf("the context was asked %d times, want %d", all, least)
			}
			for _, left := range []int{0, all / 4, all / 2, 3 * all / 4, all - 1} {
				ctx := &asked{Context: t.Context(), left: left}
				asm := gathered(t, frames)
				if a, message := asm.build(ctx, 1, Revision202610); a != nil || message != "" {
					t.Errorf("ended at question %d of %d: made %v, %q", left, all, a != nil, message)
				}
				if ctx.times != left+1 {
					t.Errorf("ended at question %d of %d, asked %d times", left, all, ctx.times)
				}
				if asm.bytes() != 0 {
					t.Errorf("%d bytes are held on", asm.bytes())
				}
			}
		})
	}
}

// A panic that is not pause's is not swallowed.
func TestBuildPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic is gone")
		}
	}()
	asm := gathered(t, even(t, 10, 10, 4))
	asm.nameEnds[3] = 1 << 30
	asm.build(t.Context(), 1, Revision202610)
}

// P-14: closing and replacing interrupt a build, and give its turn back.
func TestA24CloseDuringBuild(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n := 300_000
	if testing.Short() {
		n = 50_000
	}
	frames := shuffle(t, even(t, n, 10_000, 16))
	asm := gathered(t, frames)
	began := time.Now()
	if a, message := asm.build(t.Context(), 1, Revision202608); a == nil {
		t.Fatal(message)
	}
	whole := time.Since(began)

	for name, end := range map[string]func(*Watcher, Provider){
		"close": func(w *Watcher, _ Provider) { w.Close() },
		"replace": func(w *Watcher, p Provider) {
			w.Configure(with(func(c *Config) { c.Target = "target-two" }), p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			quickest := time.Hour
			for range 3 {
				svc := newService(func(p peer, first *wire.InitialClientConfig) error {
					if first.Target != cfg.Target {
						return hold(p)
					}
					down := p.(*notingPeer).peer.(*memoryPeer).down
					for _, f := range frames {
						down <- f
					}
					down <- marshal(t, metadataOf(1))
					return hold(p)
				})
				g := &noted{gate: make(gate, 1), entered: make(chan struct{}), left: make(chan struct{})}
				var log strings.Builder
				w := NewWatcher(Options{Gate: g, Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
				m := newMemory(svc)
				w.Configure(cfg, m.provider())
				<-g.entered
				began := time.Now()
				end(w, m.provider())
				<-g.left
				quickest = min(quickest, time.Since(began))
				if s := w.Status(); s.Accepted != 0 || s.Invalid != 0 || s.LastError != "" {
					t.Errorf("status %+v, want nothing decided", s)
				}
				w.Close()
				if acks := svc.ackList(); len(acks) > 0 {
					t.Errorf("acks %q", acks)
				}
				if strings.Contains(log.String(), "assignment refused") {
					t.Errorf("the log says %s", &log)
				}
			}
			t.Logf("a build of %v ended %v after its end was asked for", whole, quickest)
			if quickest > whole/4 {
				t.Errorf("it took %v to interrupt a build of %v", quickest, whole)
			}
		})
	}
}

// noted is a Gate that tells of one build.
type noted struct {
	gate
	entered, left chan struct{}
}

func (n *noted) Enter(ctx context.Context, first bool) error {
	err := n.gate.Enter(ctx, first)
	close(n.entered)
	return err
}

func (n *noted) Leave() {
	n.gate.Leave()
	close(n.left)
}

// BenchmarkInterrupt reports how long a build of 1,000,000 slices goes without a
// look at its context.
func BenchmarkInterrupt(b *testing.B) {
	for name, frames := range buildKinds(b, 1_000_000) {
		b.Run(name, func(b *testing.B) {
			longest := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				asm := gathered(b, frames)
				b.StartTimer()
				ctx := &asked{Context: b.Context(), left: 1 << 30, last: time.Now()}
				asm.build(ctx, 1, Revision202610)
				_ = ctx.Err()
				longest = max(longest, ctx.longest)
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		})
	}
}
