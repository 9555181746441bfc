package balancer

import (
	"sync"
	"testing"
)

func TestTally(t *testing.T) {
	var count tally
	var adders sync.WaitGroup
	for range 50 {
		adders.Go(func() {
			for range 1000 {
				count.add()
			}
		})
	}
	adders.Wait()
	if got := count.load(); got != 50_000 {
		t.Errorf("counted %d, want 50000", got)
	}
}
