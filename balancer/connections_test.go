package balancer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
)

// TestConnectionsValidate: all that is wrong is said at once.
func TestConnectionsValidate(t *testing.T) {
	bad := Connections{
		Min: -1, Max: -2, Streams: -3, ScaleDownAfter: -4, MaxAge: -5, MinReady: -6,
		Unresponsive: Unresponsive{Deadlines: -7, Window: -8},
	}
	err := bad.Validate()
	for _, field := range []string{"Min is", "Max is", "Streams", "ScaleDownAfter", "MaxAge", "MinReady", "Unresponsive.Deadlines", "Unresponsive.Window"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v; want something about %s", err, field)
		}
	}
	for name, c := range map[string]Connections{
		"Max is 2 and Min 3": {Min: 3, Max: 2},
		"at most 1000":       {Max: 1001},
		"1h0m0s":             {Unresponsive: Unresponsive{Window: 2 * time.Hour}},
		"100ms":              {MaxAge: time.Millisecond},
		"87600h":             {MaxAge: math.MaxInt64},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []Connections{{}, {Min: 3}, {Max: 3}, {Min: 3, Max: 3, Streams: 1, MaxAge: time.Hour}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r := NewRouter(RouterOptions{Connections: Connections{Min: 3}})
	if c := r.Connections(); c.Min != 3 || c.Max != 3 || c.Streams != 100 || c.ScaleDownAfter != 3*time.Minute || c.Unresponsive.Window != 10*time.Second {
		t.Errorf("with defaults: %+v", c)
	}
	if err := r.SetConnections(bad); err == nil || r.Connections().Min != 3 {
		t.Errorf("bad settings: %v, and in force is %+v", err, r.Connections())
	}
	r.Close()
	if err := r.SetConnections(Connections{}); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed Router: %v", err)
	}
	r = NewRouter(RouterOptions{Connections: bad})
	defer r.Close()
	if c := r.Connections(); c != *oneConnection {
		t.Errorf("bad options: %+v", c)
	}
}

// TestG41SettingsChange: connections follow the settings, and no RPC is dropped.
func TestG41SettingsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{}, "a", "b")
		all := w.beginMany(40)
		for _, step := range []struct {
			c    Connections
			want int
		}{
			{Connections{Min: 3}, 3},
			{Connections{Min: 1, Max: 2}, 2},
			{Connections{Min: 5}, 5},
			{Connections{}, 1},
			{Connections{Min: 2, MaxAge: time.Hour}, 2},
			{Connections{MaxAge: time.Hour}, 1},
			{Connections{}, 1},
		} {
			w.set(step.c)
			for _, addr := range []string{"a", "b"} {
				if s := w.states(addr); s.Ready != step.want {
					t.Errorf("%+v: %s has %+v, want %d", step.c, addr, s, step.want)
				}
			}
			all = append(all, w.beginMany(20)...)
		}
		if err := w.router.SetConnections(Connections{Min: -1}); err == nil {
			t.Error("bad settings were accepted")
		}
		for _, r := range all {
			if r.on.shut.Load() && r.on.active == 0 {
				t.Error("RPCs are lost")
			}
		}
		endAll(all)
		for _, addr := range []string{"a", "b"} {
			w.wantStates(addr, ConnectionStates{Ready: 1})
			if n := len(w.cc.open(addr)); n != 1 {
				t.Errorf("%s has %d connections open, want 1", addr, n)
			}
		}
		w.nothingLeft("a", "b")
	})
}

// TestEC05MovedWithManyConnections: an address that changes under load: RPCs go to
// the new one, and the old one is left alone.
func TestEC05MovedWithManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Min: 3, Max: 4, Streams: 10}, "a0")
		move := func(i int) { w.move("h1", fmt.Sprint("a", i)) }
		move(0)
		for i := 1; i <= 50; i++ {
			all := w.beginMany(30)
			move(i)
			if s := w.states("h1"); s.Ready < 3 {
				t.Fatalf("move %d: %+v", i, s)
			}
			if r := w.begin(); r.on.addr != fmt.Sprint("a", i) {
				t.Fatalf("move %d: an RPC went to %s", i, r.on.addr)
			} else {
				r.end()
			}
			endAll(all)
			if n := w.cc.count(w.cc.opened, fmt.Sprint("a", i-1)); n != 0 {
				t.Fatalf("move %d: %d connections to the old address", i, n)
			}
		}
		w.nothingLeft("a50")
	})
}

// manyConnections has several connections to each endpoint, or one that is counted.
func manyConnections(tb testing.TB, endpoints int, c Connections, policy selection.Policy) *picker {
	tb.Helper()
	pk := selectionWorld(tb, endpoints, policy)
	for _, ep := range pk.cur.Load().view.endpoints {
		ep.pool.limits = c.filled()
		up := lb.State{ConnectivityState: connectivity.Ready, Picker: ep.cur.Load().picker}
		for range ep.pool.limits.Min {
			adopt(pk.policy, ep).UpdateState(up)
		}
		if _, ok := ep.cur.Load().picker.(*spread); !ok {
			tb.Fatal("RPCs are not counted by connection")
		}
	}
	return pk
}

var manyKinds = map[string]Connections{
	"one":      {MaxAge: time.Hour},
	"four":     {Min: 4, Streams: 1 << 30},
	"sixteen":  {Min: 16, Streams: 1 << 30},
	"watching": {Min: 4, Unresponsive: Unresponsive{Deadlines: 3}},
}

// TestG32PickOverConnections: a pick among several connections, and its end, cost
// no allocation and no lock.
func TestG32PickOverConnections(t *testing.T) {
	for name, c := range manyKinds {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/guarded=%v", name, guarded), func(t *testing.T) {
				pk := manyConnections(t, 10, c, selection.P2C())
				for _, ep := range pk.cur.Load().view.endpoints {
					if guarded {
						admitWith(ep, open{})
					}
					ep.pool.mu.Lock()
					defer ep.pool.mu.Unlock()
				}
				pk.policy.mu.Lock()
				defer pk.policy.mu.Unlock()
				info := typedKey("some key", "")
				over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
				if n := testing.AllocsPerRun(1000, func() {
					res, err := pk.Pick(info)
					if err != nil {
						t.Fatal(err)
					}
					if _, inside := res.SubConn.(*readyConn); inside {
						t.Fatal("gRPC is given what is ours")
					}
					res.Done(over)
				}); n != 0 {
					t.Errorf("%v allocations, want 0", n)
				}
				for _, ep := range pk.cur.Load().view.endpoints {
					for _, child := range ep.pool.conns {
						if n := child.active.Load(); n != 0 {
							t.Errorf("%d RPCs are left", n)
						}
					}
				}
			})
		}
	}
}

// TestSP05RefusedOnAConnection: an attempt that admission refuses, or whose endpoint
// is disabled just now, gives back its place on the connection.
func TestSP05RefusedOnAConnection(t *testing.T) {
	pk := manyConnections(t, 1, manyKinds["four"], selection.P2C())
	ep := pk.cur.Load().view.endpoints[0]
	pending := func() (n int64) {
		for _, c := range ep.pool.conns {
			n += c.active.Load()
		}
		return n + int64(ep.member.Pending())
	}
	d := &door{}
	d.shut.Store(true)
	admitWith(ep, d)
	if _, err := pk.Pick(methodInfo()); err == nil || pending() != 0 {
		t.Errorf("refused by admission: %v, and %d RPCs are counted", err, pending())
	}
	ep.guard.Store(nil)
	res, err := ep.cur.Load().picker.Pick(lb.PickInfo{})
	if err != nil {
		t.Fatal(err)
	}
	ep.flags.Or(barred)
	if ep.send(lb.PickInfo{}, &res) || pending() != 0 {
		t.Errorf("disabled: %d RPCs are counted", pending())
	}
}

// TestG42HeirTakesOver: from the update by which an heir is READY on, picks go to it
// and not to the old one, before the policy's goroutine has looked.
func TestG42HeirTakesOver(t *testing.T) {
	pk := manyConnections(t, 1, manyKinds["one"], selection.P2C())
	ep := pk.cur.Load().view.endpoints[0]
	old := ep.pool.conns[0]
	heir := adopt(pk.policy, ep)
	old.heir, heir.replaces, heir.because = heir, old, closedByAge
	heir.UpdateState(lb.State{ConnectivityState: connectivity.Ready, Picker: old.state.Picker})
	if s, ok := ep.cur.Load().picker.(*spread); !ok || len(s.ready) != 1 || s.ready[0].conn != heir {
		t.Error("picks do not go to the heir alone")
	}
}

// BenchmarkPickConnections is a pick and its end by how many connections there are.
func BenchmarkPickConnections(b *testing.B) {
	run := func(name string, pk *picker) {
		b.Run(name, func(b *testing.B) {
			info := typedKey("some key", "")
			over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
			b.ReportAllocs()
			for b.Loop() {
				res, err := pk.Pick(info)
				if err != nil {
					b.Fatal(err)
				}
				res.Done(over)
			}
		})
	}
	run("default", selectionWorld(b, 100, selection.P2C()))
	for _, name := range []string{"one", "four", "sixteen", "watching"} {
		run(name, manyConnections(b, 100, manyKinds[name], selection.P2C()))
	}
}

// TestSP05CountsByConnection: picks, ends, losses, settings and updates race; at the
// end every count has been given back once and every connection is closed.
func TestSP05CountsByConnection(t *testing.T) {
	cc := newMoodyConn(t)
	router := NewRouter(RouterOptions{})
	defer router.Close()
	p := newPolicy(cc, lb.BuildOptions{})
	defer p.Close()
	update := func(addrs ...string) {
		if err := p.UpdateClientConnState(unsharded(router, addrs...)); err != nil {
			t.Error(err)
		}
	}
	update("a", "b")
	soon(t, "the endpoints", func() bool { return p.picker.cur.Load() != nil })
	began := time.Now()
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			var open []func(lb.DoneInfo)
			for time.Since(began) < time.Second {
				if res, err := p.picker.Pick(selectorInfo("")); err == nil {
					open = append(open, res.Done)
				} else {
					runtime.Gosched()
				}
				if len(open) > rng.IntN(40) {
					open[0](lb.DoneInfo{BytesSent: true, BytesReceived: rng.IntN(2) == 0})
					open = open[1:]
				}
			}
			for _, done := range open {
				done(lb.DoneInfo{})
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(2, 2))
		for time.Since(began) < time.Second {
			n := 1 + rng.IntN(4)
			if err := router.SetConnections(Connections{Min: n, Max: n + rng.IntN(3), Streams: 1 + rng.IntN(20), ScaleDownAfter: time.Millisecond}); err != nil {
				t.Error(err)
			}
			for _, sc := range cc.open("a") {
				if rng.IntN(8) == 0 {
					sc.tell(connectivity.Idle)
				}
			}
			switch rng.IntN(4) {
			case 0:
				update("a", "b", "c")
			case 1:
				update("b", "a")
			}
			_ = router.Status()
			runtime.Gosched()
		}
	})
	wg.Wait()
	update("a", "b")
	if err := router.SetConnections(Connections{Min: 2}); err != nil {
		t.Error(err)
	}
	soon(t, "two connections each", func() bool {
		if res, err := p.picker.Pick(selectorInfo("")); err == nil {
			res.Done(lb.DoneInfo{})
		}
		for _, e := range router.Status().Endpoints {
			if e.Connections != (ConnectionStates{Ready: 2}) {
				return false
			}
		}
		return true
	})
	for _, ep := range p.picker.cur.Load().view.endpoints {
		if n := ep.member.Pending(); n != 0 {
			t.Errorf("%d RPCs in flight on %s", n, ep.name)
		}
	}
	p.Close()
	for _, addr := range []string{"a", "b", "c"} {
		if n := len(cc.open(addr)); n != 0 {
			t.Errorf("%d connections to %s are left", n, addr)
		}
	}
}
