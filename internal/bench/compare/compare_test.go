package main

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	lb "google.golang.org/grpc/balancer"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny has everything that the other sizes have, small enough for a test.
var tiny = size{
	big: 3000, middle: 2000, small: 60, endpoints: 12, many: 50, few: 10,
	rounds: 2, heavy: 2, sample: 2 * time.Millisecond,
	cold: 100, sweep: 1 << 16, changes: 30, updates: 3,
}

// TestMeasuresInMiniature runs every family; it is about the harness, not about
// the goals.
func TestMeasuresInMiniature(t *testing.T) {
	for _, m := range measures {
		t.Run(m.name, func(t *testing.T) {
			rows, err := m.run(tiny)
			if err != nil {
				t.Fatal(err)
			}
			goals := 0
			for _, r := range rows {
				if r.Measure == "" || math.IsNaN(r.Ours+r.Ratio+r.Spread) || math.IsInf(r.Ours+r.Ratio, 0) || r.Ours < 0 && m.name != "heap" && m.name != "groups" {
					t.Errorf("row %+v", r)
				}
				if r.PeerName != "" && r.Peer <= 0 {
					t.Errorf("row %q has the peer %q without a number", r.Measure, r.PeerName)
				}
				if r.Goal != "" {
					goals++
				}
				if (r.Goal == "") != (r.Verdict == "") {
					t.Errorf("row %q: goal %q and verdict %q", r.Measure, r.Goal, r.Verdict)
				}
			}
			if goals == 0 {
				t.Error("no row has a goal")
			}
		})
	}
}

// TestFramesDecode holds the bytes of an assignment against protobuf, and the
// owners against what our decoder makes of them.
func TestFramesDecode(t *testing.T) {
	w := world{slices: 2500, endpoints: 10, replicas: 3, seed: 5}
	frames := w.keptFrames()
	if len(frames) != 3 {
		t.Fatalf("%d chunks of at most 1000 slices", len(frames))
	}
	a, message, err := assignment.Decode(1, assignment.Revision202608, frames...)
	if err != nil || message != "" || a.Slices() != w.slices {
		t.Fatalf("decoded %v, %q, %v", a, message, err)
	}
	number := 0
	for _, f := range frames {
		var m wire.WatchShardingAssignmentResponse
		if err := proto.Unmarshal(f, &m); err != nil {
			t.Fatal(err)
		}
		for _, s := range m.GetChunk().GetSliceAssignments() {
			if got := a.Index.FindBytes(s.GetSlice().GetStartKey()); got != number {
				t.Fatalf("the start of slice %d is in slice %d", number, got)
			}
			distinct := map[int]bool{}
			for r, e := range s.GetEndpoints() {
				if int(e.GetEndpointIndex()) != w.owner(number, r) {
					t.Fatalf("slice %d, replica %d is at %d", number, r, e.GetEndpointIndex())
				}
				distinct[w.owner(number, r)] = true
			}
			if len(distinct) != w.replicas {
				t.Fatalf("slice %d has %d owners", number, len(distinct))
			}
			number++
		}
	}
	var m wire.WatchShardingAssignmentResponse
	if err := proto.Unmarshal(metadataFrame(7), &m); err != nil || m.GetMetadata().GetGeneration() != 7 {
		t.Errorf("metadata reads as %v, %v", &m, err)
	}
	for i, key := range w.ownKeys() {
		if owners := a.Owners(a.Index.Find(key)); int(owners[0]) != i {
			t.Errorf("key of endpoint %d belongs to %d", i, owners[0])
		}
	}
}

func TestKeyspace(t *testing.T) {
	for name, k := range map[string]keyspace{
		"16 bytes": {length: 16, keys: 1000, seed: 3},
		"prefix":   {prefix: "tenant/", length: 21, keys: 1000, seed: 3},
	} {
		t.Run(name, func(t *testing.T) {
			var keys []string
			for key := range k.all() {
				keys = append(keys, string(key))
			}
			for i, key := range slices.Concat(keys, k.probes(10)) {
				if len(key) != k.length || !strings.HasPrefix(key, k.prefix) {
					t.Fatalf("key %d has %d bytes, or not the prefix", i, len(key))
				}
			}
			for i := range keys[1:] {
				if keys[i] >= keys[i+1] {
					t.Fatalf("key %d is not above the one before", i+1)
				}
			}
			// As if drawn: the middle one is near the middle of what follows the prefix.
			if middle := keys[500][len(k.prefix)]; middle < 0x70 || middle > 0x90 {
				t.Errorf("the middle key begins with %x", middle)
			}
		})
	}
}

func TestEytzinger(t *testing.T) {
	for n := 1; n < 70; n++ {
		sorted := make([]uint64, n)
		for i := range sorted {
			sorted[i] = uint64(2*i + 1)
		}
		e := newEytzinger(sorted)
		for v := range uint64(2*n + 2) {
			at, _ := slices.BinarySearchFunc(sorted, v, func(x, v uint64) int {
				if x <= v {
					return -1
				}
				return 1
			})
			got := e.find(v)
			if at == n && got != 0 || at < n && e[got] != sorted[at] {
				t.Fatalf("%d numbers: find(%d) = %d", n, v, got)
			}
		}
	}
}

// TestPickersAgree: what is compared does the same. Ours, typed and by header,
// and the port of the seed choose among the same endpoints.
func TestPickersAgree(t *testing.T) {
	w := world{slices: 300, endpoints: 9, replicas: 3, seed: 2}
	o, err := startOurs(w)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	keys := w.keyspace().probes(50)
	if err := o.connect(slices.Concat(typed(w.ownKeys()), typed(keys)), w.endpoints); err != nil {
		t.Fatal(err)
	}
	seen := func(p lb.Picker, info lb.PickInfo) map[string]bool {
		addresses := map[string]bool{}
		for range 100 {
			res, err := p.Pick(info)
			if err != nil {
				t.Fatal(err)
			}
			addresses[res.SubConn.(*subConn).address] = true
		}
		return addresses
	}
	p, _ := o.picker()
	seed := newSeedPicker(w)
	for i := range keys {
		byType, byHeader, bySeed := seen(p, typed(keys)[i]), seen(p, inHeader(keys)[i]), seen(seed, inHeader(keys)[i])
		if len(byType) != w.replicas {
			t.Fatalf("%d endpoints serve a slice of %d replicas", len(byType), w.replicas)
		}
		for a := range byType {
			if !byHeader[a] || !bySeed[a] {
				t.Fatalf("key %d: %v by type, %v by header, %v by the seed", i, byType, byHeader, bySeed)
			}
		}
	}
}

// TestRingHashRoutesByHeader: the peer is not one that ignores the key.
func TestRingHashRoutesByHeader(t *testing.T) {
	w := world{slices: 10, endpoints: 9, replicas: 1}
	h, err := startPeer("ring_hash", w.resolved())
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	infos := inHeader(keyspace{length: 16, seed: 1}.probes(500))
	if err := h.connect(infos, w.endpoints); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, info := range infos {
		first, err := h.pick(info)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if again, _ := h.pick(info); again.SubConn != first.SubConn {
				t.Fatal("one key, two endpoints")
			}
		}
		all[first.SubConn.(*subConn).address] = true
	}
	if len(all) != w.endpoints {
		t.Errorf("500 keys reach %d of %d endpoints", len(all), w.endpoints)
	}
}

// lockingPicker is what the row about locks must find.
type lockingPicker struct{ lock chan struct{} }

func (p lockingPicker) Pick(lb.PickInfo) (lb.PickResult, error) {
	p.lock <- struct{}{}
	runtime.Gosched()
	<-p.lock
	return lb.PickResult{}, nil
}

func TestLockWaitsFindsLocks(t *testing.T) {
	n, err := lockWaits(lockingPicker{make(chan struct{}, 1)}, make([]lb.PickInfo, 100), 20*time.Millisecond)
	if err != nil || n == 0 {
		t.Errorf("a picker that locks waited %d times, %v", n, err)
	}
	// The lock of the port of the seed is a mutex.
	seed := newSeedPicker(world{slices: 10, endpoints: 3, replicas: 1})
	seed.mu.Lock()
	release := time.AfterFunc(20*time.Millisecond, seed.mu.Unlock)
	defer release.Stop()
	n, err = lockWaits(seed, inHeader([]string{"k"}), 40*time.Millisecond)
	if err != nil || n == 0 {
		t.Errorf("a picker with a mutex waited %d times, %v", n, err)
	}
}
