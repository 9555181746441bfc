package health_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slicewire/slicewire/balancer/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// quiet takes what servers of package http say of clients that leave.
var quiet = log.New(io.Discard, "", 0)

func isNoVerdict(err error) bool { return errors.Is(err, health.ErrNoVerdict) }

// stage is a checker whose servers do what the test says, and which knows when each
// was probed and how many probes ran at once. A server it was told nothing of works.
type stage struct {
	mu      sync.Mutex
	start   time.Time
	acts    map[string]func(ctx context.Context) error
	probes  map[string][]time.Duration // since start
	running int
	most    int
}

func newStage() *stage {
	return &stage{
		start:  time.Now(),
		acts:   make(map[string]func(context.Context) error),
		probes: make(map[string][]time.Duration),
	}
}

func (s *stage) Check(ctx context.Context, t health.Target) error {
	s.mu.Lock()
	s.probes[t.Address] = append(s.probes[t.Address], time.Since(s.start))
	s.running++
	s.most = max(s.most, s.running)
	act := s.acts[t.Address]
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	if act == nil {
		return nil
	}
	return act(ctx)
}

// act says what a server does from now on.
func (s *stage) act(address string, f func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts[address] = f
}

func (s *stage) works(address string)  { s.act(address, nil) }
func (s *stage) breaks(address string) { s.act(address, breaks) }
func (s *stage) hangs(address string)  { s.act(address, hangs) }

func breaks(context.Context) error { return errBroken }

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// play does one act after the other, one a probe; the last one stays.
func (s *stage) play(address string, acts ...func(context.Context) error) {
	next := 0 // the registry has one probe of a server in flight, and that is tested
	s.act(address, func(ctx context.Context) error {
		act := acts[min(next, len(acts)-1)]
		next++
		return act(ctx)
	})
}

// script is acts by letter: S works, F fails.
func (s *stage) script(address, letters string) {
	var acts []func(context.Context) error
	for _, l := range letters {
		if l == 'S' {
			acts = append(acts, func(context.Context) error { return nil })
		} else {
			acts = append(acts, breaks)
		}
	}
	s.play(address, acts...)
}

func (s *stage) times(address string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.probes[address])
}

// count is how often a server was probed.
func (s *stage) count(address string) int { return len(s.times(address)) }

// atOnce is the most probes that ran at once.
func (s *stage) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// inBubble runs a test in virtual time, with a registry that probes the stage once a
// second without jitter, unless options say otherwise.
func inBubble(t *testing.T, o health.Options, test func(t *testing.T, r *health.Registry, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		if o.Checker == nil {
			o.Checker = s
		}
		if o.Interval == 0 {
			o.Interval = time.Second
		}
		if o.Jitter == 0 {
			o.Jitter = -1
		}
		r := newRegistry(t, o)
		defer r.Close()
		test(t, r, s)
	})
}

func newRegistry(t testing.TB, o health.Options) *health.Registry {
	t.Helper()
	r, err := health.NewRegistry(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newView(t testing.TB, r *health.Registry, notify func(string), targets ...health.Target) *health.View {
	t.Helper()
	v, err := r.NewView(notify)
	if err != nil {
		t.Fatal(err)
	}
	set(t, v, targets...)
	return v
}

func set(t testing.TB, v *health.View, targets ...health.Target) {
	t.Helper()
	if err := v.Set(targets); err != nil {
		t.Fatal(err)
	}
}

// named makes targets whose address is their name.
func named(names ...string) []health.Target {
	targets := make([]health.Target, len(names))
	for i, n := range names {
		targets[i] = health.Target{Name: n, Address: n}
	}
	return targets
}

func numbered(n int) []health.Target {
	targets := make([]health.Target, n)
	for i := range targets {
		targets[i] = health.Target{Name: fmt.Sprintf("backend-%04d", i), Address: fmt.Sprintf("10.0.%d.%d:443", i>>8, i&255)}
	}
	return targets
}

// pass lets virtual time go by and everything that is then due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func wantState(t *testing.T, v *health.View, name string, want health.State) {
	t.Helper()
	if got := v.Cell(name).State(); got != want {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}
