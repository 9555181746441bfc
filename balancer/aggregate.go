package balancer

import (
	"google.golang.org/grpc/connectivity"
)

// aggregate follows A119's six rules, which are ring_hash's (gRFC A42).
func aggregate(counts [connectivity.Shutdown + 1]int) connectivity.State {
	total := 0
	for _, n := range counts {
		total += n
	}
	switch {
	case counts[connectivity.Ready] > 0:
		return connectivity.Ready
	case counts[connectivity.TransientFailure] >= 2:
		return connectivity.TransientFailure
	case counts[connectivity.Connecting] > 0:
		return connectivity.Connecting
	case counts[connectivity.TransientFailure] == 1 && total > 1:
		return connectivity.Connecting
	case counts[connectivity.Idle] > 0:
		return connectivity.Idle
	}
	return connectivity.TransientFailure
}
