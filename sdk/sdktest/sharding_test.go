package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

// logical is an assignment as it was received.
type logical struct {
	generation int64
	chunks     int
	slices     []string // "[start,end)=owners"
}

// recv reads one whole logical assignment.
func recv(w *wire.Watch) (logical, error) {
	var l logical
	var endpoints []string
	var parts []*wire.SliceAssignment
	for {
		f, err := w.Recv()
		if err != nil {
			return l, err
		}
		m := new(wire.WatchShardingAssignmentResponse)
		if err := proto.Unmarshal(f.Bytes, m); err != nil {
			return l, err
		}
		if c := m.GetChunk(); c != nil {
			l.chunks++
			for _, e := range c.GetEndpoints() {
				endpoints = append(endpoints, e.GetEndpoint())
			}
			parts = append(parts, c.GetSliceAssignments()...)
		}
		if m.GetMetadata() == nil {
			continue
		}
		l.generation = m.GetMetadata().GetGeneration()
		for _, p := range parts {
			var owners []string
			for _, o := range p.GetEndpoints() {
				if i := int(o.GetEndpointIndex()); i >= 0 && i < len(endpoints) {
					owners = append(owners, endpoints[i])
				}
			}
			end := string(p.GetSlice().GetEndKey())
			if p.GetSlice().GetEndKey() == nil {
				end = "inf"
			}
			l.slices = append(l.slices, fmt.Sprintf("[%s,%s)=%s", p.GetSlice().GetStartKey(), end, strings.Join(owners, "+")))
		}
		return l, nil
	}
}

func wantLogical(t *testing.T, w *wire.Watch, generation int64, slicesWanted ...string) {
	t.Helper()
	got, err := recv(w)
	if err != nil {
		t.Fatalf("waited for generation %d: %v", generation, err)
	}
	if got.generation != generation || !slices.Equal(got.slices, slicesWanted) {
		t.Fatalf("got generation %d %q, want %d %q", got.generation, got.slices, generation, slicesWanted)
	}
}

func wantEnd(t *testing.T, w *wire.Watch, code codes.Code) {
	t.Helper()
	for {
		_, err := w.Recv()
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if status.Code(err) != code {
			t.Fatalf("stream ended with %v, want %s", err, code)
		}
		return
	}
}

func TestShardingPushesEachGeneration(t *testing.T) {
	s := startSharding(t)
	cc := dial(t, s.Addr())
	w := watch(t, cc, "t", 0)
	if err := s.WaitStreams(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	s.Assign("other", Ranges(From("", "x")))
	if g := s.Assign("t", Ranges(From("", "a"), From("m", "b", "c"))); g != 1 {
		t.Fatalf("first generation is %d", g)
	}
	wantLogical(t, w, 1, "[,m)=a", "[m,inf)=b+c")
	if _, err := s.Move("t", "z", "d"); err != nil {
		t.Fatal(err)
	}
	wantLogical(t, w, 2, "[,m)=a", "[m,inf)=d")
	if _, err := s.Split("t", "g"); err != nil {
		t.Fatal(err)
	}
	wantLogical(t, w, 3, "[,g)=a", "[g,m)=a", "[m,inf)=d")
	if _, err := s.MoveRange("t", "g", "m", "e"); err != nil {
		t.Fatal(err)
	}
	wantLogical(t, w, 4, "[,g)=a", "[g,m)=e", "[m,inf)=d")
	if got := s.Owners("t", "hello"); !slices.Equal(got, []string{"e"}) {
		t.Errorf("hello is owned by %v", got)
	}
	if _, err := s.Merge("t", "g"); err != nil {
		t.Fatal(err)
	}
	wantLogical(t, w, 5, "[,m)=a", "[m,inf)=d")
	if g := s.Assign("t", Assignment{Generation: 100, Slices: []Slice{From("", "a")}}); g != 100 {
		t.Errorf("generation 100 became %d", g)
	}
	wantLogical(t, w, 100, "[,inf)=a")
	if _, err := s.Move("nobody", "k", "a"); err == nil {
		t.Error("moved a key of a target without an assignment")
	}
}

// only what is newer than latest_generation is sent.
func TestShardingLatestGeneration(t *testing.T) {
	s := startSharding(t)
	cc := dial(t, s.Addr())
	s.AssignEven("t", "a")
	s.AssignEven("t", "b")
	wantLogical(t, watch(t, cc, "t", 0), 2, "[,inf)=b")
	wantLogical(t, watch(t, cc, "t", 1), 2, "[,inf)=b")
	current := watch(t, cc, "t", 2)
	if err := s.WaitStreams(patience(t), 3); err != nil {
		t.Fatal(err)
	}
	s.AssignEven("t", "c")
	wantLogical(t, current, 3, "[,inf)=c")
	first := s.FirstMessages()
	if len(first) != 3 || first[2].LatestGeneration != 2 || first[2].Target != "t" || first[2].ClientUUID != "u-1" || first[2].Stream != 3 {
		t.Errorf("first messages: %+v", first)
	}
}

func TestShardingChunks(t *testing.T) {
	s := startSharding(t)
	s.SetChunkSize(2)
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprint("h", i))
	}
	s.AssignEven("t", names...)
	got, err := recv(watch(t, dial(t, s.Addr()), "t", 0))
	if err != nil || got.chunks != 3 || len(got.slices) != 5 {
		t.Fatalf("got %d chunks with %d slices, %v; want 3 with 5", got.chunks, len(got.slices), err)
	}
	for i, sl := range got.slices {
		if !strings.HasSuffix(sl, fmt.Sprint("=h", i)) {
			t.Errorf("slice %d is %q", i, sl)
		}
	}
}

func TestShardingAcksAndLoad(t *testing.T) {
	s := startSharding(t)
	s.AssignEven("t", "a")
	s.SetLoadReporting(LoadReporting{QuantumFraction: 0.5, ResolutionBytes: 8, Interval: time.Second})
	w := watch(t, dial(t, s.Addr()), "t", 0)
	wantLogical(t, w, 1, "[,inf)=a")
	sendAck(t, w, 1, false, "no")
	ack, err := s.WaitAck(patience(t), "t", 1)
	if err != nil || ack.Accepted || ack.Message != "no" || ack.Stream != 1 {
		t.Errorf("ack %+v, %v", ack, err)
	}
	report := &wire.LoadReport{MetricLoads: map[string]*wire.Load{"calls": {RangeLoads: []*wire.RangeLoad{{StartKey: []byte("k"), Load: 3}}}}}
	if err := w.Send(&wire.WatchShardingAssignmentRequest{Request: &wire.WatchShardingAssignmentRequest_LoadReport{LoadReport: report}}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitLoadReports(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	if got := s.LoadReports()[0].Metrics["calls"]; len(got) != 1 || got[0] != (RangeLoad{Start: "k", Load: 3}) {
		t.Errorf("load %v", got)
	}
	if v := s.Violations(); len(v) != 0 {
		t.Errorf("violations: %q", v)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.WaitAck(short, "t", 9); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "generation 9") {
		t.Errorf("waiting in vain gives %v", err)
	}
}

func TestShardingSeesViolations(t *testing.T) {
	s := startSharding(t)
	cc := dial(t, s.Addr())
	w := must[*wire.Watch](t)(wire.Open(patience(t), cc, 1<<20))
	sendAck(t, w, 1, true, "")
	wantEnd(t, w, codes.InvalidArgument)
	w = watch(t, cc, "t", 0)
	if err := w.Send(&wire.WatchShardingAssignmentRequest{Request: &wire.WatchShardingAssignmentRequest_LoadReport{LoadReport: &wire.LoadReport{}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitLoadReports(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	if v := s.Violations(); len(v) != 2 {
		t.Errorf("violations: %q, want 2", v)
	}
}
