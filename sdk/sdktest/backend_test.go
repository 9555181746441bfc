package sdktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func wantWho(t *testing.T, e Echo, name string) {
	t.Helper()
	got, err := e.Who(patience(t), "", grpc.WaitForReady(true))
	if err != nil || got != name {
		t.Fatalf("answered by %q, %v; want %q", got, err, name)
	}
}

// wantWhoSoon is wantWho after a cut that the client may not have noticed.
func wantWhoSoon(t *testing.T, e Echo, name string) {
	t.Helper()
	ctx := patience(t)
	for {
		got, err := e.Who(ctx, "", grpc.WaitForReady(true))
		if err == nil && got == name {
			return
		}
		if ctx.Err() != nil || err != nil && status.Code(err) != codes.Unavailable {
			t.Fatalf("answered by %q, %v; want %q", got, err, name)
		}
	}
}

func TestBackendRecordsCalls(t *testing.T) {
	b := startBackend(t, "h1", WithServices(func(r grpc.ServiceRegistrar) {
		healthpb.RegisterHealthServer(r, health.NewServer())
	}))
	cc := dial(t, b.Addr())
	e := NewEcho(cc)
	ctx := metadata.AppendToOutgoingContext(patience(t), "shard-key", "k1", "shard-key", "k2")
	if got, err := e.Who(ctx, "hello"); err != nil || got != "h1" {
		t.Fatal(got, err)
	}
	talk := must[*EchoStream](t)(e.Talk(ctx))
	for range 2 {
		if got, err := talk.Ask("?"); err != nil || got != "h1" {
			t.Fatal(got, err)
		}
	}
	if err := talk.CloseSend(); err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(ctx)
	w := must[*EchoStream](t)(e.Watch(watching, ""))
	if got, err := w.Recv(); err != nil || got != "h1" {
		t.Fatal(got, err)
	}
	if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitInFlight(ctx, 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := b.WaitInFlight(ctx, 0); err != nil {
		t.Fatal(err)
	}
	var methods []string
	for _, c := range b.Calls() {
		methods = append(methods, c.Method)
	}
	want := []string{EchoWho, EchoTalk, EchoWatch, healthpb.Health_Check_FullMethodName}
	if !slices.Equal(methods, want) || b.Count() != 4 {
		t.Errorf("%d calls %q, want %q", b.Count(), methods, want)
	}
	if c := b.Calls()[0]; c.Text != "hello" || !strings.HasPrefix(c.Peer, "127.0.0.1:") {
		t.Errorf("call %+v", c)
	}
	if keys := b.Keys("Shard-Key"); len(keys) != 8 || keys[0] != "k1" || keys[1] != "k2" {
		t.Errorf("keys %q", keys)
	}
	b.Forget()
	if b.Count() != 0 || len(b.Calls()) != 0 {
		t.Error("it remembers")
	}
}

func TestBackendCallFaults(t *testing.T) {
	b := startBackend(t, "h1")
	e := NewEcho(dial(t, b.Addr()))
	ctx := patience(t)
	b.FailCalls(codes.ResourceExhausted)
	if _, err := e.Who(ctx, ""); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("told to fail: %v", err)
	}
	b.Heal()
	b.FailNext(2, codes.Unavailable)
	for i, want := range []codes.Code{codes.Unavailable, codes.Unavailable, codes.OK} {
		if _, err := e.Who(ctx, ""); status.Code(err) != want {
			t.Errorf("call %d: %v, want %s", i, err, want)
		}
	}
	b.SlowCalls(30 * time.Millisecond)
	start := time.Now()
	wantWho(t, e, "h1")
	if d := time.Since(start); d < 30*time.Millisecond {
		t.Errorf("a slow call took %v", d)
	}
	b.Heal()

	b.Hold()
	done := make(chan error)
	go func() {
		_, err := e.Who(ctx, "")
		done <- err
	}()
	if err := b.WaitInFlight(ctx, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("a held call ended with %v", err)
	default:
	}
	b.Release()
	b.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.Hold() // Kill ends what is held
	go func() {
		_, err := e.Who(ctx, "")
		done <- err
	}()
	if err := b.WaitInFlight(ctx, 1); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("killed: %v", err)
	}
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d calls in flight after Kill", n)
	}
}

func TestBackendKillAndRestart(t *testing.T) {
	b := startBackend(t, "h1")
	addr := b.Addr()
	e := NewEcho(dial(t, addr))
	wantWho(t, e, "h1")
	b.Kill()
	_, err := e.Who(patience(t), "")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("killed: %v", err)
	}
	if c := b.Connections(); c.Live != 0 || c.Accepted != 1 {
		t.Errorf("killed with %+v", c)
	}
	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	if b.Addr() != addr {
		t.Errorf("moved from %s to %s", addr, b.Addr())
	}
	wantWho(t, e, "h1")
	if err := b.Restart(); err != nil { // of one that is up
		t.Fatal(err)
	}
	wantWhoSoon(t, e, "h1")
	if c := b.Connections(); c.Accepted != 3 || c.Strays != 0 {
		t.Errorf("restarted twice: %+v", c)
	}
	b.Close()
	b.Close()
	for _, op := range []func() error{b.Restart, b.Move, b.BlackHole, b.GoAway} {
		if err := op(); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// PF-04: a dial neither succeeds nor is refused.
func TestBackendBlackHole(t *testing.T) {
	b := startBackend(t, "h1")
	if err := b.BlackHole(); err != nil {
		t.Fatal(err)
	}
	e := NewEcho(dial(t, b.Addr()))
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.Who(short, ""); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("called into the hole: %v", err)
	}
	if c := b.Connections(); c.Accepted != 1 || c.Live != 1 {
		t.Errorf("%+v", c)
	}
	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	wantWhoSoon(t, e, "h1")
}

// PF-03: GOAWAY ends no call and closes no port.
func TestBackendGoAway(t *testing.T) {
	b := startBackend(t, "h1")
	e := NewEcho(dial(t, b.Addr()))
	ctx := patience(t)
	talk := must[*EchoStream](t)(e.Talk(ctx))
	for i := range 5 {
		if err := b.GoAway(); err != nil {
			t.Fatal(err)
		}
		for b.Connections().Accepted < i+2 { // until the client has the GOAWAY
			wantWho(t, e, "h1")
		}
		if got, err := talk.Ask("?"); err != nil || got != "h1" {
			t.Fatalf("a stream across GOAWAY: %q, %v", got, err)
		}
	}
	if err := talk.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitLive(ctx, 1); err != nil {
		t.Fatal(err)
	}
	talk = must[*EchoStream](t)(e.Talk(ctx))
	if err := b.GoAway(); err != nil {
		t.Fatal(err)
	}
	b.Kill() // does not wait for a stream that would never end
	if _, err := talk.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("killed: %v", err)
	}
}

// EC-05: calls in flight end at the old port, strays are counted.
func TestBackendMove(t *testing.T) {
	b := startBackend(t, "h1")
	old := b.Addr()
	ctx := patience(t)
	talk := must[*EchoStream](t)(NewEcho(dial(t, old)).Talk(ctx))
	if _, err := talk.Ask("?"); err != nil {
		t.Fatal(err)
	}
	if err := b.Move(); err != nil {
		t.Fatal(err)
	}
	if b.Addr() == old {
		t.Fatal("the address is the same")
	}
	wantWho(t, NewEcho(dial(t, b.Addr())), "h1")
	if _, err := talk.Ask("?"); err != nil {
		t.Errorf("a stream across the move: %v", err)
	}
	if c := b.Connections(); c.Strays != 0 || c.Live != 2 {
		t.Errorf("%+v", c)
	}
	wantWho(t, NewEcho(dial(t, old)), "h1")
	if c := b.Connections(); c.Strays != 1 {
		t.Errorf("%+v, want a stray", c)
	}
	b.Kill()
	if err := b.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := NewEcho(dial(t, old)).Who(ctx, ""); status.Code(err) != codes.Unavailable {
		t.Errorf("the old port after a restart: %v", err)
	}
	if err := b.BlackHole(); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	if err := b.Move(); err != nil { // of one that is down
		t.Fatal(err)
	}
	wantWho(t, NewEcho(dial(t, b.Addr())), "h1")
}
