//go:build hardwired

package balancer

import (
	lb "google.golang.org/grpc/balancer"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// HardWired returns p's twin, nil if there is none: for calls that ask for no
// selector the same pick by the same code over the same endpoints, by the plan of
// this moment, which nothing replaces. internal/bench builds with this file and
// holds p against it (seed row S-24); users' programs do not have it.
func (p *picker) HardWired() lb.Picker {
	c := p.plan.Load()
	switch {
	case c == nil:
		return nil
	case c.rule != nil:
		return &wiredOrder{p, *c}
	}
	return &wiredChoice{p, *c}
}

type wiredChoice struct {
	picker *picker
	plan   plan
}

func (w *wiredChoice) Pick(info lb.PickInfo) (lb.PickResult, error) {
	return w.picker.byChoice(info, callinfo.From(info.Ctx), &w.plan)
}

type wiredOrder struct {
	picker *picker
	plan   plan
}

func (w *wiredOrder) Pick(info lb.PickInfo) (lb.PickResult, error) {
	return w.picker.byOrder(info, callinfo.From(info.Ctx), &w.plan)
}
