package selection

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// FuzzWheel: every place belongs to the member whose share of the circle it is
// in, worked out with big numbers, and an order is a permutation.
func FuzzWheel(f *testing.F) {
	f.Add([]byte{5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, uint64(1))
	f.Add([]byte{255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, ^uint64(0))
	f.Add(slices.Concat([]byte{255, 255, 255, 255}, slices.Repeat([]byte{1, 0, 0, 0}, 60)), ^uint64(0)-3)
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, bytes []byte, place uint64) {
		var ms []*Member
		for ; len(bytes) >= 4 && len(ms) < 300; bytes = bytes[4:] {
			ms = append(ms, NewMember(fmt.Sprint(len(ms)), Info{Weight: binary.LittleEndian.Uint32(bytes)}, nil))
		}
		s := new(State)
		o, err := buildWheel(t.Context(), ms, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		var weights []uint64
		var sum uint64
		for _, m := range ms {
			weights = append(weights, uint64(m.Info().Weight))
			sum += uint64(m.Info().Weight)
		}
		if sum == 0 {
			sum = uint64(len(ms))
			for i := range weights {
				weights[i] = 1
			}
		}
		if len(ms) > 0 {
			for _, p := range []uint64{place, place + 1, place - 1, 0, ^uint64(0), ^uint64(0) / 3, 1 << 63} {
				// The member in which p/2^64 of all weight is reached.
				want, reached := 0, uint64(0)
				for i, w := range weights {
					reached += w
					edge := new(big.Int).Lsh(new(big.Int).SetUint64(reached), 64)
					edge.Div(edge, new(big.Int).SetUint64(sum))
					if w > 0 && edge.Cmp(new(big.Int).SetUint64(p)) > 0 {
						want = i
						break
					}
				}
				if got := int(o.index[o.at(p)]); got != want {
					t.Fatalf("place %d is member %d's, want %d's; weights %v", p, got, want, weights)
				}
			}
		}
		s.weighted.Store(place)
		permutation(t, weights, o.Next)
	})
}

// permutation checks that next gives each member that has weight once.
func permutation(t *testing.T, weights []uint64, next func(Call, Cursor) (int, Cursor)) {
	t.Helper()
	var want, got []int
	for i, w := range weights {
		if w > 0 {
			want = append(want, i)
		}
	}
	call := Call{Key: "k", HasKey: true}
	for i, c := next(call, Cursor{}); i >= 0 && len(got) <= len(weights); i, c = next(call, c) {
		got = append(got, i)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("candidates in order of index %v, want %v", got, want)
	}
}

// point is one of a ring that is made the slow way.
type point struct {
	hash   uint32
	member int
}

// slowRing is the ring made word by word from what KetamaOptions says.
func slowRing(ms []*Member, perWeight int, seed uint32) []point {
	var points []point
	taken := map[uint32]bool{}
	for i, m := range ms {
		id := m.Info().Address
		if id == "" {
			id = m.Name()
		}
		host, port := id, ""
		if strings.HasPrefix(strings.ToLower(id), "unix:") {
			host = id[5:]
		} else if colon := strings.LastIndexByte(id, ':'); colon >= 0 && strings.Trim(id[colon+1:], "0123456789") == "" {
			host, port = id[:colon], id[colon+1:]
		}
		prev := seed
		for range perWeight * int(m.Info().Weight) {
			prev = crc32.ChecksumIEEE(binary.LittleEndian.AppendUint32([]byte(host+"\x00"+port), prev))
			if !taken[prev] {
				taken[prev] = true
				points = append(points, point{prev, i})
			}
		}
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	return points
}

// FuzzRing: the candidates of any key on any ring are those of the slow one.
func FuzzRing(f *testing.F) {
	f.Add("10.0.0.1:80 |,10.0.0.2:80 ||,10.0.0.3:80", "user-1", uint8(160), uint32(0))
	f.Add("unix:a.sock |,Unix:b |,[::1]:443 |||,host |,:1 |,: |,a:b:9 ||", "", uint8(3), uint32(9))
	f.Add(" |", "x", uint8(1), ^uint32(0))
	f.Fuzz(func(t *testing.T, list, key string, perWeight uint8, seed uint32) {
		var ms []*Member
		seen := map[string]bool{}
		var weights []uint64
		for _, entry := range strings.Split(list, ",") {
			address, units, _ := strings.Cut(entry, " ") // as many as there are bytes
			name := fmt.Sprint("name-", len(ms))
			weight := uint32(len(units) % 5)
			if seen[address] || seen[name] || len(ms) == 20 {
				continue
			}
			seen[address], seen[name] = true, true
			ms = append(ms, NewMember(name, Info{Address: address, Weight: weight}, nil))
			weights = append(weights, uint64(weight))
		}
		o := KetamaOptions{PointsPerWeight: 1 + int(perWeight), Seed: seed}
		if slices.Max(weights) == 0 {
			return // then all have 1
		}
		r, err := buildRing(t.Context(), ms, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		points := slowRing(ms, o.PointsPerWeight, seed)
		at, _ := slices.BinarySearchFunc(points, crc32.ChecksumIEEE([]byte(key)), func(p point, h uint32) int { return cmp.Compare(p.hash, h) })
		var want []int
		for i := range points {
			if m := points[(at+i)%len(points)].member; !slices.Contains(want, m) {
				want = append(want, m)
			}
		}
		var got []int
		call := Call{Key: key, HasKey: true}
		for i, c := r.Next(call, Cursor{}); i >= 0 && len(got) <= len(ms); i, c = r.Next(call, c) {
			got = append(got, i)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("candidates %v, want %v", got, want)
		}
	})
}
