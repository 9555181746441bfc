package admission_test

import (
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
)

// circuits are one for each state, with the process's clock. The half-open one
// has given its permit away.
func circuits(b *testing.B) map[string]*admission.Circuit {
	b.Helper()
	closed := newCircuit(b, admission.BreakerOptions{})
	open := newCircuit(b, admission.BreakerOptions{MinThroughput: 1, OpenFor: time.Hour})
	token, _ := open.TryAcquire(method)
	open.Report(token, failed)

	start, skip := time.Now(), time.Duration(0)
	halfOpen := newCircuit(b, admission.BreakerOptions{
		MinThroughput: 1, OpenFor: time.Hour,
		Clock: func() time.Duration { return time.Since(start) + skip },
	})
	token, _ = halfOpen.TryAcquire(method)
	halfOpen.Report(token, failed)
	skip = time.Hour
	if _, ok := halfOpen.TryAcquire(method); !ok || halfOpen.State() != admission.HalfOpen {
		b.Fatalf("the circuit is %v", halfOpen.State())
	}
	return map[string]*admission.Circuit{"closed": closed, "open": open, "halfopen": halfOpen}
}

func BenchmarkTryAcquire(b *testing.B) {
	all := circuits(b)
	for _, state := range []string{"closed", "open", "halfopen"} {
		c := all[state]
		b.Run(state, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.TryAcquire(method)
			}
		})
		b.Run(state+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.TryAcquire(method)
				}
			})
		})
	}
}

// A half-open permit that is taken and given back.
func BenchmarkTrial(b *testing.B) {
	now := time.Duration(0)
	c := newCircuit(b, admission.BreakerOptions{MinThroughput: 1, Clock: func() time.Duration { return now }})
	token, _ := c.TryAcquire(method)
	c.Report(token, failed)
	now = time.Minute
	b.ReportAllocs()
	for b.Loop() {
		token, _ := c.TryAcquire(method)
		c.Report(token, notSent)
	}
}

func BenchmarkReport(b *testing.B) {
	b.Run("worked", func(b *testing.B) {
		c := circuits(b)["closed"]
		b.ReportAllocs()
		for b.Loop() {
			token, _ := c.TryAcquire(method)
			c.Report(token, worked)
		}
	})
	b.Run("worked/parallel", func(b *testing.B) {
		c := circuits(b)["closed"]
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				token, _ := c.TryAcquire(method)
				c.Report(token, worked)
			}
		})
	})
	b.Run("failed", func(b *testing.B) {
		c := newCircuit(b, admission.BreakerOptions{FailureRatio: 1})
		token, _ := c.TryAcquire(method)
		c.Report(token, worked)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			token, _ := c.TryAcquire(method)
			if n%100 == 0 {
				c.Report(token, worked)
				continue
			}
			c.Report(token, failed)
		}
	})
}
