package balancer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/selection"
)

// open admits all.
type open struct{}

func (open) TryAcquire(string) (admission.Token, bool) { return 1, true }
func (open) Report(admission.Token, admission.Outcome) {}
func (open) RetryAfter() time.Duration                 { return 0 }

// straight builds an order that is the order of the members, of so many.
type straight uint64

func (s straight) Build(context.Context, selection.Membership) (selection.Order, error) {
	return s, nil
}

func (s straight) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if c.A >= uint64(s) {
		return -1, c
	}
	return int(c.A), selection.Cursor{A: c.A + 1}
}

// doors are guards that a test opens and shuts, and that check what they are told.
type doors struct {
	t  testing.TB
	mu sync.Mutex // guards all
	// made are the guards by endpoint, in order.
	made map[string][]*door
}

func newDoors(t testing.TB) *doors { return &doors{t: t, made: make(map[string][]*door)} }

func (d *doors) Guard(endpoint string) admission.Guard {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := &door{doors: d, outcomes: make(map[admission.Token]admission.Outcome)}
	d.made[endpoint] = append(d.made[endpoint], g)
	return g
}

func (d *doors) of(endpoint string) []*door {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.made[endpoint])
}

type door struct {
	doors    *doors
	shut     atomic.Bool
	after    atomic.Int64 // RetryAfter
	tokens   atomic.Uint64
	outcomes map[admission.Token]admission.Outcome // guarded by doors.mu
}

func (g *door) TryAcquire(method string) (admission.Token, bool) {
	if method != "/test/Method" {
		g.doors.t.Errorf("a guard was asked for method %q", method)
	}
	if g.shut.Load() {
		return 0, false
	}
	return admission.Token(g.tokens.Add(1)), true
}

func (g *door) Report(t admission.Token, o admission.Outcome) {
	g.doors.mu.Lock()
	defer g.doors.mu.Unlock()
	if _, again := g.outcomes[t]; again || t == 0 || uint64(t) > g.tokens.Load() {
		g.doors.t.Errorf("token %d was reported twice, or is not one that was given", t)
	}
	g.outcomes[t] = o
}

func (g *door) RetryAfter() time.Duration { return time.Duration(g.after.Load()) }

// doorWorld is a picker over READY endpoints with doors, in their order.
func doorWorld(t testing.TB, endpoints int, p selection.Policy) (*picker, []*door) {
	t.Helper()
	pk := selectionWorld(t, endpoints, p)
	all := newDoors(t)
	var gs []*door
	for _, ep := range pk.cur.Load().view.endpoints {
		g := all.Guard(ep.name).(*door)
		admitWith(ep, g)
		gs = append(gs, g)
	}
	return pk, gs
}

func admitWith(ep *endpoint, g admission.Guard) { ep.guard.Store(&g) }

func methodInfo() lb.PickInfo {
	info := typedKey("some key", "")
	info.FullMethodName = "/test/Method"
	return info
}

// TestS18RefusedIsPassedOver: every policy goes on to the next endpoint in the same
// pick, and an error says who refused when all do.
func TestS18RefusedIsPassedOver(t *testing.T) {
	const n = 100
	for _, p := range everyPolicy() {
		t.Run(p.String(), func(t *testing.T) {
			pk, gs := doorWorld(t, n, p)
			for i := range gs {
				gs[i].shut.Store(i != 70)
				gs[i].after.Store(int64(time.Hour))
			}
			res, err := pk.Pick(methodInfo())
			if err != nil || res.SubConn.(*stubSubConn).endpoint != 70 {
				t.Fatalf("got %v, %v; want the one that is not refused", res.SubConn, err)
			}
			if c := pk.counts().counts(); c.Ready != 1 || c.Failed != 0 {
				t.Errorf("counts are %+v", c)
			}
			res.Done(lb.DoneInfo{BytesSent: true})
			gs[70].shut.Store(true)
			_, err = pk.Pick(methodInfo())
			if err == nil || isDrop(err) || !strings.Contains(err.Error(), "admission refused every candidate") || !strings.Contains(err.Error(), `endpoint "host-`) {
				t.Errorf("got %v; want an error that names an endpoint and lets RPCs wait for ready", err)
			}
			for i, ep := range pk.cur.Load().view.endpoints {
				if ep.member.Pending() != 0 {
					t.Errorf("endpoint %d has %d RPCs in flight", i, ep.member.Pending())
				}
			}
		})
	}
}

// TestS18TokenIsReportedOnce: for every way in which an attempt ends (S-19).
func TestS18TokenIsReportedOnce(t *testing.T) {
	unavailable := status.Error(codes.Unavailable, "gone")
	for name, tc := range map[string]struct {
		info lb.DoneInfo
		want admission.Outcome
	}{
		"ok":                   {lb.DoneInfo{BytesSent: true, BytesReceived: true}, admission.Outcome{Kind: admission.OK, ResponseSeen: true}},
		"SP-05 not sent":       {lb.DoneInfo{}, admission.Outcome{Kind: admission.NotSent}},
		"not written":          {lb.DoneInfo{Err: unavailable}, admission.Outcome{Kind: admission.SendFailure, Code: 14}},
		"connection broke":     {lb.DoneInfo{Err: unavailable, BytesSent: true}, admission.Outcome{Kind: admission.ConnectionClosed, Code: 14}},
		"server says so":       {lb.DoneInfo{Err: unavailable, BytesSent: true, BytesReceived: true}, admission.Outcome{Kind: admission.RemoteError, Code: 14, ResponseSeen: true}},
		"cancelled":            {lb.DoneInfo{Err: status.FromContextError(context.Canceled).Err(), BytesSent: true}, admission.Outcome{Kind: admission.Cancelled, Code: 1}},
		"deadline":             {lb.DoneInfo{Err: status.FromContextError(context.DeadlineExceeded).Err(), BytesSent: true}, admission.Outcome{Kind: admission.Deadline, Code: 4}},
		"error without status": {lb.DoneInfo{Err: errors.New("odd"), BytesSent: true}, admission.Outcome{Kind: admission.RemoteError, Code: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pk, gs := doorWorld(t, 2, selection.Custom("first", first{}))
				res, err := pk.Pick(methodInfo())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				res.Done(tc.info)
				tc.want.Elapsed = 3 * time.Second
				if got := gs[0].outcomes; len(got) != 1 || got[1] != tc.want {
					t.Errorf("told %+v, want %+v", got, tc.want)
				}
			})
		})
	}
}

// TestS18TokensUnderLoad: many picks and endings at once, in another order; every
// token is reported once, and at the end nothing is in flight.
func TestS18TokensUnderLoad(t *testing.T) {
	const workers, picks = 8, 2000
	for _, p := range []selection.Policy{selection.P2C(), selection.Weighted(nil)} {
		pk, gs := doorWorld(t, 10, p)
		gs[3].shut.Store(true)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				var open []func(lb.DoneInfo)
				for i := range picks {
					res, err := pk.Pick(methodInfo())
					if err != nil {
						t.Error(err)
						return
					}
					open = append(open, res.Done)
					if i%7 == 0 {
						for _, done := range open {
							done(lb.DoneInfo{BytesSent: true})
						}
						open = open[:0]
					}
				}
				for _, done := range open {
					done(lb.DoneInfo{})
				}
			})
		}
		all.Wait()
		total := 0
		for i, g := range gs {
			if n := uint64(len(g.outcomes)); n != g.tokens.Load() {
				t.Errorf("%v: endpoint %d gave %d tokens, %d were reported", p, i, g.tokens.Load(), n)
			}
			total += len(g.outcomes)
			if n := pk.cur.Load().view.endpoints[i].member.Pending(); n != 0 {
				t.Errorf("%v: endpoint %d has %d RPCs in flight", p, i, n)
			}
		}
		if total != workers*picks || len(gs[3].outcomes) != 0 {
			t.Errorf("%v: %d reports of %d picks, %d of who refused all", p, total, workers*picks, len(gs[3].outcomes))
		}
	}
}

// told counts the picker updates that gRPC is given.
type told struct {
	*fakeConn
	updates atomic.Int64
}

func (c *told) UpdateState(lb.State) { c.updates.Add(1) }

// TestS18RefusedPickIsWokenUp: an RPC that waits for ready, and that everybody
// refuses, is picked again once it makes sense. S-20: an endpoint that returns has a
// new guard.
func TestS18RefusedPickIsWokenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newDoors(t)
		cc := &told{fakeConn: newFakeConn(t)}
		router := NewRouter(RouterOptions{Gate: NewGate(), Admission: all})
		defer router.Close()
		p := newPolicy(cc, lb.BuildOptions{})
		defer p.Close()
		resolve := func(addrs ...string) {
			if err := p.UpdateClientConnState(unsharded(router, addrs...)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		resolve("a", "b")
		_, _ = p.picker.Pick(methodInfo())
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			g := all.of(name)
			if len(g) != 1 {
				t.Fatalf("%q has %d guards, want 1", name, len(g))
			}
			g[0].shut.Store(true)
		}
		// Another endpoint's time may come before, so nobody waits for more than 1 s.
		for after, want := range map[time.Duration]time.Duration{
			0: 10 * time.Millisecond, 200 * time.Millisecond: 200 * time.Millisecond, time.Hour: time.Second,
		} {
			for _, name := range []string{"a", "b"} {
				all.of(name)[0].after.Store(int64(after))
			}
			before := cc.updates.Load()
			for range 10 {
				if _, err := p.picker.Pick(methodInfo()); err == nil || !strings.Contains(err.Error(), "may be asked again in "+after.String()) {
					t.Fatalf("got %v, want all to refuse", err)
				}
			}
			time.Sleep(want - time.Nanosecond)
			synctest.Wait()
			if n := cc.updates.Load(); n != before {
				t.Errorf("woken up %d times before it makes sense", n-before)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := cc.updates.Load(); n != before+1 {
				t.Errorf("woken up %d times, want once for all", n-before)
			}
		}
		resolve("a")
		resolve("b", "a")
		if a, b := all.of("a"), all.of("b"); len(a) != 1 || len(b) != 2 {
			t.Fatalf("%d and %d guards, want the one of who stayed and two of who returned", len(a), len(b))
		}
		_, _ = p.picker.Pick(methodInfo())
		synctest.Wait()
		ep := p.picker.cur.Load().view.byName["b"]
		if s := ep.cur.Load().connectivity; s != connectivity.Ready {
			t.Fatalf("b is %v", s)
		}
		res, err := p.picker.Pick(methodInfo())
		if err != nil || res.SubConn.(*fakeSubConn).addr != "b" {
			t.Fatalf("got %v, %v; want b, whose new guard knows nothing", res.SubConn, err)
		}
		res.Done(lb.DoneInfo{BytesSent: true})
		if old, now := all.of("b")[0], all.of("b")[1]; len(old.outcomes) != 0 || len(now.outcomes) != 1 {
			t.Errorf("the old guard was told %d outcomes, the new one %d", len(old.outcomes), len(now.outcomes))
		}
	})
}
