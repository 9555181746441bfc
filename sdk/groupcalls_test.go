package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// kinds sends an RPC of each kind, one message each way, and returns who answered.
var kinds = map[string]func(context.Context, grpc.ClientConnInterface, ...grpc.CallOption) (string, error){
	"unary": func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
		return sdktest.NewEcho(cc).Who(ctx, "", opts...)
	},
	"server stream": func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := sdktest.NewEcho(cc).Watch(ctx, "", opts...)
		if err != nil {
			return "", err
		}
		return s.Recv()
	},
	"client stream": func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
		s, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, sdktest.EchoTalk, opts...)
		if err != nil {
			return "", err
		}
		if err := s.SendMsg(wrapperspb.String("")); err != nil {
			return "", err
		}
		if err := s.CloseSend(); err != nil {
			return "", err
		}
		answer := new(wrapperspb.StringValue)
		err = s.RecvMsg(answer)
		return answer.GetValue(), err
	},
	"both ways": func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
		s, err := sdktest.NewEcho(cc).Talk(ctx, opts...)
		if err != nil {
			return "", err
		}
		who, err := s.Ask("")
		if err != nil {
			return "", err
		}
		if err := s.CloseSend(); err != nil {
			return "", err
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("after the end: %w, want io.EOF", err)
		}
		return who, nil
	},
}

// A call's group is that of Group.Conn, else of the call option, else of the
// context, else of the method, else the first one; for every kind of RPC.
func TestG02G03ChoiceOfGroup(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "first", "context", "option", "conn", "method", "service")
	var groups []sdk.GroupConfig
	for _, name := range []string{"first", "context", "option", "conn", "method", "service"} {
		groups = append(groups, group(name, name))
	}
	plain := dialGroups(t, p.topology(groups...))
	byMethod := dialGroups(t, p.topology(groups...), sdk.WithGroupsByMethod(map[string]string{
		sdktest.EchoWho: "method", "/" + sdktest.EchoService + "/*": "service", "*": "first",
	}))
	byContext := func(ctx context.Context) context.Context { return interceptors.WithGroup(ctx, "context") }
	none := func(ctx context.Context) context.Context { return ctx }
	option := []grpc.CallOption{sdk.InGroup("option")}

	for kind, send := range kinds {
		ofMethod := "service"
		if kind == "unary" {
			ofMethod = "method"
		}
		for _, c := range []struct {
			name    string
			cc      grpc.ClientConnInterface
			context func(context.Context) context.Context
			opts    []grpc.CallOption
			want    string
		}{
			{"nothing", plain, none, nil, "first"},
			{"method", byMethod, none, nil, ofMethod},
			{"context", plain, byContext, nil, "context"},
			{"context over method", byMethod, byContext, nil, "context"},
			{"option over context", byMethod, byContext, option, "option"},
			{"last option", plain, none, []grpc.CallOption{sdk.InGroup("conn"), sdk.InGroup("option")}, "option"},
			{"stub over option", byMethod.Group("conn").Conn(), byContext, option, "conn"},
			{"stub of the default group", plain.Group("").Conn(), byContext, option, "first"},
			{"empty name in the context", byMethod, func(ctx context.Context) context.Context {
				return interceptors.WithGroup(byContext(ctx), "")
			}, nil, "first"},
			{"empty name as option", byMethod, byContext, []grpc.CallOption{sdk.InGroup("")}, "first"},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				given := slices.Clone(c.opts)
				got, err := send(c.context(within(t, 10*time.Second)), c.cc, c.opts...)
				if err != nil || got != c.want {
					t.Errorf("answered by %q, %v; want %q", got, err, c.want)
				}
				if len(given) != len(c.opts) {
					t.Error("the caller's options changed")
				}
			})
		}
	}
	for name, b := range p {
		if b.Count() == 0 {
			t.Errorf("%q got no RPC", name)
		}
	}
	for _, client := range []*sdk.Client{plain, byMethod} {
		if n := client.Status().UnknownGroups; n != 0 {
			t.Errorf("%d unknown groups were counted", n)
		}
	}
}

// An unknown name goes to the default group, counted each time and logged once a
// second; nothing of it is silent. Where that was asked for the RPC fails (row G-04).
func TestME10G04UnknownGroup(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "read")
	top := p.topology(group("default", "main"), group("read", "read"))
	ways := map[string]func(context.Context, *sdk.Client, string) (string, error){
		"context": func(ctx context.Context, c *sdk.Client, kind string) (string, error) {
			return kinds[kind](interceptors.WithGroup(ctx, "raed"), c)
		},
		"option": func(ctx context.Context, c *sdk.Client, kind string) (string, error) {
			return kinds[kind](ctx, c, sdk.InGroup("raed"))
		},
	}
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		var log logBook
		client := dialGroups(t, top, log.option())
		begun, n := time.Now(), uint64(0)
		for range 10 {
			for way, send := range ways {
				for _, kind := range []string{"unary", "server stream", "both ways"} {
					n++
					if got, err := send(within(t, 10*time.Second), client, kind); err != nil || got != "main" {
						t.Errorf("%s, %s: answered by %q, %v; want the default group's main", way, kind, got, err)
					}
				}
			}
		}
		lines := strings.Count(log.String(), "names a group that is not declared")
		if most := 1 + int(time.Since(begun)/time.Second); lines < 1 || lines > most {
			t.Errorf("%d lines were logged, want 1 to %d", lines, most)
		}
		if !strings.Contains(log.String(), "raed") {
			t.Error("the log does not say which name it was")
		}
		if got := client.Status().UnknownGroups; got != n {
			t.Errorf("%d counted, want %d", got, n)
		}
		// The next second brings the next line.
		eventually(t, "a second line", func() bool {
			_, _ = ways["context"](within(t, time.Second), client, "unary")
			return strings.Count(log.String(), "names a group that is not declared") > lines
		})
		if since := time.Since(begun); since < time.Second {
			t.Errorf("the second line came after %v", since)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		client := dialGroups(t, top, sdk.WithUnknownGroupsRefused())
		n := uint64(0)
		for way, send := range ways {
			for kind := range kinds {
				n++
				_, err := send(within(t, 10*time.Second), client, kind)
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `"raed"`) {
					t.Errorf("%s, %s: %v, want INVALID_ARGUMENT that names the group", way, kind, err)
				}
			}
		}
		if got := client.Status().UnknownGroups; got != n {
			t.Errorf("%d counted, want %d", got, n)
		}
		if got, err := in(within(t, 10*time.Second), client, "read"); err != nil || got != "read" {
			t.Errorf("a known group: %q, %v", got, err)
		}
		if got, err := in(within(t, 10*time.Second), client, ""); err != nil || got != "main" {
			t.Errorf("the default group: %q, %v", got, err)
		}
	})
}

// A stub of a group that is gone sends RPCs as any other that name an unknown
// group.
func TestG03ConnOfAGroupThatIsGone(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "read")
	both := p.topology(group("default", "main"), group("read", "read"))
	client := dialGroups(t, both)
	conn := client.Group("read").Conn()
	who := func() string {
		name, err := sdktest.NewEcho(conn).Who(within(t, 10*time.Second), "")
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got := who(); got != "read" {
		t.Errorf("answered by %q", got)
	}
	if _, err := client.UpdateTopology(p.topology(group("default", "main"))); err != nil {
		t.Fatal(err)
	}
	if got := who(); got != "main" || client.Status().UnknownGroups != 1 {
		t.Errorf("answered by %q, %d unknown", got, client.Status().UnknownGroups)
	}
	if _, err := client.UpdateTopology(both); err != nil {
		t.Fatal(err)
	}
	if got := who(); got != "read" {
		t.Errorf("declared again, answered by %q", got)
	}
}

// A group's selector routes its calls within the target, unless the call or its
// method names another.
func TestGroupSelector(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "e1", "e2", "e3", "e4")
	top := sdk.Topology{Groups: []sdk.GroupConfig{
		{Name: "default", Targets: []string{c.Target()}},
		{Name: "batch", Targets: []string{c.Target()}, Selector: "second"},
	}}
	dial := func(t *testing.T, byMethod map[string]string) *sdk.Client {
		return dialGroups(t, top, sdk.WithResolvers(c.Resolver()), sdk.WithSelectorsByMethod(byMethod),
			sdk.WithSelector(sdk.DefaultSelector, pinTo("e1")), sdk.WithSelector("second", pinTo("e2")),
			sdk.WithSelector("third", pinTo("e3")), sdk.WithSelector("fourth", pinTo("e4")))
	}
	ask := func(t *testing.T, client *sdk.Client, group, selector string) string {
		ctx := interceptors.WithGroup(within(t, 10*time.Second), group)
		if selector != "" {
			ctx = interceptors.WithSelector(ctx, selector)
		}
		name, err := sdktest.NewEcho(client).Who(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name            string
		byMethod        map[string]string
		group, selector string
		want            string
	}{
		{"default group", nil, "default", "", "e1"},
		{"selector of the group", nil, "batch", "", "e2"},
		{"context over the group's", nil, "batch", "third", "e3"},
		{"method over the group's", map[string]string{sdktest.EchoWho: "fourth"}, "batch", "", "e4"},
		{"service over the group's", map[string]string{"/" + sdktest.EchoService + "/*": "fourth"}, "batch", "", "e4"},
		{"any method over the group's", map[string]string{"*": "fourth"}, "batch", "", "e4"},
		{"another method", map[string]string{sdktest.EchoTalk: "fourth"}, "batch", "", "e2"},
		{"context over method", map[string]string{"*": "fourth"}, "batch", "third", "e3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := dial(t, c.byMethod)
			eventually(t, "answered by "+c.want, func() bool { return ask(t, client, c.group, c.selector) == c.want })
			for range 20 {
				if got := ask(t, client, c.group, c.selector); got != c.want {
					t.Errorf("answered by %q, want %q", got, c.want)
				}
			}
		})
	}
}

// An RPC and a stream that were begun stay where they are when the group moves.
func TestG07StreamsStay(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(group("default", "main", "fallback")))
	served(t, client, "default", "main")
	s, err := sdktest.NewEcho(client).Talk(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if who, err := s.Ask(""); err != nil || who != "main" {
		t.Fatalf("%q, %v", who, err)
	}
	p["main"].Hold()
	unary := make(chan answer, 1)
	go func() { unary <- one(client, "default", 20*time.Second) }()
	if err := p["main"].WaitInFlight(within(t, 10*time.Second), 2); err != nil {
		t.Fatal(err)
	}
	if err := client.SetTargetEnabled("main", false, "a drill"); err != nil {
		t.Fatal(err)
	}
	served(t, client, "default", "fallback")
	if who, err := s.Ask(""); err != nil || who != "main" {
		t.Errorf("the stream: %q, %v", who, err)
	}
	p["main"].Release()
	if a := <-unary; a.err != nil || a.from != "main" {
		t.Errorf("the RPC in flight: %q, %v", a.from, a.err)
	}
	_ = s.CloseSend()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the stream: %v", err)
	}
}
