package selection

import "context"

// weigher is a user's weight function. Policies hold it by pointer, which can be
// compared.
type weigher struct{ weight func(*Member) uint32 }

func weigherOf(f func(*Member) uint32) *weigher {
	if f == nil {
		return nil
	}
	return &weigher{f}
}

// weighed are the members that take part in an order, by index, and their
// weights, none of which is 0.
type weighed struct {
	index   []int32
	weights []uint32
	total   uint64
}

// weigh reads the weight of each member once. Those of weight 0 stay out, but if
// all have 0 then all have 1.
func weigh(ctx context.Context, ms []*Member, w *weigher) (weighed, error) {
	out := weighed{index: make([]int32, 0, len(ms)), weights: make([]uint32, 0, len(ms))}
	for i, m := range ms {
		if i%1024 == 0 && ctx.Err() != nil {
			return weighed{}, context.Cause(ctx)
		}
		weight := uint32(0)
		if w != nil {
			weight = w.weight(m)
		} else {
			weight = m.Info().Weight
		}
		if weight > 0 {
			out.index = append(out.index, int32(i))
			out.weights = append(out.weights, weight)
			out.total += uint64(weight)
		}
	}
	if out.total == 0 {
		for i := range ms {
			out.index = append(out.index, int32(i))
			out.weights = append(out.weights, 1)
		}
		out.total = uint64(len(ms))
	}
	return out, nil
}
