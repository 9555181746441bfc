package balancer

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/connectivity"
)

// TestA26AggregateState compares with A119's six rules, read one by one over the
// states themselves, for every combination of up to four endpoints.
func TestA26AggregateState(t *testing.T) {
	all := []connectivity.State{connectivity.Idle, connectivity.Connecting, connectivity.Ready, connectivity.TransientFailure}
	var walk func(states []connectivity.State, left int)
	walk = func(states []connectivity.State, left int) {
		var counts [connectivity.Shutdown + 1]int
		for _, s := range states {
			counts[s]++
		}
		if got, want := aggregate(counts), sixRules(states); got != want {
			t.Errorf("%v: got %v, want %v", states, got, want)
		}
		if left == 0 {
			return
		}
		for _, s := range all {
			walk(append(states[:len(states):len(states)], s), left-1)
		}
	}
	walk(nil, 4)
}

func sixRules(states []connectivity.State) connectivity.State {
	has := func(want connectivity.State) (n int) {
		for _, s := range states {
			if s == want {
				n++
			}
		}
		return n
	}
	if has(connectivity.Ready) >= 1 { // 1
		return connectivity.Ready
	}
	if has(connectivity.TransientFailure) >= 2 { // 2
		return connectivity.TransientFailure
	}
	if has(connectivity.Connecting) >= 1 { // 3
		return connectivity.Connecting
	}
	if has(connectivity.TransientFailure) == 1 && len(states) > 1 { // 4
		return connectivity.Connecting
	}
	if has(connectivity.Idle) >= 1 { // 5
		return connectivity.Idle
	}
	return connectivity.TransientFailure // 6
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range reasons {
		seen[fmt.Sprint(r)] = true
	}
	if len(seen) != int(reasons) {
		t.Errorf("reasons share a name: %v", seen)
	}
}
