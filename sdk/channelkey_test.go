package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// factory is a ClientConnProvider that counts.
type factory struct {
	services map[string]*sdktest.ShardingService
	made     atomic.Int64
	live     atomic.Int64 // channels that are not released
	problems chan string
	broken   atomic.Pointer[string] // a key that fails at present
}

func (p *factory) provide(key string) (grpc.ClientConnInterface, func(), error) {
	if broken := p.broken.Load(); broken != nil && *broken == key {
		return nil, nil, errors.New("the vault is sealed")
	}
	svc := p.services[key]
	if svc == nil {
		return nil, nil, fmt.Errorf("never heard of %q", key)
	}
	cc, err := grpc.NewClient(svc.Addr(), plaintext)
	if err != nil {
		return nil, nil, err
	}
	p.made.Add(1)
	p.live.Add(1)
	w := &watchedConn{ClientConn: cc}
	var released atomic.Int64
	return w, func() {
		if released.Add(1) > 1 {
			p.problems <- "a channel was released twice"
			return
		}
		if n := w.streams.Load(); n != 0 {
			p.problems <- fmt.Sprintf("a channel was released under %d streams", n)
		}
		p.live.Add(-1)
		_ = cc.Close()
	}, nil
}

// watchedConn counts the streams that have not ended.
type watchedConn struct {
	*grpc.ClientConn
	streams atomic.Int64
}

func (w *watchedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	w.streams.Add(1)
	s, err := w.ClientConn.NewStream(ctx, desc, method, append(opts, grpc.OnFinish(func(error) { w.streams.Add(-1) }))...)
	return s, err
}

// Keys and targets change under traffic. LL-04: each channel is released exactly
// once and never under its stream, the new one is made before the old one goes,
// and a change that fails leaves the old one serving.
func TestChannelKeyChangesUnderTraffic_LL04_A21_A23(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		c := sdktest.NewCluster(t, "a", "b")
		p := &factory{services: map[string]*sdktest.ShardingService{}, problems: make(chan string, 100)}
		for i := range 3 {
			svc, err := sdktest.StartSharding()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(svc.Close)
			for _, target := range []string{testTarget, "orders"} {
				svc.Assign(target, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
			}
			p.services[fmt.Sprint(i)] = svc
		}
		sh := testSharding(inRevision)
		sh.ServiceKey = "0"
		f := dial(t, c, sh, quickStream(), sdk.WithClientConnProvider(p.provide))
		if got := f.who(t, "zoe"); got != "b" {
			t.Fatalf("reached %q", got)
		}
		_ = f.who(t, "alice")
		tr := keepCalling(f, outageOwners)
		uuid := f.client.Status().Assignment.ClientUUID
		change := func(key, target string) {
			f.Resolver().SetServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{"slicewire": {"channelFactoryKey": %q, "slicingTarget": %q, "sliceKeyHeaderName": %q, "specRevision": %q}}]}`,
				key, target, testHeader, sh.Revision))
		}
		for i := 1; i <= 10; i++ {
			key := fmt.Sprint(i % 3)
			if i == 5 {
				// The change fails, the old client serves, and the next update tries again.
				p.broken.Store(&key)
				change(key, testTarget)
				eventually(t, "the provider's error", func() bool {
					return strings.Contains(f.client.Status().Assignment.LastError, "the vault is sealed")
				})
				old := p.services[fmt.Sprint((i-1)%3)]
				f.reaches(t, old.Assign(testTarget, sdktest.Assignment{Generation: 50, Slices: []sdktest.Slice{sdktest.From("", "a"), sdktest.From("m", "b")}}))
				p.broken.Store(nil)
			}
			change(key, testTarget)
			eventually(t, "the new client", func() bool {
				s := f.client.Status().Assignment
				return s.ChannelKey == key && s.StreamConnected && p.live.Load() == 1
			})
			tr.more(t, 10)
		}
		// Another target on the same channel: another stream, the generation anew.
		channels := p.made.Load()
		change("1", "orders")
		eventually(t, "the new target", func() bool {
			s := f.client.Status().Assignment
			return s.Target == "orders" && s.StreamConnected
		})
		tr.more(t, 10)
		if n := p.made.Load(); n != channels {
			t.Errorf("another target made %d channels more", n-channels)
		}
		tr.end(t)
		for key, svc := range p.services {
			for _, first := range svc.FirstMessages() {
				if first.LatestGeneration != 0 || first.ClientUUID != uuid {
					t.Errorf("service %s was told generation %d by client %s, want 0 by %s", key, first.LatestGeneration, first.ClientUUID, uuid)
				}
			}
		}
		_ = f.client.Close()
		if n := p.live.Load(); n != 0 {
			t.Errorf("%d channels are not released", n)
		}
		if n := p.made.Load(); n < 11 {
			t.Errorf("%d channels were made", n)
		}
		close(p.problems)
		for problem := range p.problems {
			t.Error(problem)
		}
	})
}

// The old assignment stays until the new service has a good one, also past the
// initial timeout (AP-11 outranks it).
func TestOldAssignmentStaysUntilTheNewOne_A23(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		next, err := sdktest.StartSharding()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(next.Close)
		f := startQuick(t, testSharding(inRevision, withTimeout(100*time.Millisecond)), []string{"a", "b"},
			sdk.WithShardingService("next", next.Addr(), plaintext))
		f.Sharding().Assign(testTarget, sdktest.Assignment{Generation: 9, Slices: []sdktest.Slice{sdktest.From("", "a")}})
		f.openStream(t)
		f.reaches(t, 9)
		tr := keepCalling(f, map[string]string{"k": "a"})
		next.Refuse(codes.Unavailable, "not yet")
		config := fmt.Sprintf(`{"loadBalancingConfig": [{"slicewire": {"channelFactoryKey": "next", "slicingTarget": %q, "sliceKeyHeaderName": %q, "specRevision": %q, "initialAssignmentTimeout": "0.1s"}}]}`, testTarget, testHeader, f.client.Status().Config.Revision)
		f.Resolver().SetServiceConfig(config)
		if err := next.WaitStreams(within(t, 5*time.Second), 4); err != nil {
			t.Fatal(err)
		}
		changed := time.Now()
		// A late echo of the service before is nobody's.
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
		tr.more(t, 50)
		eventually(t, "the initial timeout", func() bool { return time.Since(changed) > 200*time.Millisecond })
		tr.more(t, 50)
		tr.end(t)
		next.Heal()
		next.Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
		eventually(t, "the new owner", func() bool { return f.who(t, "k") == "b" })
		if g := f.client.Status().Assignment.Generation; g != 1 {
			t.Errorf("generation %d, want the new service's 1", g)
		}
	})
}

func TestLocalityInTheTarget_A22(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "a", "b")
	c.Sharding().Assign("users@", sdktest.Ranges(sdktest.From("", "a")))
	c.Sharding().Assign("users@zone-1", sdktest.Ranges(sdktest.From("", "b")))
	c.Sharding().Assign("users@zone-2", sdktest.Ranges(sdktest.From("", "a")))
	sh := testSharding()
	sh.Target = "users@%s"
	f := dial(t, c, sh, quickStream())
	if got := f.who(t, "k"); got != "a" {
		t.Errorf("without a locality the key reached %q", got)
	}
	for zone, want := range map[string]string{"zone-1": "b", "zone-2": "a"} {
		c.Resolver().SetAttributes(balancer.SetLocality(resolver.State{}, zone).Attributes)
		eventually(t, zone, func() bool { return f.client.Status().Assignment.Target == "users@"+zone && f.who(t, "k") == want })
	}
	for _, first := range c.Sharding().FirstMessages() {
		if first.LatestGeneration != 0 {
			t.Errorf("target %q was announced with generation %d", first.Target, first.LatestGeneration)
		}
	}
}
