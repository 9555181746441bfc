package balancer

import (
	"math/rand/v2"
	"testing"
)

func TestBitsetAgainstSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 63, 64, 65, 4095, 4096, 4097, 5000, 9000} {
		b, want := newBitset(n), make([]bool, n)
		naive := func(from int) int {
			for i := from; i < n; i++ {
				if want[i] {
					return i
				}
			}
			return -1
		}
		for range 300 {
			if n > 0 {
				i, in := rng.IntN(n), rng.IntN(3) == 0
				b.set(i, in)
				want[i] = in
			}
			from := rng.IntN(n + 1)
			if got, want := b.next(from), naive(from); got != want {
				t.Fatalf("n=%d: next(%d) = %d, want %d", n, from, got, want)
			}
			around := naive(from)
			if around < 0 {
				around = naive(0)
			}
			if got := b.nextAround(from); got != around {
				t.Fatalf("n=%d: nextAround(%d) = %d, want %d", n, from, got, around)
			}
		}
	}
}
