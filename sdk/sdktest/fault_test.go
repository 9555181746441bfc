package sdktest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

func TestFaultsThatEndStreams(t *testing.T) {
	s := startSharding(t)
	cc := dial(t, s.Addr())

	s.RefuseUnknown(true)
	wantEnd(t, watch(t, cc, "t", 0), codes.NotFound)
	s.Heal()

	s.AssignEven("t", "a")
	w := watch(t, cc, "t", 0)
	wantLogical(t, w, 1, "[,inf)=a")
	s.Cut()
	wantEnd(t, w, codes.Unavailable)
	w = watch(t, cc, "t", 0)
	wantLogical(t, w, 1, "[,inf)=a")
	s.End(codes.OK, "")
	wantEnd(t, w, codes.OK)

	w = watch(t, cc, "t", 0)
	wantLogical(t, w, 1, "[,inf)=a")
	s.Delay(50 * time.Millisecond) // AP-07: a refusal that takes its time
	start := time.Now()
	s.Refuse(codes.PermissionDenied, "go away")
	wantEnd(t, w, codes.PermissionDenied)
	if d := time.Since(start); d < 50*time.Millisecond {
		t.Errorf("refused after %v, want a delay", d)
	}
	s.Refuse(codes.OK, "")
	s.Delay(0)
	wantLogical(t, watch(t, cc, "t", 0), 1, "[,inf)=a")

	s.HangUpAfterAnswer(true) // each stream is a success and then ends
	before := s.Generation("t")
	for range 3 {
		w = watch(t, cc, "t", s.Generation("t"))
		if _, err := recv(w); err != nil {
			t.Fatal(err)
		}
		wantEnd(t, w, codes.OK)
	}
	if g := s.Generation("t"); g < before+3 {
		t.Errorf("three answers moved the generation from %d to %d", before, g)
	}
}

// AP-08, AP-11: the service is gone and comes back on the same port.
func TestShardingStopRestart(t *testing.T) {
	s := startSharding(t)
	addr := s.Addr()
	cc := dial(t, addr)
	s.AssignEven("t", "a")
	w := watch(t, cc, "t", 0)
	wantLogical(t, w, 1, "[,inf)=a")
	s.Stop()
	s.Stop()
	wantEnd(t, w, codes.Unavailable)
	if c := s.Streams(); c.Live != 0 || c.Opened != 1 {
		t.Errorf("stopped with %+v", c)
	}
	if _, err := s.Move("t", "k", "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.Addr() != addr {
		t.Errorf("moved from %s to %s", addr, s.Addr())
	}
	wantLogical(t, watch(t, cc, "t", 1), 2, "[,inf)=b")
	if err := s.BlackHole(); err != nil {
		t.Fatal(err)
	}
	held := s.Connections().Accepted
	calling, cancel := context.WithCancel(t.Context())
	called := make(chan error)
	go func() {
		for { // again while the client has not noticed the cut
			w, err := wire.Open(calling, cc, 1<<20)
			if err == nil {
				_, err = w.Recv()
			}
			if calling.Err() != nil {
				called <- err
				return
			}
		}
	}()
	if err := s.host.conns.wait(patience(t), "a dial into the hole", func(c Connections) bool { return c.Accepted > held }); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-called; status.Code(err) != codes.Canceled {
		t.Errorf("called into the hole: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	wantLogical(t, watch(t, cc, "t", 1), 2, "[,inf)=b")
	s.Close()
	s.Close()
	if err := s.Restart(); err == nil {
		t.Error("restarted after Close")
	}
}

// AP-09: the stream that is there goes silent, a new one is served.
func TestFreezeAndHang(t *testing.T) {
	s := startSharding(t)
	cc := dial(t, s.Addr())
	s.AssignEven("t", "a")
	old := watch(t, cc, "t", 0)
	wantLogical(t, old, 1, "[,inf)=a")
	s.Freeze()
	s.AssignEven("t", "b")
	wantLogical(t, watch(t, cc, "t", 1), 2, "[,inf)=b")
	sendAck(t, old, 1, true, "")
	if _, err := s.WaitAck(patience(t), "t", 1); err != nil {
		t.Fatal(err)
	}

	s.Hang()
	hung := watch(t, cc, "t", 0)
	if err := s.WaitStreams(patience(t), 3); err != nil {
		t.Fatal(err)
	}
	s.AssignEven("t", "c")
	if n := s.Send("t", Metadata(77)); n != 3 {
		t.Errorf("sent to %d streams, want 3", n)
	}
	wantLogical(t, hung, 77) // Send passes a Hang; the assignment does not
	s.Heal()
	wantLogical(t, hung, 3, "[,inf)=c")
	wantLogical(t, old, 77)
	wantLogical(t, old, 3, "[,inf)=c")
}

func TestCorruptions(t *testing.T) {
	s := startSharding(t)
	cc := dial(t, s.Addr())
	s.Assign("t", Ranges(From("", "a"), From("m", "b")))
	for _, kind := range Corruptions() {
		t.Run(kind.String(), func(t *testing.T) {
			before := s.Generation("t")
			w := watch(t, cc, "t", 0)
			if _, err := recv(w); err != nil {
				t.Fatal(err)
			}
			s.Corrupt(kind)
			got, err := recv(w)
			switch {
			case kind == CorruptBytes:
				if err == nil {
					t.Fatal("decoded")
				}
			case err != nil:
				t.Fatal(err)
			case kind == CorruptStale:
				if got.generation > before {
					t.Errorf("generation %d is newer than %d", got.generation, before)
				}
			case kind == CorruptGeneration:
				if got.generation > 0 {
					t.Errorf("generation is %d", got.generation)
				}
				_, _ = recv(w)
			case got.generation <= before:
				t.Errorf("generation %d, want above %d", got.generation, before)
			}
			s.Heal()
			again, err := recv(w)
			if err != nil || again.generation <= before || len(again.slices) != 2 {
				t.Errorf("after Heal: %+v, %v", again, err)
			}
		})
	}
	if s := Corruption(200).String(); s != "Corruption(200)" {
		t.Error(s)
	}
}

// AP-06: an end key can be absent, and it can be empty.
func TestSendIsLiteral(t *testing.T) {
	s := startSharding(t)
	w := watch(t, dial(t, s.Addr()), "t", 0)
	if err := s.WaitStreams(patience(t), 1); err != nil {
		t.Fatal(err)
	}
	s.Send("t", Raw(nil), LoadReporting{ResolutionBytes: 3}, Chunk{
		Endpoints: []string{"e"},
		Slices:    []ChunkSlice{{Start: "m", EmptyEnd: true}, {Start: "t", Owners: []int32{5}}},
	})
	var got []*wire.WatchShardingAssignmentResponse
	for range 3 {
		f, err := w.Recv()
		if err != nil {
			t.Fatal(err)
		}
		m := new(wire.WatchShardingAssignmentResponse)
		if err := proto.Unmarshal(f.Bytes, m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if got[0].GetResponse() != nil || got[1].GetConfig().GetMaxLoadBalancingResolutionBytes() != 3 {
		t.Errorf("got %v", got[:2])
	}
	parts := got[2].GetChunk().GetSliceAssignments()
	if end := parts[0].GetSlice().EndKey; end == nil || len(end) != 0 {
		t.Errorf("empty end key became %v", end)
	}
	if parts[1].GetSlice().EndKey != nil || parts[1].GetEndpoints()[0].GetEndpointIndex() != 5 {
		t.Errorf("got %v", parts[1])
	}
}
