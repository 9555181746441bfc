package rebuild

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBuild = errors.New("cannot build")

// thing is what the tests build: large enough not to share an allocation, small
// enough to be many. How large it says it is, a test's Bytes tells.
type thing struct {
	in int
	_  [8]uint64
}

// bench is pipelines behind one gate, and what they did.
type bench struct {
	gate *Gate

	mu        sync.Mutex // guards what follows
	building  int
	most      int // builds at one time
	begun     []int
	published map[*Pipeline[int, *thing]][]int
}

func newBench(o GateOptions) *bench {
	return &bench{gate: NewGate(o), published: make(map[*Pipeline[int, *thing]][]int)}
}

// pipeline adds a pipeline; a nil body builds at once.
func (b *bench) pipeline(o Options[*thing], body func(ctx context.Context, in int) error) *Pipeline[int, *thing] {
	var p *Pipeline[int, *thing]
	p = New(b.gate, o, func(ctx context.Context, in int) (*thing, error) {
		b.mu.Lock()
		b.building++
		b.most = max(b.most, b.building)
		b.begun = append(b.begun, in)
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.building--
			b.mu.Unlock()
		}()
		if body != nil {
			if err := body(ctx, in); err != nil {
				return nil, err
			}
		}
		return &thing{in: in}, nil
	}, func(in int, out *thing) {
		if in != out.in {
			panic("the result of another input")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.published[p] = append(b.published[p], in)
	})
	return p
}

// of returns what p published so far.
func (b *bench) of(p *Pipeline[int, *thing]) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.published[p])
}

func (b *bench) builds() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.begun)
}

// free fails the test if the permit was lost.
func (b *bench) free(t *testing.T) {
	t.Helper()
	synctest.Wait()
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	if b.gate.held || len(b.gate.first)+len(b.gate.others) > 0 {
		t.Errorf("at the end the permit is held: %v; first %d, others %d wait for it", b.gate.held, len(b.gate.first), len(b.gate.others))
	}
}

// accounted fails the test if requests of p went astray. Nothing is active.
func accounted(t *testing.T, p *Pipeline[int, *thing]) {
	t.Helper()
	if s := p.Stats(); s.Requests != s.Published+s.Coalesced+s.Cancelled {
		t.Errorf("%d requests, but %d published, %d coalesced, %d cancelled", s.Requests, s.Published, s.Coalesced, s.Cancelled)
	}
}

func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}

// pass lets time pass and what is due then happen; it also tells the race detector
// that this happened before what follows, as time.Sleep does not.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func takes(d time.Duration) func(context.Context, int) error {
	return func(context.Context, int) error {
		time.Sleep(d)
		return nil
	}
}

// untilDone is a build that ends with its context alone.
func untilDone(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}
