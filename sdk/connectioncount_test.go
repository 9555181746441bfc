package sdk_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// streams opens n streams at the same time, each of which has been answered. They
// end when they are told to, or with the test.
func (f *fixture) streams(t testing.TB, n int) []*openStream {
	t.Helper()
	all := make([]*openStream, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			s, err := f.echo.Talk(ctx)
			if err == nil {
				_, err = s.Ask("hello")
			}
			if err != nil {
				t.Errorf("a stream failed: %v", err)
				cancel()
				return
			}
			all[i] = &openStream{s, cancel}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

type openStream struct {
	*sdktest.EchoStream
	cancel context.CancelFunc
}

// end ends streams as clients do.
func end(t testing.TB, all []*openStream) {
	t.Helper()
	for _, s := range all {
		if _, err := s.Ask("once more"); err != nil {
			t.Errorf("a stream did not go on: %v", err)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
		if _, err := s.Recv(); err == nil {
			t.Error("a stream did not end")
		}
		s.cancel()
	}
}

// perConnection counts the calls that a backend got on each connection.
func perConnection(b *sdktest.Backend) map[string]int {
	n := make(map[string]int)
	for _, c := range b.Calls() {
		n[c.Peer]++
	}
	return n
}

func (f *fixture) conns(t testing.TB, name string) balancer.ConnectionStates {
	t.Helper()
	return f.endpoint(t, name).Connections
}

// TestG30ConnectionsByLoad: with at most 4 connections of 10 streams, 35 streams make
// the server accept 4, and none has more than 10. So it is with several endpoints.
func TestG30ConnectionsByLoad(t *testing.T) {
	for _, names := range [][]string{{"e1"}, {"e1", "e2"}} {
		f := startPlain(t, names, selection.P2C(), sdk.WithConnections(balancer.Connections{Max: 4, Streams: 10}))
		if len(names) > 1 {
			f.whoBy(t, "", "")
			f.allConnected(t)
		}
		for _, b := range f.Backends() {
			b.Forget()
		}
		all := f.streams(t, 35*len(names))
		for _, b := range f.Backends() {
			per, c := perConnection(b), b.Connections()
			if c.Accepted != 4 || len(per) != 4 {
				t.Errorf("%d endpoints: %s accepted %d connections and used %d, want 4", len(names), b.Name(), c.Accepted, len(per))
			}
			if len(names) > 1 && b.Count() > 40 {
				continue // p2c left it more than 4 connections hold
			}
			for peer, n := range per {
				if n > 10 {
					t.Errorf("%d endpoints: %s has %d streams on the connection of %s", len(names), b.Name(), n, peer)
				}
			}
		}
		end(t, all)
		f.nothingPending(t)
	}
}

// TestG31TheNextStreamOpens: by default 100 streams fill a connection, and the 101st
// opens another one.
func TestG31TheNextStreamOpens(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1"}, selection.P2C(), sdk.WithConnections(balancer.Connections{Max: 2}))
	all := f.streams(t, 100)
	if n := f.Backend("e1").Connections().Accepted; n != 1 {
		t.Errorf("100 streams are on %d connections", n)
	}
	all = append(all, f.streams(t, 1)...)
	if n := f.Backend("e1").Connections().Accepted; n != 2 {
		t.Errorf("101 streams are on %d connections", n)
	}
	end(t, all)
}

// TestG33ScaleDownAndUp: 200 streams, 20, and 200 again, beside unary calls that all
// succeed: 4 connections, 1 that gets new calls, 4 again, those that had not ended
// yet among them.
func TestG33ScaleDownAndUp(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1"}, selection.P2C(),
		sdk.WithConnections(balancer.Connections{Max: 4, Streams: 50, ScaleDownAfter: 400 * time.Millisecond}))
	tr := f.flow(t, 2, 5*time.Millisecond, "")
	b := f.Backend("e1")
	all := f.streams(t, 200)
	if n := b.Connections().Accepted; n != 4 {
		t.Errorf("200 streams are on %d connections, want 4", n)
	}
	end(t, all[20:])
	eventually(t, "one connection", func() bool { return f.conns(t, "e1").Ready == 1 })
	draining := f.conns(t, "e1").Draining
	all = append(all[:20], f.streams(t, 170)...)
	if s := f.conns(t, "e1"); s.Ready != 4 || s.Draining != 0 {
		t.Errorf("the load is back, and there are %+v", s)
	}
	if c := f.client.Status().Connections; int(c.Reused) != draining || int(c.Opened) != 4+3-draining || b.Connections().Accepted != int(c.Opened) {
		t.Errorf("%d were draining: %+v, and %d accepted", draining, c, b.Connections().Accepted)
	}
	end(t, all)
	eventually(t, "one connection", func() bool { return f.conns(t, "e1").Ready == 1 })
	if err := b.WaitLive(within(t, 10*time.Second), 1); err != nil {
		t.Error(err)
	}
	tr.mustBeClean(t)
}

// TestG34MinReady: endpoints are warm without any RPC, those of a client whose
// selector is sliced too, after idle mode too; what is lost or fails is made up for.
func TestG34MinReady(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"e1", "e2", "e3"}, quick(), idleAfter(time.Second),
		sdk.WithConnections(balancer.Connections{MinReady: 2}))
	f.AssignEven(testTarget)
	awake := func() {
		t.Helper()
		if _, err := f.client.WaitReady(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	accepted := func(name string, n int) {
		t.Helper()
		eventually(t, "a connection to "+name, func() bool { awake(); return f.Backend(name).Connections().Accepted >= n })
	}
	awake()
	accepted("e1", 1)
	accepted("e2", 1)
	if n := f.Backend("e3").Connections().Accepted; n != 0 {
		t.Errorf("the third one accepted %d", n)
	}
	f.idles(t)
	awake()
	accepted("e1", 2)
	accepted("e2", 2)
	eventually(t, "READY", func() bool { awake(); return f.client.Status().State == connectivity.Ready })
	if err := f.Backend("e2").GoAway(); err != nil {
		t.Fatal(err)
	}
	accepted("e2", 3)
	awake()
	f.Backend("e1").Kill()
	accepted("e3", 1)
	for _, b := range f.Backends() {
		if n := b.Count(); n != 0 {
			t.Errorf("%s got %d calls, and there were none", b.Name(), n)
		}
	}
}

// stuckConn is a connection that may stop passing bytes, as if whoever is on the
// other side had stopped reading and writing.
type stuckConn struct {
	net.Conn
	mu   sync.Mutex    // guards wait
	wait chan struct{} // closed: bytes pass
	over chan struct{}
	once sync.Once
}

func newStuckConn(c net.Conn) *stuckConn {
	s := &stuckConn{Conn: c, wait: make(chan struct{}), over: make(chan struct{})}
	close(s.wait)
	return s
}

func (s *stuckConn) set(stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stuck {
		s.wait = make(chan struct{})
	} else {
		close(s.wait)
	}
}

func (s *stuckConn) pass() error {
	s.mu.Lock()
	wait := s.wait
	s.mu.Unlock()
	select {
	case <-wait:
		return nil
	case <-s.over:
		return net.ErrClosed
	}
}

func (s *stuckConn) Write(b []byte) (int, error) {
	if err := s.pass(); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

func (s *stuckConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if perr := s.pass(); perr != nil { // what was read stays here until then
		return 0, perr
	}
	return n, err
}

func (s *stuckConn) Close() error {
	s.once.Do(func() { close(s.over) })
	return s.Conn.Close()
}

// TestG38Unresponsive: a connection that stops passing bytes is replaced within the
// window, and what runs on it is not cancelled.
func TestG38Unresponsive(t *testing.T) {
	t.Parallel()
	const window = 300 * time.Millisecond
	dialled := make(chan *stuckConn, 10)
	f := startPlain(t, []string{"e1"}, selection.P2C(),
		sdk.WithConnections(balancer.Connections{Unresponsive: balancer.Unresponsive{Deadlines: 3, Window: window}}),
		sdk.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			s := newStuckConn(c)
			dialled <- s
			return s, nil
		})))
	stream := f.streams(t, 1)
	f.whoBy(t, "", "")
	first := <-dialled
	began := time.Now()
	first.set(true)
	timedOut := 0
	for {
		_, err := f.call("", 40*time.Millisecond)
		if err == nil {
			break
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("got %v", err)
		}
		timedOut++
	}
	took := time.Since(began)
	if took < window || took > 10*window || timedOut < 3 {
		t.Errorf("a call succeeded after %v and %d that timed out; the window is %v", took, timedOut, window)
	}
	if s := f.conns(t, "e1"); s.Ready != 1 || s.Draining != 1 || s.DrainingStreams != 1 {
		t.Errorf("there are %+v", s)
	}
	first.set(false)
	end(t, stream)
	eventually(t, "the old one to be closed", func() bool { return f.conns(t, "e1").Draining == 0 })
	c := f.client.Status().Connections
	if c.Opened != 2 || c.Unresponsive != 1 || c.Closed["unresponsive"] != 1 {
		t.Errorf("counted %+v", c)
	}
}

// TestG41SettingsChange: real connections follow the settings under load, and no
// call fails.
func TestG41SettingsChange(t *testing.T) {
	t.Parallel()
	c, r, echo := overRouter(t, []string{"e1", "e2"}, balancer.RouterOptions{})
	f := &fixture{Cluster: c, echo: echo}
	if _, err := echo.Who(within(t, 10*time.Second), ""); err != nil {
		t.Fatal(err)
	}
	tr := f.flow(t, 4, time.Millisecond, "")
	for _, n := range []int{3, 1, 4, 2, 1} {
		if err := r.SetConnections(balancer.Connections{Min: n}); err != nil {
			t.Fatal(err)
		}
		for _, b := range c.Backends() {
			if err := b.WaitLive(within(t, 10*time.Second), n); err != nil {
				t.Error(err)
			}
		}
		had := tr.total()
		eventually(t, "some calls", func() bool { return tr.total() > had+50 })
	}
	if err := r.SetConnections(balancer.Connections{Min: 2, Max: 1}); err == nil || r.Connections().Min != 1 {
		t.Errorf("bad settings: %v, in force %+v", err, r.Connections())
	}
	tr.mustBeClean(t)
}

// TestG42MaxAge: connections are replaced all the time, and no call fails.
func TestG42MaxAge(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2"}, selection.P2C(),
		sdk.WithConnections(balancer.Connections{Min: 2, MaxAge: 200 * time.Millisecond, MinReady: 2}))
	f.whoBy(t, "", "")
	tr := f.flow(t, 4, time.Millisecond, "")
	eventually(t, "two connections each", func() bool { return f.conns(t, "e1").Ready >= 2 && f.conns(t, "e2").Ready >= 2 })
	eventually(t, "some to be replaced", func() bool {
		for _, e := range f.client.Status().Endpoints {
			if e.Connections.Ready < 2 {
				t.Errorf("%s has %+v", e.Name, e.Connections)
			}
		}
		return f.client.Status().Connections.Closed["max_age"] >= 10
	})
	tr.mustBeClean(t)
}

// TestEC07RemovedWithManyConnections: an endpoint that leaves while it has streams on
// several connections: they end in peace, and then no connection is left.
func TestEC07RemovedWithManyConnections(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1"}, selection.P2C(), sdk.WithConnections(balancer.Connections{Max: 4, Streams: 5}))
	all := f.streams(t, 20)
	b := f.Backend("e1")
	if _, err := f.Start("e2"); err != nil {
		t.Fatal(err)
	}
	if err := f.Resolve("e2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the update", func() bool { return f.whoBy(t, "", "") == "e2" })
	end(t, all)
	if err := b.WaitLive(within(t, 10*time.Second), 0); err != nil {
		t.Error(err)
	}
	if n := b.Connections().Accepted; n != 4 {
		t.Errorf("%d connections were made, want 4", n)
	}
}

// TestCloseWhileScaling: a client that closes while connections are made and drain
// leaves nothing behind (goleak), and its calls that had begun succeed.
func TestCloseWhileScaling(t *testing.T) {
	t.Parallel()
	for range 5 {
		f := startPlain(t, []string{"e1", "e2"}, selection.P2C(),
			sdk.WithConnections(balancer.Connections{Max: 8, Streams: 1, ScaleDownAfter: time.Millisecond, MaxAge: 100 * time.Millisecond}))
		f.whoBy(t, "", "")
		tr := f.flow(t, 16, time.Millisecond, "")
		eventually(t, "some calls", func() bool { return tr.total() > 200 })
		if err := f.client.Close(); err != nil {
			t.Error(err)
		}
		tr.stop()
		for _, err := range tr.failures {
			if !strings.Contains(err.Error(), sdk.ErrClosed.Error()) {
				t.Fatalf("a call failed: %v", err)
			}
		}
		for _, b := range f.Backends() {
			if err := b.WaitLive(within(t, 10*time.Second), 0); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestWithConnectionsIsChecked: Dial says everything that is wrong.
func TestWithConnectionsIsChecked(t *testing.T) {
	_, err := sdk.Dial("dns:///x:1", sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithConnections(balancer.Connections{Min: -1, MaxAge: -time.Second}))
	if err == nil || !strings.Contains(err.Error(), "WithConnections: Min is -1") || !strings.Contains(err.Error(), "MaxAge is -1s") {
		t.Errorf("got %v", err)
	}
}
