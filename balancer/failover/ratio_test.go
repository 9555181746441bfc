package failover_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
)

const (
	ok              = 0
	cancelled       = 1
	deadline        = 4
	notFound        = 5
	unavailable     = 14
	unauthenticated = 16
)

func ratio(t testing.TB, o failover.RatioOptions) *failover.Ratio {
	t.Helper()
	r, err := failover.NewRatio(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sec(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// record counts n calls and says how many of them asked for a verdict.
func record(r *failover.Ratio, n int, code uint32, now time.Time) (asked int) {
	for range n {
		if r.Record(code, false, now) {
			asked++
		}
	}
	return asked
}

// G-50: enough failures, and enough of all calls, condemn.
func TestG50ErrorRatio(t *testing.T) {
	t.Parallel()
	half := failover.RatioOptions{Threshold: .5}
	type calls struct {
		at   float64 // s
		n    int
		code uint32
	}
	for _, c := range []struct {
		name    string
		options failover.RatioOptions
		calls   []calls
		judged  float64
		bad     bool
	}{
		{"60 of 100", half, []calls{{0, 40, ok}, {1, 60, unavailable}}, 1, true},
		{"exactly half", half, []calls{{0, 50, ok}, {1, 50, unavailable}}, 1, true},
		{"one less", half, []calls{{0, 51, ok}, {1, 50, unavailable}}, 1, false},
		{"2 failures never", half, []calls{{0, 2, unavailable}}, 1, false},
		{"3 do", half, []calls{{0, 3, unavailable}}, 1, true},
		{"nothing works, by default", failover.RatioOptions{}, []calls{{0, 3, unavailable}}, 1, true},
		{"something does", failover.RatioOptions{}, []calls{{0, 1, ok}, {0, 1000, unavailable}}, 1, false},
		{"each default code", failover.RatioOptions{}, []calls{{0, 1, unavailable}, {0, 1, deadline}, {0, 1, unauthenticated}}, 1, true},
		{"the callee's own answers are successes", half, []calls{{0, 100, notFound}, {0, 100, cancelled}}, 1, false},
		{"codes that are set", failover.RatioOptions{Codes: []uint32{notFound}}, []calls{{0, 3, notFound}}, 1, true},
		{"in place of the default", failover.RatioOptions{Codes: []uint32{notFound}}, []calls{{0, 100, unavailable}}, 1, false},
		{"codes that gRPC does not have", half, []calls{{0, 100, 64 + unavailable}, {0, 100, math.MaxUint32}}, 1, false},
		{"slides", half, []calls{{0, 3, unavailable}}, 61, false},
		{"not by a fixed period", half, []calls{{58, 2, unavailable}, {62, 1, unavailable}}, 62, true},
		{"good calls that are long ago", half, []calls{{0, 1000, ok}, {70, 3, unavailable}}, 70, true},
		{"15/16 of the window count", half, []calls{{3.7, 3, unavailable}}, 59, true},
		{"more than all of it does not", half, []calls{{3.7, 3, unavailable}}, 63.8, false},
		{"idle for a day", half, []calls{{0, 3, unavailable}}, 86400, false},
		{"calls before the start", half, []calls{{-50, 3, unavailable}}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ratio(t, c.options)
			for _, calls := range c.calls {
				record(r, calls.n, calls.code, sec(calls.at))
			}
			if good := r.Judge(sec(c.judged)); good == c.bad {
				t.Errorf("good is %v: %+v", good, r.State(sec(c.judged)))
			}
		})
	}
}

// Of many failures that could condemn, one asks for the verdict.
func TestG50RecordAsks(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{Threshold: .5})
	if n := record(r, 2, unavailable, sec(0)); n != 0 {
		t.Errorf("asked %d times after 2 failures", n)
	}
	if !r.Record(unavailable, false, sec(0)) {
		t.Error("the third failure did not ask")
	}
	if n := record(r, 50, unavailable, sec(0)); n != 0 {
		t.Errorf("asked %d times more", n)
	}
	// The verdict comes too late to find them: the next ones ask again.
	if !r.Judge(sec(100)) {
		t.Error("condemned for what is long ago")
	}
	if n := record(r, 50, unavailable, sec(100)); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if r.Judge(sec(100)) {
		t.Error("not condemned")
	}
	if n := record(r, 50, unavailable, sec(101)); n != 0 {
		t.Errorf("asked %d times while condemned", n)
	}
	if n := record(ratio(t, failover.RatioOptions{Threshold: .5}), 50, ok, sec(0)); n != 0 {
		t.Errorf("asked %d times by successes", n)
	}
}

// G-51, G-52: the way back is by probes in a row and the hold.
func TestG51G52WayBack(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{})
	condemn(t, r, 10)
	probe := func(at float64, passed, want bool) {
		t.Helper()
		if good := r.Probed(passed, sec(at)); good != want {
			t.Errorf("good is %v after the probe at %v s: %+v", good, at, r.State(sec(at)))
		}
	}
	if _, ok := r.Next(); ok {
		t.Error("a deadline, though only probes can change the verdict")
	}
	probe(20, true, false)
	probe(30, true, false)
	probe(40, true, false) // enough, but the hold is 60 s
	if next, ok := r.Next(); !ok || !next.Equal(sec(70)) {
		t.Errorf("next is %v, %v", next, ok)
	}
	probe(50, false, false) // in a row, please
	if r.Judge(sec(100)) {
		t.Error("good after the hold alone")
	}
	probe(110, true, false)
	probe(120, true, false)
	record(r, 100, ok, sec(121)) // calls do not bring it back
	if s := r.State(sec(121)); !s.Condemned || s.Passed != 2 || !s.Since.Equal(sec(10)) || !s.Until.Equal(sec(70)) || s.Hold != time.Minute || r.Judge(sec(121)) {
		t.Errorf("state %+v", s)
	}
	probe(130, true, true)
	if s := r.State(sec(130)); s != (failover.RatioState{Since: sec(130)}) {
		t.Errorf("state after the return, whose window is empty: %+v", s)
	}
	probe(131, false, true) // a probe condemns nobody
}

func TestG51HoldThenVerdict(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{Probes: 1})
	condemn(t, r, 0)
	r.Probed(true, sec(1))
	if r.Judge(sec(59.9)) {
		t.Error("good before the hold was over")
	}
	if !r.Judge(sec(60)) {
		t.Error("not good when the hold was over")
	}
}

// Probes of the time before count for nothing.
func TestG52ProbesOfBefore(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{Probes: 2})
	r.Probed(true, sec(0))
	r.Probed(true, sec(0))
	condemn(t, r, 0)
	if r.Probed(true, sec(60)) {
		t.Error("good after one probe")
	}
	if !r.Probed(true, sec(60)) {
		t.Error("not good after two")
	}
	condemn(t, r, 70)
	if _, ok := r.Next(); ok || r.Judge(sec(1000)) {
		t.Error("good by the probes that ended the condemnation before")
	}
}

// G-51: at most one switch a period: the hold doubles while returns do not last.
func TestG51Hysteresis(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{OnTrial: true})
	if next, ok := r.Next(); ok {
		t.Errorf("due at %v without a verdict", next)
	}
	now := 0.0
	for _, hold := range []float64{60, 120, 240, 480, 480} {
		condemn(t, r, now)
		next, ok := r.Next()
		if !ok || !next.Equal(sec(now+hold)) || r.State(sec(now)).Hold.Seconds() != hold {
			t.Errorf("condemned at %v s until %v, %v; want a hold of %v s", now, next, ok, hold)
		}
		if now += hold; !r.Judge(sec(now)) {
			t.Errorf("not good at %v s", now)
		}
		now += 60
	}
	now += 0.001 // it was good for longer than a window
	condemn(t, r, now)
	if next, _ := r.Next(); !next.Equal(sec(now + 60)) {
		t.Errorf("hold until %v after a return that lasted", next)
	}
	condemnations := 0
	r = ratio(t, failover.RatioOptions{OnTrial: true, Window: 10 * time.Second})
	for now := 0.0; now < 1000; now += .1 { // everything fails, always
		before := r.State(sec(now)).Condemned
		if record(r, 1, unavailable, sec(now)) > 0 || before {
			if !r.Judge(sec(now)) && !before {
				condemnations++
			}
		}
	}
	if condemnations > 3+1000/80+1 {
		t.Errorf("condemned %d times in 1000 s", condemnations)
	}
}

// G-55, SP-06: what the caller cancelled counts as neither.
func TestG55SP06CallerCancelled(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{Threshold: .5, Codes: []uint32{cancelled, unavailable}})
	for range 500 {
		if r.Record(cancelled, true, sec(0)) || r.Record(unavailable, true, sec(0)) {
			t.Fatal("asked for a verdict")
		}
	}
	if failures, calls := r.Counts(sec(0)); failures != 0 || calls != 0 || !r.Judge(sec(0)) {
		t.Errorf("%d of %d calls failed", failures, calls)
	}
	record(r, 2, deadline, sec(0))
	record(r, 2, cancelled, sec(0)) // by the server
	if s := r.State(sec(0)); s.Failures != 2 || s.Calls != 4 || s.Ratio != .5 {
		t.Errorf("%+v", s)
	}
}

func TestRatioSetOptions(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{})
	record(r, 2, unavailable, sec(0))
	if good, err := r.SetOptions(failover.RatioOptions{Window: 2 * time.Minute, MinFailures: 1}, sec(0)); !good || err != nil {
		t.Errorf("another window starts empty: good is %v, %v", good, err)
	}
	r = ratio(t, failover.RatioOptions{})
	record(r, 10, ok, sec(0))
	record(r, 10, unavailable, sec(0))
	if _, err := r.SetOptions(failover.RatioOptions{Threshold: 2}, sec(0)); err == nil || !r.Judge(sec(0)) {
		t.Errorf("threshold 2: %v", err)
	}
	if good, err := r.SetOptions(failover.RatioOptions{Threshold: .5}, sec(0)); good || err != nil {
		t.Errorf("a lower threshold: good is %v, %v", good, err)
	}
	if good, err := r.SetOptions(failover.RatioOptions{Hold: 2 * time.Minute, OnTrial: true}, sec(100)); good || err != nil {
		t.Errorf("a longer hold: good is %v, %v", good, err)
	}
	if next, ok := r.Next(); !ok || !next.Equal(sec(120)) {
		t.Errorf("next is %v, %v", next, ok)
	}
	if good, err := r.SetOptions(failover.RatioOptions{OnTrial: true}, sec(100)); !good || err != nil {
		t.Errorf("a hold that is over: good is %v, %v", good, err)
	}
	record(r, 2, unavailable, sec(100))
	if good, err := r.SetOptions(failover.RatioOptions{Window: time.Second, MinFailures: 2}, sec(100)); !good || err != nil {
		t.Errorf("another window starts empty: good is %v, %v", good, err)
	}
	if n := record(r, 2, unavailable, sec(100)); n != 1 {
		t.Errorf("asked %d times under the new settings", n)
	}
}

func TestRatioRefused(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]failover.RatioOptions{
		"Window is 1ms":        {Window: time.Millisecond},
		"Window is 25h":        {Window: 25 * time.Hour},
		"Threshold is 1.01":    {Threshold: 1.01},
		"Threshold is -1":      {Threshold: -1},
		"Threshold is NaN":     {Threshold: math.NaN()},
		"MinFailures is -1":    {MinFailures: -1},
		"MinFailures is 1e":    {MinFailures: 1_000_000},
		"Probes is -1":         {Probes: -1},
		"Hold is 1s":           {Hold: time.Second},
		"Codes[1] is 0":        {Codes: []uint32{14, 0}},
		"Codes[0] is 64":       {Codes: []uint32{64}},
		"Probes is 2000":       {Probes: 2000, Window: -1},
		"allowed is 1s to 24h": {Probes: 2000, Window: -1},
	} {
		_, err := failover.NewRatio(o, epoch)
		if says = strings.Replace(says, "1e", "1000000", 1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
		if o.Validate() == nil {
			t.Errorf("Validate allows %+v", o)
		}
	}
	codes := []uint32{notFound}
	r := ratio(t, failover.RatioOptions{Codes: codes})
	codes[0] = unavailable
	if record(r, 3, notFound, sec(0)); r.Judge(sec(0)) {
		t.Error("the settings changed with the caller's slice")
	}
}

// Each call of many goroutines counts once, and of those that fail one asks.
func TestRatioConcurrently(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 5000
	r := ratio(t, failover.RatioOptions{Threshold: .5, MinFailures: goroutines * each})
	var wg sync.WaitGroup
	asked := make([]int, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				r.Record(ok, false, sec(1))
				asked[g] += record(r, 1, unavailable, sec(1))
				r.Counts(sec(1))
			}
		})
	}
	wg.Wait()
	if failures, calls := r.Counts(sec(1)); failures != goroutines*each || calls != 2*goroutines*each {
		t.Errorf("%d of %d", failures, calls)
	}
	total := 0
	for _, n := range asked {
		total += n
	}
	if total != 1 || r.Judge(sec(1)) {
		t.Errorf("asked %d times", total)
	}
}

// A window that's fuller than it can count keeps the share.
func TestRatioFullBucket(t *testing.T) {
	t.Parallel()
	r := ratio(t, failover.RatioOptions{Threshold: .5})
	for i := range 1_200_000 {
		code := uint32(ok)
		if i%4 == 0 {
			code = unavailable
		}
		r.Record(code, false, sec(1))
	}
	if s := r.State(sec(1)); s.Calls < 500_000 || math.Abs(s.Ratio-.25) > .001 {
		t.Errorf("%+v", s)
	}
	asked := record(r, 1_200_000, unavailable, sec(1))
	if asked != 1 || r.Judge(sec(1)) {
		t.Errorf("asked %d times: %+v", asked, r.State(sec(1)))
	}
}

func condemn(t *testing.T, r *failover.Ratio, at float64) {
	t.Helper()
	if record(r, 3, unavailable, sec(at)) != 1 || r.Judge(sec(at)) {
		t.Fatalf("not condemned at %v s: %+v", at, r.State(sec(at)))
	}
}

func BenchmarkRatioRecord(b *testing.B) {
	for _, c := range []struct {
		name string
		code uint32
	}{{"success", ok}, {"failure", unavailable}} {
		b.Run(c.name, func(b *testing.B) {
			r := ratio(b, failover.RatioOptions{})
			r.Record(ok, false, epoch) // so that failures do not condemn
			b.ReportAllocs()
			for b.Loop() {
				r.Record(c.code, false, epoch)
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			r := ratio(b, failover.RatioOptions{})
			r.Record(ok, false, epoch)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r.Record(c.code, false, epoch)
				}
			})
		})
	}
}

func TestRatioRecordDoesNotAllocate(t *testing.T) {
	r := ratio(t, failover.RatioOptions{})
	if n := testing.AllocsPerRun(100, func() { r.Record(unavailable, false, sec(1)); r.Record(ok, false, sec(1)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
