package sdk

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
)

// setRatio has p's RPCs judged by o, which was validated; nil stops that.
func (d *driver) setRatio(p *pool, o *failover.RatioOptions) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	r := p.verdicts.ratio.Load()
	good := true
	switch {
	case o == nil:
		p.verdicts.ratio.Store(nil)
	case r == nil:
		r, _ = failover.NewRatio(*o, now)
		p.verdicts.ratio.Store(r)
	default:
		good, _ = r.SetOptions(*o, now)
	}
	d.ratioSays(p, good, now)
}

// ended counts an RPC of p that is over.
func (d *driver) ended(p *pool, err error) {
	if err != nil {
		d.suspect(p, err)
	}
	r := p.verdicts.ratio.Load()
	if r == nil {
		return
	}
	code := status.Code(err)
	if !r.Record(uint32(code), code == codes.Canceled, d.clock()) {
		return
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ratioSays(p, r.Judge(now), now)
}

// clock is the time for what only compares times. Every RPC asks: time.Since reads
// one clock, where time.Now reads two, and on some machines each takes 80 ns.
func (d *driver) clock() time.Time { return d.began.Add(time.Since(d.began)) }

// ratioSays tells p's groups, and has p probed while it is condemned: no RPC may
// come to tell better. The caller holds mu.
func (d *driver) ratioSays(p *pool, good bool, now time.Time) {
	p.verdicts.bad[failover.ByErrorRatio] = !good
	d.step(p, func(m *failover.Machine) []failover.Switch {
		return m.Judge(p.id, failover.ByErrorRatio, good, now)
	})
	if !good && !p.verdicts.onTrial && p.alive.Err() == nil {
		p.verdicts.onTrial = true
		p.background.Go(func() { d.try(p) })
	}
}

const (
	longestTrialGap = 10 * time.Second
	trialTimeout    = time.Second
)

// try probes a condemned target until it is good again, or closed.
func (d *driver) try(p *pool) {
	for {
		d.mu.Lock()
		checker := d.checker
		d.mu.Unlock()
		err := p.probe(p.alive, checker)
		now := time.Now()
		d.mu.Lock()
		r := p.verdicts.ratio.Load()
		over := r == nil || p.alive.Err() != nil
		gap := longestTrialGap
		if !over {
			good := false
			if errors.Is(err, health.ErrNoVerdict) {
				good = r.Judge(now)
			} else {
				good = r.Probed(err == nil || errors.Is(err, health.ErrNoHealthService), now)
			}
			if over = good; good {
				d.ratioSays(p, true, now)
			}
			gap = min(gap, r.State(now).Hold/8)
		}
		if over {
			p.verdicts.onTrial = false
		}
		d.mu.Unlock()
		if over || !sleep(p.alive, gap) {
			return
		}
	}
}

// sleep waits for d; it is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
