package health

import (
	"container/heap"
	"context"
	"io"
	"math/rand/v2"
	"time"
)

// run is one probe in flight.
type run struct {
	entry  *entry
	target Target
	start  time.Time
	ctx    context.Context // the probe's own deadline
	cancel context.CancelFunc
	judged bool // its verdict was given, or is not wanted; the registry's lock guards it
}

// overran says that the probe did not return at its deadline, with some patience
// for a machine that is busy.
func (p *run) overran(timeout time.Duration) bool { return time.Since(p.start) > timeout+timeout/4 }

// schedule runs from NewRegistry to Close, which waits for it. It never probes and
// calls no foreign code.
func (r *Registry) schedule() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Reset(r.dispatch(time.Now()))
	}
}

// rescan is when the scheduler looks again if nothing is scheduled.
const rescan = time.Hour

// dispatch hands what is due to workers and says when to come again.
func (r *Registry) dispatch(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return rescan
	}
	for len(r.heap) > 0 && !r.heap[0].due.After(now) {
		e := heap.Pop(&r.heap).(*entry)
		switch {
		case e.run == nil:
			r.ready = append(r.ready, e)
		case !e.waiting:
			// The probe before is still running, and there is one at a time. If it returns
			// soon, the next one begins then: see ended.
			e.waiting = true
			r.put(e, now.Add(r.options.Timeout))
		default:
			// It ignores its deadline. A probe in its place would have failed by now.
			e.waiting = false
			r.judge(e, r.noAnswer(nil), now)
			r.put(e, later(now, now.Add(r.interval(e)-r.options.Timeout)))
		}
	}
	r.startWorkers(now)
	if len(r.heap) == 0 {
		return rescan
	}
	return r.heap[0].due.Sub(now)
}

// startWorkers starts as many as the bound allows. A worker is a goroutine that
// does one thing and on its way out starts the next. The lock is held.
func (r *Registry) startWorkers(now time.Time) {
	for !r.closed && r.busy < r.options.Workers {
		switch {
		case len(r.retired) > 0:
			c := r.retired[0]
			r.retired = r.retired[1:]
			r.hire()
			go r.releaseOne(c)
		case len(r.ready) > 0:
			e := r.ready[0]
			r.ready[0] = nil
			r.ready = r.ready[1:]
			if e.gone() {
				continue
			}
			r.hire()
			r.launch(e, now)
		default:
			r.ready, r.retired = nil, nil // their arrays have been walked through
			return
		}
	}
}

func (r *Registry) hire() {
	r.wg.Add(1)
	r.busy++
	r.counts.BusyMax = max(r.counts.BusyMax, r.busy)
}

func (r *Registry) launch(e *entry, now time.Time) {
	if now.Sub(e.due) > r.options.Interval/10 {
		r.counts.Late++
	}
	p := &run{entry: e, target: e.target(), start: now}
	p.ctx, p.cancel = context.WithTimeout(r.ctx, r.options.Timeout)
	e.run = p
	go r.probe(p)
}

// probe is a worker. The verdict comes when the checker returns, or at the deadline
// if that is earlier.
func (r *Registry) probe(p *run) {
	defer r.wg.Done()
	defer r.ended(p)

	expired := make(chan struct{})
	stop := context.AfterFunc(p.ctx, func() {
		defer close(expired)
		r.verdict(p, r.noAnswer(nil))
	})
	defer func() {
		if !stop() {
			<-expired
		}
		p.cancel()
	}()

	o := outcome{kind: failed, err: errGoexit} // stays if the checker ends the goroutine
	defer func() {
		if v := recover(); v != nil {
			o = panicked(v)
		}
		r.verdict(p, o)
	}()
	o = r.classify(p.ctx, p.entry.check(p.ctx, r.options.Checker, p.target))
}

// ended gives the worker back.
func (r *Registry) ended(p *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := p.entry
	e.run = nil
	r.busy--
	now := time.Now()
	switch {
	case e.gone():
		delete(r.entries, e.key)
		r.retire(e)
	case e.waiting:
		e.waiting = false
		e.due = now
		heap.Fix(&r.heap, e.place)
	}
	r.startWorkers(now)
	r.advance()
}

// put schedules the next probe. The lock is held.
func (r *Registry) put(e *entry, due time.Time) {
	e.due = due
	heap.Push(&r.heap, e)
}

// later is due, but not in the past: nothing is caught up on.
func later(now, due time.Time) time.Time {
	if due.Before(now) {
		return now
	}
	return due
}

// drop ends the life of an entry that nobody uses any more. The lock is held.
func (r *Registry) drop(e *entry) {
	r.present--
	if !e.probed {
		r.unprobed--
	}
	if e.place >= 0 {
		heap.Remove(&r.heap, e.place)
	}
	e.waiting = false
	if e.run != nil { // the worker removes it: see ended
		e.run.judged = true
		e.run.cancel()
		return
	}
	delete(r.entries, e.key)
	r.retire(e)
}

// advance tells the scheduler and WaitFirst that something changed. The lock is held.
func (r *Registry) advance() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	if r.progress != nil {
		close(r.progress)
		r.progress = nil
	}
}

// interval is the time to the next probe of a target, with backoff and jitter. The
// lock is held.
func (r *Registry) interval(e *entry) time.Duration {
	base := e.interval(r.options.Interval)
	most := max(base, r.options.MaxInterval)
	for n := -e.streak - r.options.FailAfter; n > 0 && base < most; n-- {
		base *= 2
	}
	factor := 1 + r.options.Jitter*(2*rand.Float64()-1)
	return time.Duration(float64(min(base, most)) * factor)
}

// retire leaves what a target's checker keeps to a worker: closing may take time. The
// lock is held, and no probe of the entry runs.
func (r *Registry) retire(e *entry) {
	if c := e.closer(r.options.Checker); c != nil {
		e.checker = nil
		r.retired = append(r.retired, c)
	}
}

// releaseOne is a worker.
func (r *Registry) releaseOne(c io.Closer) {
	defer r.wg.Done()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy--
		r.startWorkers(time.Now())
	}()
	r.release(c)
}

func (r *Registry) release(c io.Closer) {
	defer r.survive("Close of a target's health checker panicked")
	// There is nobody to tell of an error: the target is gone.
	_ = c.Close()
}
