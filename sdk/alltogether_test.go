package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// TestS01EverythingAtOnce: unary RPCs and streams run while policies are replaced
// by one another in every order, endpoints come, leave and retire, one endpoint
// fails calls until its breaker opens and closes again, and in the end Close comes
// among publications. No RPC fails but those that Close refuses, each server accepts
// one connection for each of its lives, the next picks follow each publication, and
// nothing is in flight at the end. It is one test for what S-08, S-09, S-13, S-18,
// S-21, P-08 and P-33 say apart. It lasts 2 s.
func TestS01EverythingAtOnce(t *testing.T) {
	w := newWhirl(t)
	var busy, load sync.WaitGroup
	halt := make(chan struct{})
	for i := range 3 {
		load.Go(func() { w.unary(i) })
		load.Go(func() { w.streams(i) })
	}
	busy.Go(func() { w.comeAndGo(halt, "x1") })
	busy.Go(func() { w.flicker(halt, "x2", "x3") })
	busy.Go(func() { w.breakAndMend(halt, "flaky") })

	policies := append(w.customs(), selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}), selection.CustomBuilt("order", inOrder{}, false))
	w.transition(selection.P2C(), policies[0])
	last := 0
	for _, next := range allPairs(len(policies)) {
		w.transition(policies[last], policies[next])
		last = next
	}
	eventually(t, "breakers that opened and closed again", func() bool { return w.moves(admission.Open) > 0 && w.moves(admission.Closed) > 0 })
	eventually(t, "lives of an endpoint", func() bool { return w.lives["x1"].Load() >= 5 })
	close(halt)
	busy.Wait()
	w.closeAmongPublications(policies)
	load.Wait()

	w.verdict()
}

// allPairs is a walk from 0 over n that takes each step from one to another once.
func allPairs(n int) []int {
	left := make([][]int, n)
	for i := range left {
		for j := range n {
			if j != i {
				left[i] = append(left[i], j)
			}
		}
	}
	var walk []int
	var visit func(int)
	visit = func(i int) {
		for len(left[i]) > 0 {
			j := left[i][0]
			left[i] = left[i][1:]
			visit(j)
		}
		walk = append(walk, i)
	}
	visit(0)
	slices.Reverse(walk)
	return walk[1:]
}

// whirl is the client, its servers, and what was seen of them.
type whirl struct {
	*fixture
	t       *testing.T
	tokens  *breakerLedger
	members sync.Map // *selection.Member to true: all that a policy has seen
	lives   map[string]*atomic.Int64
	calls   atomic.Int64
	asked   atomic.Int64
	retired atomic.Bool // some endpoint was seen to

	mu       sync.Mutex // guards what follows
	present  map[string]bool
	failures []error
	edges    map[admission.State]int
}

const stableServers = 3

func newWhirl(t *testing.T) *whirl {
	w := &whirl{
		t: t, present: make(map[string]bool), edges: make(map[admission.State]int),
		lives: map[string]*atomic.Int64{"x1": {}, "x2": {}, "x3": {}},
	}
	breaker, err := admission.NewBreaker(admission.BreakerOptions{
		MinThroughput: 5, FailureRatio: 0.3, Window: time.Second, OpenFor: 50 * time.Millisecond,
		Observer: func(e admission.Edge) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.edges[e.To]++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.tokens = &breakerLedger{newLedger(), breaker}
	names := []string{"e1", "e2", "flaky"}
	w.fixture = startPlain(t, append(slices.Clone(names), "x1", "x2", "x3"), selection.P2C(), quick(), sdk.WithAdmission(w.tokens),
		sdk.WithServiceConfig("{"+retryConfig+"}"),
		// Its data follows the endpoints late, so that those that leave have to retire.
		sdk.WithSelector("late", selection.CustomBuilt("late", lateOrder{}, false)),
		sdk.WithSelector("rr", selection.RoundRobin()))
	w.resolve(func(present map[string]bool) {
		for _, name := range names {
			present[name] = true
		}
	})
	w.whoBy(t, "rr", "") // from now on all are connected
	eventually(t, "all READY", func() bool {
		all := w.client.Status().Endpoints
		return len(all) == stableServers && !slices.ContainsFunc(all, func(e balancer.EndpointStatus) bool { return e.State != connectivity.Ready })
	})
	return w
}

// resolve changes which endpoints there are.
func (w *whirl) resolve(change func(present map[string]bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.present)
	if err := w.Resolve(slices.Collect(maps.Keys(w.present))...); err != nil {
		w.failures = append(w.failures, err)
	}
}

func (w *whirl) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Errorf(format, args...))
}

func (w *whirl) moves(to admission.State) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.edges[to]
}

// context is for one call by one of the selectors.
func (w *whirl) context(i int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	ctx = interceptors.WithSelector(ctx, []string{"", "", "late", "rr"}[i%4])
	return interceptors.WithKeyString(ctx, fmt.Sprint("key-", i)), cancel
}

// unary sends RPCs until the client is closed.
func (w *whirl) unary(from int) {
	for i := from; ; i++ {
		ctx, cancel := w.context(i)
		_, err := w.echo.Who(ctx, "")
		cancel()
		switch {
		case errors.Is(err, sdk.ErrClosed):
			return
		case err != nil:
			w.fail("a unary RPC: %w", err)
		}
		w.calls.Add(1)
		time.Sleep(time.Millisecond) // the test's pace: two cores have more to do
	}
}

// streams opens one stream after the other until the client is closed. Each stays
// at its server, over swaps, and over its server's retirement.
func (w *whirl) streams(from int) {
	for i := from; ; i++ {
		err := w.stream(i)
		switch {
		case errors.Is(err, sdk.ErrClosed):
			return
		case err != nil:
			w.fail("a stream: %w", err)
		}
		w.calls.Add(1)
	}
}

func (w *whirl) stream(i int) error {
	ctx, cancel := w.context(i)
	defer cancel()
	s, err := w.echo.Talk(ctx)
	if err != nil {
		return err
	}
	server := ""
	for range 20 {
		name, err := s.Ask("")
		if err != nil {
			return err
		}
		if server != "" && name != server {
			w.fail("a stream moved from %s to %s", server, name)
		}
		server = name
		time.Sleep(2 * time.Millisecond) // the test's pace
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// comeAndGo gives an endpoint one whole life after the other: it is connected, then
// it leaves, and its connection ends once nothing runs there.
func (w *whirl) comeAndGo(halt <-chan struct{}, name string) {
	for !done(halt) {
		w.lives[name].Add(1)
		w.resolve(func(present map[string]bool) { present[name] = true })
		isReady := func(e balancer.EndpointStatus) bool { return e.Name == name && e.State == connectivity.Ready }
		for deadline := time.Now().Add(10 * time.Second); !slices.ContainsFunc(w.client.Status().Endpoints, isReady); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				w.fail("%s has come, and is not READY", name)
				return
			}
		}
		w.resolve(func(present map[string]bool) { delete(present, name) })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := w.Backend(name).WaitLive(ctx, 0)
		cancel()
		if err != nil {
			w.fail("%s has left: %w", name, err)
			return
		}
		if n, lives := w.Backend(name).Connections().Accepted, int(w.lives[name].Load()); n != lives {
			w.fail("%s accepted %d connections in %d lives", name, n, lives)
		}
	}
}

// flicker has endpoints come and go, connected or not.
func (w *whirl) flicker(halt <-chan struct{}, names ...string) {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-halt:
			return
		case <-tick.C:
		}
		name := names[i%len(names)]
		w.resolve(func(present map[string]bool) {
			if present[name] {
				delete(present, name)
				return
			}
			present[name] = true
			w.lives[name].Add(1)
		})
	}
}

// breakAndMend has an endpoint answer UNAVAILABLE until its breaker opens, then
// work until it closes, time and again.
func (w *whirl) breakAndMend(halt <-chan struct{}, name string) {
	for {
		opened, closed := w.moves(admission.Open), w.moves(admission.Closed)
		w.Backend(name).FailCalls(codes.Unavailable)
		for w.moves(admission.Open) == opened && !done(halt) {
			time.Sleep(time.Millisecond)
		}
		w.Backend(name).Heal()
		for w.moves(admission.Closed) == closed && !done(halt) {
			time.Sleep(time.Millisecond)
		}
		if done(halt) {
			return
		}
	}
}

func done(halt <-chan struct{}) bool {
	select {
	case <-halt:
		return true
	default:
		return false
	}
}

// customs are two policies that note which calls they were asked for.
func (w *whirl) customs() []selection.Policy {
	var both []selection.Policy
	for _, favourite := range []string{"e1", "e2"} {
		name := "for-" + favourite
		both = append(both, selection.Custom(name, selectFunc(func(in selection.Input) int {
			for i := range in.Len() {
				w.members.Store(in.Member(i), true)
			}
			if p, ok := in.Context.Value(probeKey{}).(*probe); ok {
				p.note(name)
			}
			return pin{favourite}.Select(in)
		})))
	}
	return both
}

// probe is a call whose picks are noted; it travels in the call's context.
type probe struct {
	mu sync.Mutex // guards by
	by []string
}

type probeKey struct{}

func (p *probe) note(policy string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by = append(p.by, policy)
}

// transition publishes a policy in another's place, and sends calls that must be
// routed by it: by a custom one each of their attempts, by the others none.
func (w *whirl) transition(from, to selection.Policy) {
	pub := w.publish(w.t, sdk.DefaultSelector, to)
	status := w.selectorStatus(w.t, sdk.DefaultSelector)
	if !pub.Changed || status.InForce != pub.Generation || status.Policy != to.String() {
		w.fail("%v to %v: published %+v, and in force is %s, generation %d", from, to, pub, status.Policy, status.InForce)
	}
	for range 5 {
		p := new(probe)
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), probeKey{}, p), 10*time.Second)
		_, err := w.echo.Who(ctx, "")
		cancel()
		if err != nil {
			w.fail("%v to %v: %w", from, to, err)
		}
		custom := to.Kind() == selection.KindCustom
		if custom && len(p.by) == 0 {
			w.fail("%v to %v: the next pick did not ask the new policy", from, to)
		}
		for _, by := range p.by {
			w.asked.Add(1)
			if !custom || by != to.String() {
				w.fail("%v to %v: one of the next picks asked %s", from, to, by)
			}
		}
	}
	for range 10 { // of the load under it
		if w.client.Status().Retiring > 0 {
			w.retired.Store(true)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// closeAmongPublications closes the client while policies are published.
func (w *whirl) closeAmongPublications(policies []selection.Policy) {
	var publishers sync.WaitGroup
	var applied atomic.Uint64
	var closed atomic.Bool
	begun := make(chan struct{})
	publishers.Go(func() {
		for i := 0; ; i++ {
			after := closed.Load()
			pub, err := w.client.Selector(sdk.DefaultSelector).Publish(policies[i%len(policies)], balancer.FromCode)
			switch {
			case errors.Is(err, sdk.ErrClosed):
				return
			case err != nil:
				w.fail("a publication: %w", err)
				return
			case after:
				w.fail("a publication after Close: %+v", pub)
				return
			case pub.Generation <= applied.Load():
				w.fail("a publication has generation %d after %d", pub.Generation, applied.Load())
			}
			applied.Store(pub.Generation)
			if i == 10 {
				close(begun)
			}
		}
	})
	<-begun
	if err := w.client.Close(); err != nil {
		w.fail("Close: %w", err)
	}
	closed.Store(true)
	at := w.selectorStatus(w.t, sdk.DefaultSelector).Generation
	publishers.Wait()
	if after := w.selectorStatus(w.t, sdk.DefaultSelector).Generation; at != after || at != applied.Load() {
		w.fail("generation %d when Close returned, %d later, and %d was told", at, after, applied.Load())
	}
}

// verdict says what was wrong.
func (w *whirl) verdict() {
	t := w.t
	w.mu.Lock()
	failures := w.failures
	w.mu.Unlock()
	for _, err := range failures[:min(len(failures), 10)] {
		t.Error(err)
	}
	if n := len(failures); n > 10 {
		t.Errorf("%d more", n-10)
	}
	for _, name := range []string{"e1", "e2", "flaky"} {
		if n := w.Backend(name).Connections().Accepted; n != 1 {
			t.Errorf("%s stayed, and accepted %d connections", name, n)
		}
	}
	for name, lives := range w.lives {
		if n := w.Backend(name).Connections().Accepted; n > int(lives.Load()) {
			t.Errorf("%s accepted %d connections in %d lives", name, n, lives.Load())
		}
	}
	kinds := w.tokens.balanced(t)
	if kinds[admission.RemoteError] == 0 || w.asked.Load() == 0 || w.calls.Load() < 1000 {
		t.Errorf("%d calls, attempts ended as %v, custom policies were asked %d times for the calls that were watched",
			w.calls.Load(), kinds, w.asked.Load())
	}
	if n := w.client.Status().Picks; n.Retries == 0 || n.Refused == 0 || !w.retired.Load() {
		t.Errorf("%d retries, %d refusals, endpoints retired: %v", n.Retries, n.Refused, w.retired.Load())
	}
	eventually(t, "nothing retires", func() bool { return w.client.Status().Retiring == 0 })
	w.members.Range(func(m, _ any) bool {
		eventually(t, "nothing in flight", func() bool { return m.(*selection.Member).Pending() == 0 })
		return true
	})
}

// lateOrder is inOrder, built a little late.
type lateOrder struct{ inOrder }

func (l lateOrder) Build(ctx context.Context, m selection.Membership) (selection.Order, error) {
	time.Sleep(2 * time.Millisecond)
	return l.inOrder.Build(ctx, m)
}

// breakerLedger keeps account of the tokens of circuit breakers.
type breakerLedger struct {
	*ledger
	breaker *admission.Breaker
}

func (l *breakerLedger) Guard(endpoint string) admission.Guard {
	return &breakerAccount{ledgerGuard{l.ledger, endpoint}, l.breaker.Guard(endpoint), sync.Map{}}
}

type breakerAccount struct {
	account ledgerGuard
	circuit admission.Guard
	tokens  sync.Map // the account's to the circuit's
}

func (a *breakerAccount) TryAcquire(method string) (admission.Token, bool) {
	own, ok := a.circuit.TryAcquire(method)
	if !ok {
		return 0, false
	}
	token, _ := a.account.TryAcquire(method)
	a.tokens.Store(token, own)
	return token, true
}

func (a *breakerAccount) Report(token admission.Token, o admission.Outcome) {
	own, ok := a.tokens.LoadAndDelete(token)
	a.account.Report(token, o)
	if ok {
		a.circuit.Report(own.(admission.Token), o)
	}
}

func (a *breakerAccount) RetryAfter() time.Duration { return a.circuit.RetryAfter() }
