package assignment

import (
	"time"

	"google.golang.org/grpc/backoff"
)

// delay is how long to wait after a failure that retries others went before,
// as gRPC waits between connection attempts (A119: backoff), with the jitter
// on the first delay too. random is in [0,1).
func delay(c backoff.Config, retries int, random float64) time.Duration {
	d, most := float64(c.BaseDelay), float64(c.MaxDelay)
	for ; retries > 0 && d < most && c.Multiplier > 1; retries-- {
		d *= c.Multiplier
	}
	d = min(d, most) * (1 + c.Jitter*(2*random-1))
	return time.Duration(max(d, 0))
}
