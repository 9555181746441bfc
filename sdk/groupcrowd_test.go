package sdk_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// Issue 6: with no recovery, the failover of 200 callers at full speed costs what was
// in flight to the dead address, and no more than one RPC of a caller beside that.
//
// Each caller has one RPC at a time. The one that is in flight at the kill fails,
// since nobody knows whether the server has seen it. The next one may still be picked
// for the dead address: its connection is gone, which is no evidence against a target
// that may just have restarted, so until the first attempt to connect anew has
// failed RPCs wait for that. Those that wait then fail, and the first of their
// callers to hear of it tells the group before it tries again. The slack is for the
// moment between the first pick that fails and the channel saying that it has, which
// is longer on a machine that is busy with something else.
func TestFailoverOf200CallersAtFullSpeed(t *testing.T) {
	t.Parallel()
	const callers = 200
	p := startPlaces(t, "a", "b")
	client := dialGroups(t, p.topology(group("default", "a", "b"), group("standby", "b")))
	goesTo(t, client, "standby", "b") // it is warm
	goesTo(t, client, "", "a")

	type failure struct {
		caller int
		err    error
		begun  time.Time
		ended  time.Time
	}
	var (
		running  sync.WaitGroup
		mu       sync.Mutex // guards failures
		failures []failure
		calls    atomic.Int64
		halt     = make(chan struct{})
		echo     = sdktest.NewEcho(client)
		ctx      = within(t, time.Minute)
	)
	for caller := range callers {
		running.Go(func() {
			for {
				select {
				case <-halt:
					return
				default:
				}
				begun := time.Now()
				_, err := echo.Who(ctx, "")
				calls.Add(1)
				if err != nil {
					mu.Lock()
					failures = append(failures, failure{caller, err, begun, time.Now()})
					mu.Unlock()
				}
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		want := calls.Load() + n
		eventually(t, "more RPCs", func() bool { return calls.Load() >= want })
	}
	more(1_000)
	inFlight := poolOf(client, "a").InFlight
	before := calls.Load()
	killed := time.Now()
	p["a"].Kill()
	var switched time.Time
	watching, enough := context.WithTimeout(context.Background(), 10*time.Second)
	defer enough()
	for s := range client.Group("").Watch(watching) {
		if s.To == "b" {
			switched = s.At
			break
		}
	}
	more(1_000)
	close(halt)
	running.Wait()

	var last time.Time
	byCaller := make(map[int]int)
	flying := 0 // of failures
	for _, f := range failures {
		byCaller[f.caller]++
		if f.begun.Before(killed) {
			flying++
		}
		if f.ended.After(last) {
			last = f.ended
		}
		if status.Code(f.err) != codes.Unavailable {
			t.Errorf("an RPC failed with %v", f.err)
		}
	}
	most := 0
	for _, n := range byCaller {
		most = max(most, n)
	}
	failed := len(failures)
	t.Logf("%d RPCs in flight at the kill; %d of %d failed (%.2f%%), %d of them begun before it; at most %d of one caller; switched after %v, the last failure after %v",
		inFlight, failed, calls.Load()-before, 100*float64(failed)/float64(calls.Load()-before), flying, most, switched.Sub(killed), last.Sub(killed))
	const slack = callers / 2
	if failed > inFlight+callers+slack {
		t.Errorf("%d RPCs failed; want at most the %d in flight, one more of each of %d callers, and %d", failed, inFlight, callers, slack)
	}
	if n := client.Status().Groups[0].Current; n != "b" {
		t.Errorf("the current target is %q", n)
	}
}
