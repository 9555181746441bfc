package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// update puts a topology in force that has to be good.
func update(t testing.TB, client *sdk.Client, top sdk.Topology) sdk.TopologyChange {
	t.Helper()
	change, err := client.UpdateTopology(top)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

// poolOf is what Status says of a target, nil if it has no pool.
func poolOf(client *sdk.Client, name string) *sdk.TargetStatus {
	for _, target := range client.Status().Targets {
		if target.Name == name {
			return &target
		}
	}
	return nil
}

// goesTo sends one RPC of a group, which has to reach the named server.
func goesTo(t testing.TB, client *sdk.Client, group, server string) {
	t.Helper()
	if got, err := in(within(t, 10*time.Second), client, group); err != nil || got != server {
		t.Errorf("group %q: an RPC reached %q, want %q; error: %v", group, got, server, err)
	}
}

// connectionsTo checks how many connections a server has had and has.
func connectionsTo(t testing.TB, b *sdktest.Backend, accepted, live int) {
	t.Helper()
	if n := b.Connections(); n.Accepted != accepted || n.Live != live {
		t.Errorf("server %q has had %d connections and has %d, want %d and %d", b.Name(), n.Accepted, n.Live, accepted, live)
	}
}

// inFlight are RPCs that a server holds.
type inFlight struct {
	server string
	n      int
	ended  chan error
}

// holdCalls has n RPCs of a group in flight at b.
func holdCalls(t testing.TB, client *sdk.Client, group string, b *sdktest.Backend, n int) *inFlight {
	t.Helper()
	f := &inFlight{server: b.Name(), n: n, ended: make(chan error, n)}
	already := b.InFlight()
	b.Hold()
	t.Cleanup(b.Release)
	for range n {
		ctx := within(t, time.Minute)
		go func() {
			got, err := in(ctx, client, group)
			if err == nil && got != f.server {
				err = fmt.Errorf("it reached %q", got)
			}
			f.ended <- err
		}()
	}
	if err := b.WaitInFlight(within(t, 10*time.Second), already+n); err != nil {
		t.Fatal(err)
	}
	return f
}

// finish waits for the RPCs, each of which must end as want says.
func (f *inFlight) finish(t testing.TB, want codes.Code) {
	t.Helper()
	for range f.n {
		select {
		case err := <-f.ended:
			if status.Code(err) != want {
				t.Errorf("an RPC in flight at %q ended with %v, want %v", f.server, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("an RPC in flight at %q has not ended", f.server)
		}
	}
}

// ME-07 as it is written, and G-14, G-15.
func TestME07G14G15SharedPools(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "e1", "e2", "e3")
	client := dialGroups(t, p.topology(group("rw", "e2", "e1"), group("ro", "e2", "e3")), sdk.WithDrainTimeout(2*time.Second))
	goesTo(t, client, "rw", "e2")
	goesTo(t, client, "ro", "e2")
	connectionsTo(t, p["e2"], 1, 1)

	// Out of one group.
	calls := holdCalls(t, client, "ro", p["e2"], 3)
	change := update(t, client, p.topology(group("rw", "e2", "e1"), group("ro", "e3")))
	if len(change.Targets.Removed)+len(change.Targets.Added) > 0 {
		t.Errorf("out of one of two groups: targets %+v", change.Targets)
	}
	goesTo(t, client, "ro", "e3")
	p["e2"].Release()
	calls.finish(t, codes.OK)
	goesTo(t, client, "rw", "e2")
	connectionsTo(t, p["e2"], 1, 1)

	// Out of both, with 5 calls in flight: a stream and 4 unary ones.
	stream, err := sdktest.NewEcho(client).Talk(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, stream, "e2")
	calls = holdCalls(t, client, "rw", p["e2"], 4)
	change = update(t, client, p.topology(group("rw", "e1"), group("ro", "e3")))
	if got := fmt.Sprint(change.Targets.Removed); got != "[e2]" {
		t.Errorf("removed targets %v", got)
	}
	if pool := poolOf(client, "e2"); pool == nil || !pool.Leaving || pool.InFlight != 5 {
		t.Errorf("the pool that left is %+v, want one that is leaving with 5 RPCs in flight", pool)
	}
	goesTo(t, client, "rw", "e1")
	goesTo(t, client, "ro", "e3")
	ask(t, stream, "e2")
	connectionsTo(t, p["e2"], 1, 1)

	// Back within the drain window: the same connection.
	change = update(t, client, p.topology(group("rw", "e2", "e1"), group("ro", "e3")))
	if got := fmt.Sprint(change.Targets.Added); got != "[e2]" {
		t.Errorf("added targets %v", got)
	}
	if pool := poolOf(client, "e2"); pool == nil || pool.Leaving {
		t.Errorf("the pool that came back is %+v", pool)
	}
	p["e2"].Release()
	calls.finish(t, codes.OK)
	ask(t, stream, "e2")
	goesTo(t, client, "rw", "e2")
	connectionsTo(t, p["e2"], 1, 1)

	// Still open after the window: that of e3, which begins now, ends later.
	calls = holdCalls(t, client, "ro", p["e3"], 1)
	update(t, client, p.topology(group("rw", "e2", "e1"), group("ro", "e1")))
	eventually(t, "the end of a drain window that began later", func() bool { return poolOf(client, "e3") == nil })
	calls.finish(t, codes.Canceled)
	ask(t, stream, "e2")
	goesTo(t, client, "rw", "e2")
	connectionsTo(t, p["e2"], 1, 1)
}

// G-15: a pool closes as soon as its last RPC is over, and not before.
func TestG15DrainThenClose(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := dialGroups(t, p.topology(group("default", "a", "b")), sdk.WithDrainTimeout(time.Hour))
	goesTo(t, client, "", "a")
	calls := holdCalls(t, client, "", p["a"], 148) // so many failed in the original, in 3 s
	update(t, client, p.topology(group("default", "b")))
	for range 100 {
		goesTo(t, client, "", "b")
	}
	connectionsTo(t, p["a"], 1, 1)
	p["a"].Release()
	calls.finish(t, codes.OK)
	if err := p["a"].WaitLive(within(t, 10*time.Second), 0); err != nil {
		t.Error(err)
	}
	eventually(t, "the pool to be gone from Status", func() bool { return poolOf(client, "a") == nil })

	// Listed again after that, it is dialled anew.
	update(t, client, p.topology(group("default", "a")))
	goesTo(t, client, "", "a")
	connectionsTo(t, p["a"], 2, 1)
}

// G-15: what does not end within the drain timeout is cut.
func TestG15DrainTimeout(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	const timeout = 300 * time.Millisecond
	client := dialGroups(t, p.topology(group("default", "a")), sdk.WithDrainTimeout(timeout))
	calls := holdCalls(t, client, "", p["a"], 5)
	left := time.Now()
	update(t, client, p.topology(group("default", "b")))
	goesTo(t, client, "", "b")
	calls.finish(t, codes.Canceled)
	if took := time.Since(left); took < timeout {
		t.Errorf("RPCs were cut after %v, before the drain timeout", took)
	}
	if err := p["a"].WaitLive(within(t, 10*time.Second), 0); err != nil {
		t.Error(err)
	}
	goesTo(t, client, "", "b")
}

// G-15: a pool that leaves, comes back and leaves again while its last RPC ends is
// not forgotten: it closes at once, not at the end of the drain timeout.
func TestG15LeaveReturnLeave(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	with, without := p.topology(group("default", "a", "b")), p.topology(group("default", "b"))
	client := dialGroups(t, with, sdk.WithDrainTimeout(time.Hour))
	for range 50 {
		update(t, client, with)
		calls := holdCalls(t, client, "", p["a"], 1)
		released := make(chan struct{})
		go func() {
			defer close(released)
			p["a"].Release()
		}()
		for range 3 {
			update(t, client, without)
			update(t, client, with)
		}
		update(t, client, without)
		<-released
		calls.finish(t, codes.OK)
		eventually(t, "the pool to close", func() bool { return poolOf(client, "a") == nil })
	}
}

// G-14, G-17: the same address with two profiles is two pools, each dialled with its
// own options.
func TestG14G17Profiles(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	uri := "dns:///" + p["a"].Addr()
	agent := func(name string) sdk.Option { return sdk.WithDialOptions(grpc.WithUserAgent(name)) }
	client := dialGroups(t, sdk.Topology{
		Targets: []sdk.TargetConfig{
			{Name: "plain", URI: uri}, {Name: "one", URI: uri, Profile: "one"}, {Name: "two", URI: uri, Profile: "two"},
		},
		Groups: []sdk.GroupConfig{group("plain", "plain"), group("one", "one"), group("two", "two"), group("again", "two")},
	}, agent("own"), sdk.WithDialProfile("one", agent("first")), sdk.WithDialProfile("two", agent("second")))
	for _, c := range []struct{ group, agent string }{{"plain", "own"}, {"one", "first"}, {"two", "second"}, {"again", "second"}} {
		p["a"].Forget()
		goesTo(t, client, c.group, "a")
		if got := strings.Join(p["a"].Keys("user-agent"), ", "); !strings.HasPrefix(got, c.agent+" ") {
			t.Errorf("group %q: user agent %q, want that of its profile, %q", c.group, got, c.agent)
		}
	}
	connectionsTo(t, p["a"], 3, 3)
	if n := len(client.Status().Targets); n != 3 {
		t.Errorf("%d pools, want 3", n)
	}
}

// G-14: two spellings of one URI are one pool, in whichever order groups list them.
func TestG14CanonicalURIs(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	short, long := p["a"].Addr(), "dns:///"+p["a"].Addr()
	first := []sdk.GroupConfig{group("short", short), group("long", long)}
	client := dialGroups(t, sdk.Topology{Groups: first})
	both := func() {
		t.Helper()
		goesTo(t, client, "short", "a")
		goesTo(t, client, "long", "a")
		connectionsTo(t, p["a"], 1, 1)
		if n := len(client.Status().Targets); n != 1 {
			t.Errorf("%d pools, want 1", n)
		}
	}
	both()
	change := update(t, client, sdk.Topology{Groups: []sdk.GroupConfig{first[1], first[0]}})
	if len(change.Targets.Added)+len(change.Targets.Removed) > 0 {
		t.Errorf("the groups in another order: targets %+v", change.Targets)
	}
	both()
}

// G-15, LL-02: Close waits for RPCs of pools that are leaving as for all others, and
// Shutdown for as long as its context says.
func TestG15CloseWhileLeaving(t *testing.T) {
	t.Parallel()
	leaving := func(t *testing.T) (places, *sdk.Client, *inFlight) {
		t.Helper()
		p := startPlaces(t, "a", "b")
		client := dialGroups(t, p.topology(group("default", "a")), sdk.WithDrainTimeout(time.Hour))
		calls := holdCalls(t, client, "", p["a"], 5)
		update(t, client, p.topology(group("default", "b")))
		goesTo(t, client, "", "b")
		return p, client, calls
	}
	refusesCalls := func(t *testing.T, client *sdk.Client) {
		t.Helper()
		eventually(t, "RPCs to be refused", func() bool {
			_, err := in(within(t, time.Second), client, "")
			return errors.Is(err, sdk.ErrClosed)
		})
	}
	t.Run("Close", func(t *testing.T) {
		t.Parallel()
		p, client, calls := leaving(t)
		closed := make(chan error, 1)
		go func() { closed <- client.Close() }()
		refusesCalls(t, client)
		if len(closed) > 0 || len(calls.ended) > 0 {
			t.Errorf("Close did not wait: %d RPCs have ended", len(calls.ended))
		}
		p["a"].Release()
		calls.finish(t, codes.OK)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := p["b"].WaitLive(within(t, 10*time.Second), 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("Shutdown", func(t *testing.T) {
		t.Parallel()
		p, client, calls := leaving(t)
		ctx, cancel := context.WithCancel(context.Background())
		closed := make(chan error, 1)
		go func() { closed <- client.Shutdown(ctx) }()
		refusesCalls(t, client)
		cancel()
		calls.finish(t, codes.Canceled)
		if err := <-closed; !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown returned %v", err)
		}
		if err := p["a"].WaitLive(within(t, 10*time.Second), 0); err != nil {
			t.Error(err)
		}
		if pool := poolOf(client, "a"); pool != nil {
			t.Errorf("after Shutdown Status has %+v", pool)
		}
	})
}

// G-17: the credentials of a profile are used for the targets that name it alone.
func TestG17CredentialsOfProfiles(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	seen := make(chan string, 100)
	dialer := func(profile string) sdk.Option {
		return sdk.WithDialOptions(grpc.WithContextDialer(dialerThat(func(string) { seen <- profile })))
	}
	client := dialGroups(t, sdk.Topology{
		Targets: []sdk.TargetConfig{{Name: "own", URI: "dns:///" + p["a"].Addr()}, {Name: "other", URI: "dns:///" + p["a"].Addr(), Profile: "other"}},
		Groups:  []sdk.GroupConfig{group("own", "own"), group("other", "other")},
	}, dialer("own"), sdk.WithDialProfile("other", dialer("other"), sdk.WithTransportCredentials(insecure.NewCredentials())))
	for _, name := range []string{"other", "own"} {
		goesTo(t, client, name, "a")
		if got := <-seen; got != name || len(seen) > 0 {
			t.Errorf("group %q was dialled by the dialer of %q", name, got)
		}
	}
}

// A group that a call names is found by the context's name, not by the pool: two
// groups of one target count their RPCs in one pool.
func TestG14InFlightOfBothGroups(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	client := dialGroups(t, p.topology(group("x", "a"), group("y", "a")))
	var streams []*sdktest.EchoStream
	for _, name := range []string{"x", "y", "x"} {
		s, err := sdktest.NewEcho(client).Talk(interceptors.WithGroup(within(t, time.Minute), name))
		if err != nil {
			t.Fatal(err)
		}
		ask(t, s, "a")
		streams = append(streams, s)
	}
	if n := poolOf(client, "a").InFlight; n != 3 {
		t.Errorf("%d RPCs in flight, want 3", n)
	}
	for _, s := range streams {
		_ = s.CloseSend()
		_, _ = s.Recv()
	}
	eventually(t, "no RPC in flight", func() bool { return poolOf(client, "a").InFlight == 0 })
}
