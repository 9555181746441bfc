package selection

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"unsafe"
)

// KetamaOptions are the settings of [Ketama]. The zero value makes the ring of
// nginx's "hash $key consistent": for each unit of weight a member has 160 points,
// CRC-32 values of "HOST\0PORT" followed by the value of the point before. A key
// is at its CRC-32, and its candidates are the members of the points from there
// on. HOST:PORT is the member's Info().Address, its name where it has no
// address or shares it with a member before.
//
// A member of weight 0 is not on the ring, but if all have 0 then all have 1.
type KetamaOptions struct {
	// PointsPerWeight is how many points a unit of weight has; 0 stands for 160.
	// It may be up to 65,536.
	PointsPerWeight int
	// MaxPoints bounds the ring, of which a point takes about 20 bytes; 0 stands
	// for 4,194,304, and 268,435,456 is the most. Where weights ask for more,
	// each member gets its share of the bound and at least one point; the ring is
	// not nginx's then.
	MaxPoints int
	// Seed gives another ring with the same shares; 0 is nginx's.
	Seed uint32
	// Weight gives the weight of a member whenever the membership changes; nil
	// stands for Info().Weight.
	Weight func(*Member) uint32
}

const (
	defaultPointsPerWeight = 160
	maxPointsPerWeight     = 1 << 16
	defaultMaxPoints       = 1 << 22
	mostMaxPoints          = 1 << 28
)

func (o KetamaOptions) problems() (ps []string) {
	if o.PointsPerWeight < 0 || o.PointsPerWeight > maxPointsPerWeight {
		ps = append(ps, fmt.Sprintf("PointsPerWeight is %d; it has to be 1 to %d, or 0 for %d", o.PointsPerWeight, maxPointsPerWeight, defaultPointsPerWeight))
	}
	if o.MaxPoints < 0 || o.MaxPoints > mostMaxPoints {
		ps = append(ps, fmt.Sprintf("MaxPoints is %d; it has to be 1 to %d, or 0 for %d", o.MaxPoints, mostMaxPoints, defaultMaxPoints))
	}
	return ps
}

// equal ignores Weight, which the policy compares by its weigher.
func (o KetamaOptions) equal(p KetamaOptions) bool {
	a, b := o.withDefaults(), p.withDefaults()
	return a.PointsPerWeight == b.PointsPerWeight && a.MaxPoints == b.MaxPoints && a.Seed == b.Seed
}

func (o KetamaOptions) withDefaults() KetamaOptions {
	if o.PointsPerWeight == 0 {
		o.PointsPerWeight = defaultPointsPerWeight
	}
	if o.MaxPoints == 0 {
		o.MaxPoints = defaultMaxPoints
	}
	return o
}

// ring is the data of ketama: points in ascending order of their hashes.
type ring struct {
	hash   []uint32
	member []int32
	// back is how many points before this one, around the ring, the member had
	// another: a walk of fewer points has not met it yet.
	back    []uint32
	guide   []uint32 // for each equal cut of the hashes, the first point that is not before it
	shift   uint8    // cuts are 1<<shift hashes long
	members int      // that have points
}

func buildRing(ctx context.Context, ms []*Member, w *weigher, o KetamaOptions) (*ring, error) {
	in, err := weigh(ctx, ms, w)
	if err != nil {
		return nil, err
	}
	points, err := pointsOf(ctx, ms, in, o.withDefaults())
	if err != nil {
		return nil, err
	}
	r := &ring{
		hash:   make([]uint32, len(points)),
		member: make([]int32, len(points)),
		back:   make([]uint32, len(points)),
	}
	for i, p := range points {
		r.hash[i], r.member[i] = uint32(p>>32), int32(uint32(p))
	}
	r.measure(len(ms))
	r.index()
	return r, nil
}

// pointsOf makes the points, hash in the high half and member in the low, sorted;
// of those with the same hash only the first member's is left, as in nginx.
func pointsOf(ctx context.Context, ms []*Member, in weighed, o KetamaOptions) ([]uint64, error) {
	var points []uint64
	seen := make(map[string]struct{}, len(in.index))
	total := float64(in.total) * float64(o.PointsPerWeight)
	points = slices.Grow(points, int(min(total, float64(o.MaxPoints))))
	for k, i := range in.index {
		m := ms[i]
		id := m.Info().Address
		if _, twice := seen[id]; twice || id == "" {
			id = m.Name()
		}
		seen[id] = struct{}{}
		share := float64(in.weights[k]) * float64(o.PointsPerWeight)
		if total > float64(o.MaxPoints) {
			share = max(1, share*(float64(o.MaxPoints)/total))
		}
		base, prev := baseOf(id), o.Seed
		for j := range int(share) {
			if j%4096 == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			prev = pointAfter(base, prev)
			points = append(points, uint64(prev)<<32|uint64(uint32(i)))
		}
	}
	slices.Sort(points)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.CompactFunc(points, func(a, b uint64) bool { return a>>32 == b>>32 }), nil
}

// hashOf reads the key where it is: a copy would be an allocation in each pick.
func hashOf(key string) uint32 {
	return crc32.ChecksumIEEE(unsafe.Slice(unsafe.StringData(key), len(key)))
}

// baseOf is the CRC-32 of "HOST\0PORT". What has no port is a host as a whole,
// and the path of a unix socket is one.
func baseOf(address string) uint32 {
	host, port := address, ""
	if len(address) >= 5 && strings.EqualFold(address[:5], "unix:") {
		host = address[5:]
	} else if digits := strings.TrimRight(address, "0123456789"); strings.HasSuffix(digits, ":") {
		host, port = digits[:len(digits)-1], address[len(digits):]
	}
	return hashOf(host + "\x00" + port)
}

// pointAfter goes on with the base by the four bytes of the point before, the
// low one first.
func pointAfter(base, prev uint32) uint32 {
	crc := ^base
	for range 4 {
		crc = crc32.IEEETable[byte(crc)^byte(prev)] ^ crc>>8
		prev >>= 8
	}
	return ^crc
}

// measure fills back, and counts the members.
func (r *ring) measure(members int) {
	n := len(r.hash)
	last := make([]int, members) // where the member's point before is, counted on from a round ago
	for i := range last {
		last[i] = -1
	}
	for i, m := range r.member {
		if last[m] < 0 {
			r.members++
		}
		last[m] = i
	}
	for i, m := range r.member {
		before := last[m]
		if before >= i {
			before -= n
		}
		r.back[i] = uint32(i - before)
		last[m] = i
	}
}

// index fills guide, with at least as many cuts as points.
func (r *ring) index() {
	cuts := min(28, bits.Len(uint(len(r.hash))))
	r.shift = uint8(32 - cuts)
	r.guide = make([]uint32, 1<<cuts)
	i := 0
	for cut := range r.guide {
		for i < len(r.hash) && uint64(r.hash[i]) < uint64(cut)<<r.shift {
			i++
		}
		r.guide[cut] = uint32(i)
	}
}

// at returns the first point that is not before the hash.
func (r *ring) at(hash uint32) int {
	i := int(r.guide[hash>>r.shift])
	for i < len(r.hash) && r.hash[i] < hash {
		i++
	}
	if i == len(r.hash) {
		return 0
	}
	return i
}

// Next implements Order.
func (r *ring) Next(call Call, c Cursor) (int, Cursor) { return r.next(&call, c) }

// next walks around the ring from the key's place. A cursor's A is that place,
// B how many candidates it had in its low half and how many points it passed in
// its high half.
func (r *ring) next(call *Call, c Cursor) (int, Cursor) {
	if c.B == 0 {
		if len(r.hash) == 0 {
			return -1, c
		}
		hash := uint32(0)
		if call.HasKey {
			hash = hashOf(call.Key)
		} else {
			hash = rand.Uint32()
		}
		at := r.at(hash)
		return int(r.member[at]), Cursor{A: uint64(at), B: 1<<32 | 1}
	}
	had, passed := int(uint32(c.B)), int(c.B>>32)
	if had == r.members {
		return -1, c
	}
	for ; ; passed++ {
		at := int(c.A) + passed
		if at >= len(r.hash) {
			at -= len(r.hash)
		}
		if int(r.back[at]) > passed {
			return int(r.member[at]), Cursor{A: c.A, B: uint64(passed+1)<<32 | uint64(had+1)}
		}
	}
}

// Bytes is how much memory the data holds.
func (r *ring) Bytes() int64 { return int64(len(r.hash)*12 + len(r.guide)*4) }
