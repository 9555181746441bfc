package balancer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/health"
)

// gatekeeper is an Admission that tells who asked it for guards.
type gatekeeper struct {
	mu    sync.Mutex // guards names
	names []string
}

func (g *gatekeeper) Guard(name string) admission.Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names = append(g.names, name)
	return open{}
}

// listed is an Admission that cannot be compared.
type listed []admission.Admission

func (l listed) Guard(name string) admission.Guard { return l[0].Guard(name) }

// TestSetOptions: what a Router may change while RPCs run it changes for endpoints
// that are there, once, and not after Close.
func TestSetOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		guards := func() (n int) {
			for _, ep := range b.router.main.Load().current.Load().view.endpoints {
				if ep.guard.Load() != nil {
					n++
				}
			}
			return n
		}
		set := func(o RouterOptions) {
			t.Helper()
			if err := b.router.SetOptions(o); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		g := &gatekeeper{}
		for range 3 {
			set(RouterOptions{Admission: g, RetireTimeout: time.Minute})
		}
		if slices.Sort(g.names); guards() != 2 || !slices.Equal(g.names, []string{"a", "b"}) {
			t.Errorf("%d endpoints have guards, asked for %v", guards(), g.names)
		}
		for range 2 {
			set(RouterOptions{Admission: listed{g}})
		}
		if len(g.names) != 4 {
			t.Errorf("one that cannot be compared was asked for %v", g.names[2:])
		}
		if set(RouterOptions{}); guards() != 0 || b.router.live.Load().retireTimeout != DefaultRetireTimeout {
			t.Errorf("%d guards are left, RetireTimeout is %v", guards(), b.router.live.Load().retireTimeout)
		}

		states := func() (all []health.State) {
			for _, ep := range b.router.Status().Endpoints {
				all = append(all, ep.Health)
			}
			return all
		}
		sick := func(context.Context, health.Target) error { return errors.New("sick") }
		reg, err := health.NewRegistry(health.Options{Checker: health.Func(sick), Interval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if set(RouterOptions{Health: reg}); !slices.Equal(states(), []health.State{health.Unhealthy, health.Unhealthy}) {
			t.Errorf("the probes fail, the states are %v", states())
		}
		if set(RouterOptions{}); !slices.Equal(states(), []health.State{health.Healthy, health.Healthy}) || len(reg.Targets()) != 0 {
			t.Errorf("nobody probes, the states are %v, and the registry has %v", states(), reg.Targets())
		}
		reg.Close()

		if err := b.router.SetOptions(RouterOptions{BadResultsUseP2C: true, Connections: Connections{Min: -1}}); err == nil || b.router.live.Load().badResultsUseP2C {
			t.Errorf("bad options changed something: %v", err)
		}
		b.policy.Close()
		b.router.Close()
		if err := b.router.SetOptions(RouterOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
