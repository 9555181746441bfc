package sdk_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// outageOwners are the keys of the traffic in this file and who owns them.
var outageOwners = map[string]string{"alice": "a", "m": "b", "zoe": "b"}

// inOutage is a client with generation 1 and traffic on it.
func inOutage(t *testing.T, opts []sdk.Option, change ...func(*sdk.Sharding)) (*fixture, *steady) {
	t.Helper()
	f := startQuick(t, testSharding(change...), []string{"a", "b"}, opts...)
	f.assigned(t, sdktest.From("", "a"), sdktest.From("m", "b"))
	for key := range outageOwners {
		_ = f.who(t, key)
	}
	return f, keepCalling(f, outageOwners)
}

// healed ends what is wrong with the service and waits until the client has a
// generation that came after it.
func (f *fixture) healed(t *testing.T) {
	t.Helper()
	f.Sharding().Heal()
	f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b"))))
}

func TestNothingTheServiceSaysFailsRPCs_AP11_A15(t *testing.T) {
	for _, kind := range sdktest.Corruptions() {
		t.Run(kind.String(), func(t *testing.T) {
			inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
				f, tr := inOutage(t, nil, inRevision)
				before := f.client.Status().Assignment
				f.Sharding().Corrupt(kind)
				eventually(t, "a reaction", func() bool {
					s := f.client.Status().Assignment
					return s.Invalid+s.Stale+s.StreamsOpened+s.Accepted > before.Invalid+before.Stale+before.StreamsOpened+before.Accepted
				})
				tr.more(t, 50)
				if s := f.client.Status().Assignment; s.LastError == "" {
					t.Error("the status says nothing of the nonsense")
				}
				f.healed(t)
				tr.end(t)
				for _, e := range f.client.Status().Endpoints {
					if e.Name == sdktest.CorruptEndpoint {
						t.Error("the client believed it")
					}
				}
			})
		})
	}
}

func TestNothingTheServiceDoesFailsRPCs_AP11_A15(t *testing.T) {
	disturbances := map[string]func(t *testing.T, f *fixture, tr *steady){
		"refuse": func(t *testing.T, f *fixture, tr *steady) {
			f.Sharding().Refuse(codes.NotFound, "never heard of it")
			if err := f.Sharding().WaitStreams(within(t, 5*time.Second), 4); err != nil {
				t.Error(err)
			}
		},
		"hang": func(t *testing.T, f *fixture, tr *steady) {
			f.Sharding().Hang()
			f.Sharding().Cut()
			if err := f.Sharding().WaitStreams(within(t, 5*time.Second), 2); err != nil {
				t.Error(err)
			}
			tr.more(t, 100)
			f.Sharding().Heal()
			f.Sharding().Cut()
		},
		"freeze": func(t *testing.T, f *fixture, tr *steady) {
			f.Sharding().Freeze()
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
			tr.more(t, 100)
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
			f.Sharding().Cut()
		},
		"hang up after each answer": func(t *testing.T, f *fixture, tr *steady) {
			f.Sharding().HangUpAfterAnswer(true)
			f.Sharding().Cut()
			if err := f.Sharding().WaitStreams(within(t, 5*time.Second), 6); err != nil {
				t.Error(err)
			}
		},
		"black hole": func(t *testing.T, f *fixture, tr *steady) {
			if err := f.Sharding().BlackHole(); err != nil {
				t.Error(err)
			}
			tr.more(t, 100)
			if err := f.Sharding().Restart(); err != nil {
				t.Error(err)
			}
		},
		"flood of generations": func(t *testing.T, f *fixture, tr *steady) {
			for range 500 {
				f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
			}
			flood := []sdktest.Response{}
			for g := range 2000 {
				flood = append(flood, sdktest.Chunk{Endpoints: []string{"b", "a"}, Slices: []sdktest.ChunkSlice{
					{End: "m", Owners: []int32{1}}, {Start: "m", Owners: []int32{0}},
				}}, sdktest.Metadata(10_000+g))
			}
			f.Sharding().Send(testTarget, flood...)
			f.reaches(t, 11_999)
			f.Sharding().Assign(testTarget, sdktest.Assignment{Generation: 20_000, Slices: []sdktest.Slice{sdktest.From("", "a"), sdktest.From("m", "b")}})
		},
		"only invalid slices": func(t *testing.T, f *fixture, tr *steady) {
			f.Sharding().Send(testTarget, sdktest.Chunk{Endpoints: []string{"b"}, Slices: []sdktest.ChunkSlice{
				{Start: "x", End: "a", Owners: []int32{0}}, {Start: "m", EmptyEnd: true, Owners: []int32{0}}, {Owners: []int32{5}},
			}}, sdktest.Metadata(2))
			f.acksOf(t, 2)
		},
	}
	for name, disturb := range disturbances {
		t.Run(name, func(t *testing.T) {
			inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
				f, tr := inOutage(t, nil, inRevision)
				disturb(t, f, tr)
				tr.more(t, 50)
				f.healed(t)
				tr.end(t)
			})
		})
	}
}

// The service is dead for a while: nobody notices but the staleness, which grows
// and falls.
func TestStalenessGrowsAndFalls_AP11_A15(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f, tr := inOutage(t, nil, inRevision)
		if s := f.client.Status().Assignment; !s.StreamConnected || s.StaleFor != 0 {
			t.Errorf("before: connected %v, stale for %v", s.StreamConnected, s.StaleFor)
		}
		f.Sharding().Stop()
		last := time.Duration(0)
		for _, least := range []time.Duration{50, 500, 1200} {
			eventually(t, "staleness", func() bool {
				return f.client.Status().Assignment.StaleFor >= least*time.Millisecond
			})
			s := f.client.Status().Assignment
			if s.StaleFor < last || s.StreamConnected || s.Generation != 1 || s.Phase.String() != "assigned" {
				t.Errorf("in the outage: %+v", s)
			}
			last = s.StaleFor
		}
		if err := f.Sharding().Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of staleness", func() bool {
			s := f.client.Status().Assignment
			return s.StreamConnected && s.StaleFor == 0
		})
		f.healed(t)
		tr.end(t)
	})
}

// Messages that are none of ours may come between chunks.
func TestOtherMessagesAreIgnored_AP11_A34(t *testing.T) {
	unknownField := sdktest.Raw{0xfa, 0x01, 0x03, 'a', 'b', 'c'} // field 31, 3 bytes
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a", "b"})
		f.assigned(t, sdktest.From("", "a"))
		other := []sdktest.Response{sdktest.Raw{}, unknownField, sdktest.LoadReporting{QuantumFraction: 2, ResolutionBytes: -1, Interval: -time.Hour}}
		messages := append([]sdktest.Response{}, other...)
		messages = append(messages, sdktest.Chunk{Endpoints: []string{"a"}, Slices: []sdktest.ChunkSlice{{Start: "m", Owners: []int32{1}}}})
		messages = append(messages, other...)
		messages = append(messages, sdktest.Chunk{Endpoints: []string{"b"}, Slices: []sdktest.ChunkSlice{{End: "m", Owners: []int32{0}}}})
		messages = append(messages, other...)
		messages = append(messages, sdktest.Metadata(2))
		f.Sharding().Send(testTarget, messages...)
		eventually(t, "generation 2", func() bool { return f.who(t, "z") == "b" })
		if got := f.who(t, "a"); got != "a" {
			t.Errorf("a reached %q", got)
		}
		if got := verdicts(f.acksOf(t, 2)); got != "1 accepted, 2 accepted" {
			t.Errorf("acks are %q", got)
		}
		if n := f.Sharding().Streams().Opened; n != 1 {
			t.Errorf("%d streams, want 1", n)
		}
		if v, loads := f.Sharding().Violations(), f.Sharding().LoadReports(); len(v) > 0 || len(loads) > 0 {
			t.Errorf("violations %q, load reports %v", v, loads)
		}
	})
}

// What is buffered for one assignment, and one message, are bounded by settings
// whose names the status gives.
func TestHostileSizesAreBounded_AP11_A16(t *testing.T) {
	bound := []sdk.Option{quickStream(func(st *sdk.ShardingStream) {
		st.MaxAssignmentBytes, st.MaxMessageBytes = 64<<10, 32<<10
	})}
	chunk := sdktest.Chunk{Endpoints: []string{"a"}}
	for i := range 500 {
		chunk.Slices = append(chunk.Slices, sdktest.ChunkSlice{Start: fmt.Sprintf("%05d", i), End: fmt.Sprintf("%05d", i+1), Owners: []int32{0}})
	}
	sizes := map[string][]sdktest.Response{
		"MaxAssignmentBytes": {chunk, chunk, chunk, chunk, chunk, chunk, chunk, chunk},
		"MaxMessageBytes":    {sdktest.Raw(make([]byte, 40<<10))},
	}
	for setting, responses := range sizes {
		t.Run(setting, func(t *testing.T) {
			inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
				f, tr := inOutage(t, bound, inRevision)
				f.Sharding().Send(testTarget, responses...)
				eventually(t, "the end of the stream", func() bool {
					return strings.Contains(f.client.Status().Assignment.LastError, setting)
				})
				if err := f.Sharding().WaitStreams(within(t, 5*time.Second), 2); err != nil {
					t.Error(err)
				}
				f.healed(t)
				tr.end(t)
			})
		})
	}
}

// Old assignments are let go. It runs alone, for it looks at the whole heap.
func TestFlatMemoryOverGenerations_LL05(t *testing.T) {
	const generations, slices = 300, 2000
	f := startQuick(t, testSharding(), []string{"a", "b"})
	assign := func() {
		ranges := make([]sdktest.Slice, 0, slices)
		for i := range slices {
			start := fmt.Sprintf("user-%06d", i)
			if i == 0 {
				start = ""
			}
			ranges = append(ranges, sdktest.From(start, [...]string{"a", "b"}[i%2]))
		}
		f.Sharding().Assign(testTarget, sdktest.Ranges(ranges...))
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	assign()
	_ = f.who(t, "user-000001")
	before := heap()
	for g := 2; g <= generations; g++ {
		assign()
		f.reaches(t, int64(g))
	}
	if got := f.who(t, "user-000001"); got != "b" {
		t.Errorf("reached %q", got)
	}
	if s := f.client.Status().Assignment; s.Accepted != generations || s.Slices != slices {
		t.Errorf("%d accepted, %d slices", s.Accepted, s.Slices)
	}
	// An assignment of 2,000 slices takes about 70 kB; kept, 300 would be 20 MB.
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes over %d generations", before, after, generations)
	}
}
