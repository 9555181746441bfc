package failover_test

import (
	"fmt"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
)

// A group of two targets whose first is lost and comes back.
func ExampleMachine() {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	after := start.Add
	tell := func(switches []failover.Switch) {
		for _, s := range switches {
			fmt.Printf("%v from %s to %s: %v\n", s.At.Sub(start), s.From, s.To, s.Reason)
		}
	}

	m, err := failover.New([]string{"main", "fallback"}, failover.Options{Recovery: 2 * time.Second}, start)
	if err != nil {
		fmt.Println(err)
		return
	}
	tell(m.Observe("main", failover.Up, after(0)))
	tell(m.Observe("fallback", failover.Up, after(0)))

	tell(m.Observe("main", failover.Failed, after(10*time.Second)))
	due, _ := m.Next()
	fmt.Println(due.Sub(start), "is when to look again")
	tell(m.Tick(due))

	tell(m.Observe("main", failover.Up, after(20*time.Second)))
	due, _ = m.Next()
	tell(m.Tick(due))
	// Output:
	// 12s is when to look again
	// 12s from main to fallback: lost
	// 22s from fallback to main: recovered
}

// A target whose calls all fail is condemned, and good again by three probes once
// the hold is over.
func ExampleRatio() {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r, err := failover.NewRatio(failover.RatioOptions{Window: 10 * time.Second}, start)
	if err != nil {
		fmt.Println(err)
		return
	}
	const unavailable = 14
	for i := range 3 {
		now := start.Add(time.Duration(i) * time.Second)
		if r.Record(unavailable, false, now) {
			fmt.Println("call", i+1, "asks for a verdict; good:", r.Judge(now))
		}
	}
	for i := range 3 {
		now := start.Add(time.Duration(10+i) * time.Second)
		fmt.Println("probe", i+1, "passed; good:", r.Probed(true, now))
	}
	// Output:
	// call 3 asks for a verdict; good: false
	// probe 1 passed; good: false
	// probe 2 passed; good: false
	// probe 3 passed; good: true
}
