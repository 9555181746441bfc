package admission_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
)

func ExampleNewBreaker() {
	var now time.Duration // a program leaves Clock out
	breaker, err := admission.NewBreaker(admission.BreakerOptions{
		MinThroughput: 10,
		OpenFor:       5 * time.Second,
		Clock:         func() time.Duration { return now },
		Observer:      func(e admission.Edge) { fmt.Println(e) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The Router does this for each attempt; shown here for one endpoint.
	guard := breaker.Guard("10.0.0.7:443")
	for range 10 {
		token, _ := guard.TryAcquire("/shop.Cart/Add")
		guard.Report(token, admission.Outcome{Kind: admission.ConnectionClosed, Code: 14})
	}
	_, ok := guard.TryAcquire("/shop.Cart/Add")
	fmt.Println("admitted:", ok, "retry after:", guard.RetryAfter())

	now += 5 * time.Second
	token, _ := guard.TryAcquire("/shop.Cart/Add")
	guard.Report(token, admission.Outcome{Kind: admission.OK})
	// Output:
	// breaker of 10.0.0.7:443: closed to open, 10 of 10 calls failed, next trial in 5s
	// admitted: false retry after: 5s
	// breaker of 10.0.0.7:443: open to half_open
	// breaker of 10.0.0.7:443: half_open to closed
}

// atMost is an Admission of one's own: so many attempts in flight per endpoint.
type atMost int64

func (n atMost) Guard(string) admission.Guard { return &inFlight{limit: int64(n)} }

type inFlight struct {
	limit int64
	now   atomic.Int64
}

func (f *inFlight) TryAcquire(string) (admission.Token, bool) {
	if f.now.Add(1) > f.limit {
		f.now.Add(-1)
		return 0, false
	}
	return 0, true
}

func (f *inFlight) Report(admission.Token, admission.Outcome) { f.now.Add(-1) }
func (f *inFlight) RetryAfter() time.Duration                 { return 0 }

func ExampleAdmission() {
	var a admission.Admission = atMost(1)
	guard := a.Guard("10.0.0.7:443")
	token, first := guard.TryAcquire("/shop.Cart/Add")
	_, second := guard.TryAcquire("/shop.Cart/Add")
	guard.Report(token, admission.Outcome{Kind: admission.NotSent})
	_, third := guard.TryAcquire("/shop.Cart/Add")
	fmt.Println(first, second, third)
	// Output: true false true
}
