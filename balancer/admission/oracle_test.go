package admission_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
)

// oracle is the breaker as one would write it down: it keeps every call.
type oracle struct {
	minimum, trials int
	ratio           float64
	window, openFor time.Duration

	state  admission.State
	epoch  int
	calls  []oracleCall  // closed
	until  time.Duration // open
	live   []int         // half open: numbers of the permits that hold a place
	passed int           // half open
	last   time.Duration // half open: when the last permit was granted
}

type oracleCall struct {
	at     time.Duration
	failed bool
}

type oracleToken struct{ epoch, permit int }

func (o *oracle) moveTo(s admission.State) {
	*o = oracle{
		minimum: o.minimum, trials: o.trials, ratio: o.ratio, window: o.window, openFor: o.openFor,
		state: s, epoch: o.epoch + 1,
	}
}

func (o *oracle) acquire(now time.Duration, permit int) (oracleToken, bool) {
	if o.state == admission.Open && now >= o.until {
		o.moveTo(admission.HalfOpen)
	}
	token := oracleToken{o.epoch, permit}
	switch o.state {
	case admission.Open:
		return token, false
	case admission.HalfOpen:
		if len(o.live)+o.passed >= o.trials {
			if now < o.last+o.openFor {
				return token, false
			}
			o.live = nil
		}
		o.live = append(o.live, permit)
		o.last = now
	}
	return token, true
}

func (o *oracle) report(now time.Duration, t oracleToken, outcome admission.Outcome) {
	if t.epoch != o.epoch {
		return
	}
	verdict := outcome.Verdict()
	if o.state == admission.Closed {
		if verdict == admission.Ignore {
			return
		}
		o.calls = append(o.calls, oracleCall{now, verdict == admission.Failure})
		step := o.window / 16
		failures, calls := 0, 0
		for _, c := range o.calls {
			if now/step-c.at/step < 16 {
				calls++
				if c.failed {
					failures++
				}
			}
		}
		if verdict == admission.Failure && calls >= o.minimum && float64(failures)/float64(calls) >= o.ratio {
			o.moveTo(admission.Open)
			o.until = now + o.openFor
		}
		return
	}
	place := slices.Index(o.live, t.permit)
	switch verdict {
	case admission.Failure:
		o.moveTo(admission.Open)
		o.until = now + o.openFor
	case admission.Success:
		if o.passed++; o.passed >= o.trials {
			o.moveTo(admission.Closed)
			return
		}
		if place >= 0 {
			o.live = slices.Delete(o.live, place, place+1)
		}
	default:
		if place >= 0 && outcome.Kind != admission.Deadline {
			o.live = slices.Delete(o.live, place, place+1)
		}
	}
}

func (o *oracle) retryAfter(now time.Duration) time.Duration {
	switch {
	case o.state == admission.Open:
		return max(0, o.until-now)
	case o.state == admission.HalfOpen && len(o.live)+o.passed >= o.trials:
		return max(0, o.last+o.openFor-now)
	}
	return 0
}

// compare lets a circuit and the oracle do what the bytes say.
func compare(t *testing.T, script []byte) {
	at := func(i int) int {
		if i < len(script) {
			return int(script[i])
		}
		return 0
	}
	// Times are whole units, which the circuit keeps exactly also half open.
	const unit = 1 << 16 * time.Nanosecond
	model := &oracle{
		minimum: 1 + at(0)%25, trials: 1 + at(1)%4, ratio: float64(1+at(2)%20) / 20,
		window: time.Duration(16_000+at(3)*100) * unit, openFor: time.Duration(100+at(4)*100) * unit,
	}
	now := time.Duration(at(5)) * 1000 * unit
	c := newCircuit(t, admission.BreakerOptions{
		MinThroughput: model.minimum, FailureRatio: model.ratio, Window: model.window, OpenFor: model.openFor,
		HalfOpenCalls: model.trials, Clock: func() time.Duration { return now },
	})

	type call struct {
		circuit admission.Token
		model   oracleToken
	}
	var inFlight []call
	outcomes := []admission.Outcome{failed, worked, failed, notSent, late, gaveUp, worked, failed}
	for i := 6; i < len(script); i++ {
		switch op, arg := script[i]&7, int(script[i]>>3); op {
		case 0, 1, 2: // a call starts; it stays in flight for a while
			token, ok := c.TryAcquire(method)
			wantToken, want := model.acquire(now, i)
			if ok != want {
				t.Fatalf("step %d at %v: admitted %v, the oracle says %v", i, now, ok, want)
			}
			if ok {
				inFlight = append(inFlight, call{token, wantToken})
			}
		case 3, 4, 5: // one of those in flight ends
			if len(inFlight) == 0 {
				continue
			}
			n := arg % len(inFlight)
			outcome := outcomes[(arg+int(op))%len(outcomes)]
			c.Report(inFlight[n].circuit, outcome)
			model.report(now, inFlight[n].model, outcome)
			inFlight = slices.Delete(inFlight, n, n+1)
		case 6:
			now += time.Duration(arg*arg) * unit
		case 7:
			now += time.Duration(arg) * model.openFor / 8 / unit * unit
		}
		if got := c.State(); got != model.state {
			t.Fatalf("step %d at %v: the circuit is %v, the oracle %v", i, now, got, model.state)
		}
		if got, want := c.RetryAfter(), model.retryAfter(now); got != want {
			t.Fatalf("step %d at %v: retry after %v, the oracle says %v", i, now, got, want)
		}
	}
}

func TestS20BreakerAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 4))
	for range 200 {
		script := make([]byte, 2000)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 { // time goes slowly, so that the window fills
			for i := 6; i < len(script); i++ {
				if script[i]&7 > 5 && rng.IntN(8) > 0 {
					script[i] ^= 6
				}
			}
		}
		compare(t, script)
	}
}

func FuzzBreaker(f *testing.F) {
	f.Add([]byte{0, 0, 9, 0, 0, 0, 0, 3, 0xff, 0, 3})
	f.Add([]byte{19, 2, 9, 100, 10, 9, 0, 0, 0, 3, 3, 0xff, 0xff, 0, 0, 11, 0xff, 1, 3, 4, 5, 6, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4096 {
			return
		}
		compare(t, script)
	})
}
