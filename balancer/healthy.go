package balancer

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/health"
)

// class is what an endpoint counts as when it is asked whether all are unhealthy.
type class uint8

const (
	outOfUse class = iota // disabled, or failing
	well                  // it is used, or may be once it is connected
	ill                   // it is READY, and its probes fail
	classes
)

// usable says whether picks may choose ep when it is READY. allIll says that
// unhealthy endpoints are used.
func (ep *endpoint) usable(allIll bool) bool {
	return ep.flags.Load()&barred == 0 && (allIll || ep.cell.Load().Healthy())
}

// classify counts ep anew.
func (p *policy) classify(ep *endpoint) {
	now := well
	switch {
	case ep.flags.Load()&barred != 0 || ep.counted == connectivity.TransientFailure:
		now = outOfUse
	case ep.cell.Load().Healthy():
	case ep.counted == connectivity.Ready:
		now = ill
	default:
		now = outOfUse
	}
	p.classes[ep.class]--
	p.classes[now]++
	ep.class = now
}

// forget takes an endpoint that has left out of the counts.
func (p *policy) forget(ep *endpoint) { p.classes[ep.class]-- }

// judgeHealth decides whether unhealthy endpoints are used because there are no
// others (field case HR-07). All are marked anew when that changes.
func (p *policy) judgeHealth() {
	if p.route == nil {
		return
	}
	all := p.classes[well] == 0 && p.classes[ill] > 0 && !p.route.router.live.Load().failAllUnhealthy
	if all == p.allIll {
		return
	}
	p.allIll, p.useful = all, true
	worst := fit
	if all {
		worst = unhealthy
		p.route.log().Warn("the probes of every endpoint fail; all are used as if they were healthy")
	} else {
		p.route.log().Info("an endpoint is healthy again; unhealthy ones are not used any more")
	}
	p.picker.worst.Store(uint32(worst))
	for _, ep := range p.view.endpoints {
		p.view.mark(ep, ep.usable(all))
		if p.eager {
			p.markReady(ep)
		}
	}
}

// healthChanged is called by the registry at each flip.
func (rt *route) healthChanged(name string) {
	pub, p := rt.current.Load(), rt.policy.Load()
	if pub == nil || p == nil {
		return
	}
	if ep := pub.view.byName[name]; ep != nil {
		p.endpointChanged(ep)
	}
}

// setTargets tells the registry who the endpoints are.
func (p *policy) setTargets() {
	p.route.viewing.Lock() // the registry is not replaced meanwhile
	defer p.route.viewing.Unlock()
	v := p.route.health
	if v == nil {
		for _, ep := range p.view.endpoints {
			ep.cell.Store(nil) // of a registry that is not asked any more
			p.view.mark(ep, ep.usable(p.allIll))
			p.classify(ep)
		}
		return
	}
	targets := make([]health.Target, len(p.view.endpoints))
	for i, ep := range p.view.endpoints {
		targets[i] = health.Target{Name: ep.name, Address: ep.member.Info().Address, Conn: ep.live}
	}
	if err := v.Set(targets); err != nil {
		p.route.log().Warn("the health registry refused the endpoints; they are not probed", slog.Any("error", err))
	}
	for _, ep := range p.view.endpoints {
		ep.cell.Store(v.Cell(ep.name)) // another one where the address has changed
		p.view.mark(ep, ep.usable(p.allIll))
		p.classify(ep)
	}
}

// live is the connection of ep, nil while it is not READY. RPCs on it go to ep
// and are no picks.
func (ep *endpoint) live() grpc.ClientConnInterface {
	s := ep.cur.Load()
	if s.connectivity != connectivity.Ready {
		return nil
	}
	var sc lb.SubConn
	if several, ok := s.picker.(*spread); ok {
		sc = several.least().SubConn // a pick would reserve a place
	} else if res, err := s.picker.Pick(lb.PickInfo{Ctx: context.Background()}); err == nil {
		sc = res.SubConn
	}
	if sc == nil {
		return nil
	}
	producer, release := sc.GetOrBuildProducer(connBuilder{})
	release()
	return producer.(connProducer).cc
}

// connBuilder is the way in which gRPC lends a SubConn's connection.
type connBuilder struct{}

type connProducer struct{ cc grpc.ClientConnInterface }

func (connBuilder) Build(cc any) (lb.Producer, func()) {
	return connProducer{cc.(grpc.ClientConnInterface)}, func() {}
}
