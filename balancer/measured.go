package balancer

import (
	lb "google.golang.org/grpc/balancer"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// measured is a pick for an attempt whose delays somebody measures (gRFC A121). It
// chooses as any other; one that is traced also says what it chose.
func (p *picker) measured(info lb.PickInfo, call *callinfo.Call) (lb.PickResult, error) {
	attempt := call.Attempt()
	attempt.Picking(info.Ctx)
	res, err := lb.PickResult{}, error(nil)
	if attempt.Traced() {
		res, err = p.traced(info, call, attempt)
	} else {
		res, err = p.unmeasured(info, call)
	}
	switch {
	case err == nil:
		attempt.Sent(info.Ctx)
	case err == lb.ErrNoSubConnAvailable: //nolint:errorlint // the bare sentinel, as gRPC compares it
		attempt.Queued(info.Ctx, call.Waiting.Load())
	case attempt.WaitsForReady() && !isDrop(err):
		attempt.Failing(info.Ctx, err)
	}
	return res, err
}

// traced is a pick in full, whose choice is told.
func (p *picker) traced(info lb.PickInfo, call *callinfo.Call, record *callinfo.Attempt) (lb.PickResult, error) {
	var a attempt
	a.pub, a.call, a.info = p.cur.Load(), call, info
	res, err := p.looks(&a)
	if err != nil || a.slot == nil {
		return res, err
	}
	c := callinfo.Choice{Selector: a.slot.selector.name, Slice: a.slice - 1, Fallback: a.why}
	if a.rule != nil {
		c.Policy = a.rule.rule.policy.Kind().String()
	}
	if a.pub.slices != nil && a.rule != nil && a.rule.rule.policy.Kind() == selection.KindSliced {
		c.Generation = a.pub.slices.Generation
	}
	record.Chose(info.Ctx, &c)
	return res, err
}
