package health_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/health"
)

// server is a gRPC server on loopback that counts connections and health questions.
type server struct {
	*grpc.Server
	address string
	health  *grpchealth.Server // nil: no health service
	asked   chan struct{}

	mu    sync.Mutex
	conns int
}

func serve(t *testing.T, withHealth bool) *server {
	t.Helper()
	s := newServer(withHealth)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.start(t, l)
	return s
}

func newServer(withHealth bool) *server {
	s := &server{asked: make(chan struct{}, 10000)}
	s.Server = grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			s.asked <- struct{}{}
			return handler(ctx, req)
		}),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			s.asked <- struct{}{}
			return status.Error(codes.Unimplemented, "unknown service")
		}))
	if withHealth {
		s.health = grpchealth.NewServer()
		healthgrpc.RegisterHealthServer(s, s.health)
	}
	return s
}

func (s *server) start(t *testing.T, l net.Listener) {
	s.address = l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(&counted{Listener: l, server: s})
	}()
	t.Cleanup(func() { s.Stop(); <-done })
}

// connections is how many were ever accepted.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

type counted struct {
	net.Listener
	server *server
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.server.mu.Lock()
		c.server.conns++
		c.server.mu.Unlock()
	}
	return conn, err
}

var plaintext = grpc.WithTransportCredentials(insecure.NewCredentials())

// connect is a client's live connection to a server.
func connect(t *testing.T, s *server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.address, plaintext)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func live(s *server, conn grpc.ClientConnInterface) health.Target {
	return health.Target{Name: s.address, Address: s.address, Conn: func() grpc.ClientConnInterface { return conn }}
}

func TestP25GRPC(t *testing.T) {
	s := serve(t, true)
	s.health.SetServingStatus("shop.Cart", healthgrpc.HealthCheckResponse_NOT_SERVING)
	ways := map[string]func(service string) (health.Checker, health.Target){
		"dialled": func(service string) (health.Checker, health.Target) {
			return health.GRPC(service, plaintext), health.Target{Address: s.address}
		},
		"live": func(service string) (health.Checker, health.Target) {
			return health.GRPC(service), live(s, connect(t, s))
		},
	}
	for way, of := range ways {
		for _, c := range []struct{ service, want string }{
			{"", ""},
			{"shop.Cart", "the health service says NOT_SERVING"},
			{"shop.Nothing", `does not know the service "shop.Nothing"`},
		} {
			t.Run(way+" "+c.service, func(t *testing.T) {
				checker, target := of(c.service)
				err := checker.Check(t.Context(), target)
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		}
	}
	t.Run("no credentials", func(t *testing.T) {
		wantFailure(t, health.GRPC(""), s.address, ample, "dial options")
	})
	t.Run("refused", func(t *testing.T) {
		wantFailure(t, health.GRPC("", plaintext), closedPort(t), ample, "refused")
	})
	t.Run("silent", func(t *testing.T) {
		err := probe(t, health.GRPC("", plaintext), listen(t, "tcp", "127.0.0.1:0").Addr().String(), short)
		if status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
	})
	t.Run("not connected says nothing", func(t *testing.T) {
		checker, target := health.GRPC(""), live(s, nil)
		target.Conn = func() grpc.ClientConnInterface { return nil }
		if err := checker.Check(t.Context(), target); !isNoVerdict(err) {
			t.Errorf("%v, want no verdict", err)
		}
	})
	t.Run("connection lost meanwhile says nothing", func(t *testing.T) {
		conn := connect(t, s)
		asked := 0
		target := live(s, nil)
		target.Conn = func() grpc.ClientConnInterface {
			if asked++; asked > 1 {
				return nil
			}
			return lost{conn}
		}
		if err := health.GRPC("").Check(t.Context(), target); !isNoVerdict(err) {
			t.Errorf("%v, want no verdict", err)
		}
	})
}

// lost is a connection that breaks before the answer comes.
type lost struct{ grpc.ClientConnInterface }

func (lost) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unavailable, "SubConn not currently connected")
}

// A server that was down is seen again at the next probe, and a dialled connection is
// kept while all is well.
func TestP25GRPCDialledAgain(t *testing.T) {
	address := closedPort(t)
	flips := make(chan health.Flip, 10)
	r := newRegistry(t, health.Options{
		Checker: health.GRPC("", plaintext), Interval: 50 * time.Millisecond,
		Observer: func(f health.Flip) { flips <- f },
	})
	defer r.Close()
	newView(t, r, nil, named(address)...)
	if f := <-flips; f.To != health.Unhealthy {
		t.Fatal(f)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("another process took the port: ", err)
	}
	s := newServer(true)
	s.start(t, l)
	if f := <-flips; f.To != health.Healthy {
		t.Fatal(f)
	}
	failed := r.Stats().Failed
	for range 10 {
		<-s.asked
	}
	if n := s.connections(); n != 1 && r.Stats().Failed == failed {
		t.Errorf("%d connections for %d probes, want 1", n, r.Stats().Passed)
	}
}

// Three clients with live connections share two backends: the servers see one probe
// per interval each, and no connection but the clients'.
func TestP21OneProbeAtTheServer(t *testing.T) {
	const interval = 100 * time.Millisecond
	servers := []*server{serve(t, true), serve(t, true)}
	r := newRegistry(t, health.Options{Checker: health.GRPC(""), Interval: interval, FailAfter: 100})
	defer r.Close()
	start := time.Now()
	var views []*health.View
	for range 3 {
		var targets []health.Target
		for _, s := range servers {
			targets = append(targets, live(s, connect(t, s)))
		}
		views = append(views, newView(t, r, nil, targets...))
	}
	// At least 0.9 intervals lie between two starts, so n probes take this long, and
	// more if the machine is slow. Three times as many would be there in a third of it.
	const n = 10
	atLeast := func(probes int) time.Duration { return time.Duration(float64(probes-1) * 0.9 * float64(interval)) }
	for _, s := range servers {
		for range n {
			<-s.asked
		}
		if elapsed := time.Since(start); elapsed < atLeast(n) {
			t.Errorf("%d probes within %v, want at least %v", n, elapsed, atLeast(n))
		}
	}
	// One client goes, another's connection takes over, and the cadence stays.
	views[0].Close()
	for range n {
		<-servers[0].asked
	}
	if elapsed := time.Since(start); elapsed < atLeast(2*n) {
		t.Errorf("%d probes within %v, want at least %v", 2*n, elapsed, atLeast(2*n))
	}
	if stats := r.Stats(); stats.Healthy != 2 {
		t.Errorf("stats %+v", stats)
	}
	for _, s := range servers {
		if got := s.connections(); got > 3 {
			t.Errorf("a server saw %d connections, want those of the clients that were used, at most 3", got)
		}
	}
	views[1].Close()
	views[2].Close()
}

// A server without the health service is used, with one warning, and not stormed.
func TestHR09NoHealthService(t *testing.T) {
	a, b := serve(t, false), serve(t, false)
	var log lockedBuffer
	var flips atomic.Int64
	r := newRegistry(t, health.Options{
		Checker: health.GRPC(""), Interval: 100 * time.Millisecond, Jitter: -1, Initial: health.Unknown, FailAfter: 100,
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: func(health.Flip) { flips.Add(1) },
	})
	start := time.Now()
	v := newView(t, r, nil, live(a, connect(t, a)), live(b, connect(t, b)))
	other := newView(t, r, nil, live(a, connect(t, a)))
	for range 10 {
		<-a.asked
		<-b.asked
	}
	if elapsed := time.Since(start); elapsed < 9*100*time.Millisecond {
		t.Errorf("10 probes within %v: a storm", elapsed)
	}
	if !v.Cell(a.address).Healthy() || !v.Cell(b.address).Healthy() || !other.Cell(a.address).Healthy() {
		t.Error("a server without the health service is not used")
	}
	if stats := r.Stats(); stats.NoHealthService == 0 || stats.NoHealthService != stats.Passed {
		t.Errorf("stats %+v", stats)
	}
	r.Close()
	if n := strings.Count(log.String(), "no health service and is taken for healthy"); n != 2 {
		t.Errorf("%d warnings for two servers:\n%s", n, log.String())
	}
	if n := flips.Load(); n != 2 {
		t.Errorf("%d changes, want the two from unknown to healthy", n)
	}
}

// The first live connection of any client is used, and dialling only without one.
func TestLiveConnectionOfAnyClient(t *testing.T) {
	var used []string
	checker := health.Func(func(_ context.Context, t health.Target) error {
		switch {
		case t.Conn == nil:
			used = append(used, "none to offer")
		case t.Conn() == nil:
			used = append(used, "idle")
		default:
			used = append(used, t.Conn().(clientConn).name)
		}
		return nil
	})
	inBubble(t, health.Options{Checker: checker}, func(t *testing.T, r *health.Registry, _ *stage) {
		target := func(conn grpc.ClientConnInterface) health.Target {
			return health.Target{Name: "x", Address: "a", Conn: func() grpc.ClientConnInterface { return conn }}
		}
		one := newView(t, r, nil, health.Target{Name: "x", Address: "a"})
		pass(time.Second)
		two := newView(t, r, nil, target(nil))
		pass(time.Second)
		three := newView(t, r, nil, target(clientConn{name: "three"}))
		pass(time.Second)
		set(t, two, target(clientConn{name: "two"}))
		pass(time.Second)
		two.Close()
		one.Close()
		pass(time.Second)
		three.Close()
		synctest.Wait()
	})
	if got, want := strings.Join(used, ", "), "none to offer, none to offer, idle, three, two, three"; got != want {
		t.Errorf("used %s, want %s", got, want)
	}
}

type clientConn struct {
	grpc.ClientConnInterface
	name string
}
