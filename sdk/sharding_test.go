package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// acksOf waits for n acks and returns them as "generation verdict".
func (f *fixture) acksOf(t testing.TB, n int) []sdktest.Ack {
	t.Helper()
	eventually(t, fmt.Sprintf("%d acks", n), func() bool { return len(f.Sharding().Acks()) >= n })
	return f.Sharding().Acks()
}

func verdicts(acks []sdktest.Ack) string {
	var all []string
	for _, a := range acks {
		text := fmt.Sprintf("%d refused", a.Generation)
		if a.Accepted {
			text = fmt.Sprintf("%d accepted", a.Generation)
		}
		if a.Message != "" {
			text += " with text"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// everything is a chunk in which one endpoint owns every key.
func everything(endpoint string) sdktest.Chunk {
	return sdktest.Chunk{Endpoints: []string{endpoint}, Slices: []sdktest.ChunkSlice{{Owners: []int32{0}}}}
}

func TestStaleGenerationLeavesNoResidue_AP01_A18(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a", "x", "y"})
		f.Sharding().Assign(testTarget, sdktest.Assignment{Generation: 7, Slices: []sdktest.Slice{sdktest.From("", "a")}})
		if got := f.who(t, "k"); got != "a" {
			t.Fatalf("generation 7 routes to %q", got)
		}
		f.Sharding().Send(testTarget, everything("x"), sdktest.Metadata(7), everything("x"), sdktest.Metadata(5))
		f.acksOf(t, 3)
		for range 20 {
			if got := f.who(t, "k"); got != "a" {
				t.Fatalf("a stale generation routes to %q", got)
			}
		}
		f.Sharding().Send(testTarget, everything("y"), sdktest.Metadata(8))
		eventually(t, "generation 8", func() bool { return f.who(t, "k") == "y" })
		want := "7 accepted, 7 refused with text, 5 refused with text, 8 accepted"
		if got := verdicts(f.acksOf(t, 4)); got != want {
			t.Errorf("acks are %q, want %q", got, want)
		}
		if n := f.Sharding().Streams().Opened; n != 1 {
			t.Errorf("%d streams, want 1: a stale generation ends none", n)
		}
		if n := f.Backend("x").Connections().Accepted; n != 0 {
			t.Errorf("the endpoint of stale generations was dialled %d times", n)
		}
		if s := f.client.Status().Assignment; s.Stale != 2 || s.Invalid != 0 || s.Generation != 8 {
			t.Errorf("status has %d stale, %d invalid, generation %d", s.Stale, s.Invalid, s.Generation)
		}
	})
}

func TestIndicesRunOverAllChunks_AP03_A16(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"e0", "e1"})
		f.openStream(t)
		f.Sharding().Send(testTarget,
			sdktest.Chunk{Endpoints: []string{"e0"}, Slices: []sdktest.ChunkSlice{{Start: "m", Owners: []int32{1}}}},
			sdktest.Chunk{Endpoints: []string{"e1"}, Slices: []sdktest.ChunkSlice{{End: "m", Owners: []int32{0}}}},
			sdktest.Metadata(1))
		if a, z := f.who(t, "a"), f.who(t, "z"); a != "e0" || z != "e1" {
			t.Errorf("a reached %q and z %q", a, z)
		}
		if got := verdicts(f.acksOf(t, 1)); got != "1 accepted" {
			t.Errorf("acks are %q", got)
		}
	})
}

// One slice a chunk; and chunks of a stream that dies before its metadata are
// not completed by the next stream.
func TestChunksOfADeadStreamAreForgotten_A16(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a", "b", "x"})
		f.openStream(t)
		f.Sharding().Send(testTarget, everything("x"))
		f.Sharding().Cut()
		f.Sharding().SetChunkSize(1)
		f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("f", "b"), sdktest.From("p", "a"))))
		if a, g, z := f.who(t, "a"), f.who(t, "g"), f.who(t, "z"); a != "a" || g != "b" || z != "a" {
			t.Errorf("reached %q, %q, %q", a, g, z)
		}
		if s := f.client.Status().Assignment; s.Invalid != 0 || s.Slices != 3 {
			t.Errorf("status has %d invalid, %d slices", s.Invalid, s.Slices)
		}
	})
}

func TestLastAcceptedGenerationIsAnnounced_AP04_A19_A33(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a"})
		f.assigned(t, sdktest.From("", "a"))
		f.Sharding().Send(testTarget, sdktest.Metadata(2))
		f.acksOf(t, 2)
		f.Sharding().Cut() // 2026-08 has ended the stream already, 2026-10 keeps it
		if err := f.Sharding().WaitStreams(within(t, 5*time.Second), 2); err != nil {
			t.Fatal(err)
		}
		first := f.Sharding().FirstMessages()
		if first[0].LatestGeneration != 0 || first[1].LatestGeneration != 1 {
			t.Errorf("streams announced %d and %d, want 0 and 1", first[0].LatestGeneration, first[1].LatestGeneration)
		}
		if first[0].ClientUUID == "" || first[0].ClientUUID != first[1].ClientUUID || first[0].ClientUUID != f.client.Status().Assignment.ClientUUID {
			t.Errorf("client UUIDs %q, %q, status %q", first[0].ClientUUID, first[1].ClientUUID, f.client.Status().Assignment.ClientUUID)
		}
		if got := f.who(t, "k"); got != "a" {
			t.Errorf("reached %q", got)
		}
	})
}

func TestAbsentAndEmptyEndKeysDiffer_AP06(t *testing.T) {
	responses := []sdktest.Response{sdktest.Chunk{
		Endpoints: []string{"b"},
		Slices: []sdktest.ChunkSlice{
			{End: "m", Owners: []int32{0}},
			{Start: "m", EmptyEnd: true, Owners: []int32{0}},
			{Start: "t", Owners: []int32{0}},
		},
	}, sdktest.Metadata(2)}
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		sh := testSharding(inRevision)
		f := startQuick(t, sh, []string{"a", "b"})
		f.assigned(t, sdktest.From("", "a"))
		f.Sharding().Send(testTarget, responses...)
		acks := verdicts(f.acksOf(t, 2))
		if sh.Revision.String() == "2026-08" {
			if acks != "1 accepted, 2 refused with text" {
				t.Errorf("acks are %q", acks)
			}
			if z := f.who(t, "z"); z != "a" {
				t.Errorf("the refused assignment routes z to %q", z)
			}
			return
		}
		if acks != "1 accepted, 2 accepted with text" {
			t.Errorf("acks are %q", acks)
		}
		eventually(t, "generation 2", func() bool { return f.who(t, "z") == "b" })
		if a := f.who(t, "a"); a != "b" {
			t.Errorf("a reached %q", a)
		}
		_, err := f.echo.Who(interceptors.WithKeyString(within(t, 5*time.Second), "n"), "")
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no usable slice") {
			t.Errorf("a key in the gap: %v", err)
		}
	})
}

func TestAcksStaySmall_AP13(t *testing.T) {
	const bad = 10_000
	chunk := sdktest.Chunk{Endpoints: []string{"b", strings.Repeat("é世", 300)}}
	for i := range bad {
		s := sdktest.ChunkSlice{Start: fmt.Sprintf("x%05d世", i), End: "a", Owners: []int32{0}}
		switch i % 4 {
		case 1:
			s = sdktest.ChunkSlice{Start: strings.Repeat("k", 600), Owners: []int32{0}}
		case 2:
			s = sdktest.ChunkSlice{Start: "x", End: "y", Owners: []int32{-1, 99}}
		case 3:
			s = sdktest.ChunkSlice{Start: "é", EmptyEnd: true}
		}
		chunk.Slices = append(chunk.Slices, s)
	}
	chunk.Slices = append(chunk.Slices, sdktest.ChunkSlice{End: "m", Owners: []int32{0}})
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		sh := testSharding(inRevision)
		f := startQuick(t, sh, []string{"a", "b"})
		f.assigned(t, sdktest.From("", "a"))
		f.Sharding().Send(testTarget, chunk, sdktest.Metadata(2))
		ack, err := f.Sharding().WaitAck(within(t, 10*time.Second), testTarget, 2)
		if err != nil {
			t.Fatal(err)
		}
		if n := utf8.RuneCountInString(ack.Message); n == 0 || n > 512 || !utf8.ValidString(ack.Message) {
			t.Errorf("the message has %d code points: %q", n, ack.Message)
		}
		if n := len(f.Sharding().Acks()); n != 2 {
			t.Errorf("%d acks, want one for each generation", n)
		}
		want := "a"
		if newer := sh.Revision.String() == "2026-10"; ack.Accepted != newer {
			t.Errorf("accepted is %v", ack.Accepted)
		} else if newer {
			want = "b"
		}
		if got := f.who(t, "k"); got != want {
			t.Errorf("the key reached %q, want %q", got, want)
		}
	})
}

func TestHalfOpenStreamIsReplaced_AP09(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a", "b"}, quickStream(func(st *sdk.ShardingStream) {
		st.RefreshInterval = 500 * time.Millisecond
	}))
	f.Sharding().Assign(testTarget, sdktest.Assignment{Generation: 11, Slices: []sdktest.Slice{sdktest.From("", "a")}})
	f.openStream(t)
	f.reaches(t, 11)
	f.Sharding().Freeze()
	tr := keepCalling(f, map[string]string{"k": ""})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
	ack, err := f.Sharding().WaitAck(within(t, 5*time.Second), testTarget, 12)
	if err != nil {
		t.Fatal(err)
	}
	if ack.Stream != 2 {
		t.Errorf("generation 12 was acked on stream %d, want 2: one replacement", ack.Stream)
	}
	eventually(t, "generation 12", func() bool { return f.who(t, "k") == "b" })
	tr.end(t)
	if first := f.Sharding().FirstMessages()[1]; first.LatestGeneration != 11 {
		t.Errorf("the replacement announced %d, want 11", first.LatestGeneration)
	}
	if err := f.Sharding().WaitLive(within(t, 5*time.Second), 1); err != nil {
		t.Errorf("the old stream is not cancelled: %v", err)
	}
	// Silence goes on: the client asks again, and keeps what it has.
	if err := f.Sharding().WaitStreams(within(t, 5*time.Second), 3); err != nil {
		t.Fatal(err)
	}
	if s := f.client.Status().Assignment; s.Generation != 12 || s.LastError != "" {
		t.Errorf("after a refresh: generation %d, last error %q", s.Generation, s.LastError)
	}
}

// A service that hangs up after each answer does not become a hot loop.
func TestAnswerAndHangUpIsPaced_A20(t *testing.T) {
	t.Parallel()
	const gap = 100 * time.Millisecond // the default is 1 s
	f := startQuick(t, testSharding(), []string{"a"}, quickStream(func(st *sdk.ShardingStream) { st.MinGap = gap }))
	f.Sharding().HangUpAfterAnswer(true)
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
	began := time.Now()
	_ = f.who(t, "k")
	if err := f.Sharding().WaitStreams(within(t, 10*time.Second), 8); err != nil {
		t.Fatal(err)
	}
	first := f.Sharding().FirstMessages()
	for i := range 7 {
		if d := first[i+1].Time.Sub(first[i].Time); d < gap*9/10 {
			t.Errorf("streams %d and %d began %v apart, want at least %v", i+1, i+2, d, gap)
		}
	}
	if took := time.Since(began); took > 7*4*gap {
		t.Errorf("8 good streams took %v: they were backed off from like failures", took)
	}
}

// The sharding service fails at start: the gaps grow.
func TestFailingStreamsAreBackedOffFrom_A20(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a"})
	f.Sharding().Refuse(codes.PermissionDenied, "not for you")
	ctx := within(t, 5*time.Second)
	_, _ = f.client.WaitReady(within(t, time.Millisecond))
	if err := f.Sharding().WaitStreams(ctx, 8); err != nil {
		t.Fatal(err)
	}
	first := f.Sharding().FirstMessages()
	early, late := first[1].Time.Sub(first[0].Time), first[7].Time.Sub(first[6].Time)
	// Without growth it would be 20 ms; a busy machine only makes gaps longer.
	if late < 100*time.Millisecond {
		t.Errorf("gaps went from %v to %v; they should grow to 200 ms", early, late)
	}
	f.Sharding().Heal()
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
	if got := f.who(t, "k"); got != "a" {
		t.Errorf("reached %q", got)
	}
}

// An ack tells the truth: the first RPC after it goes to the new owner.
func TestAckMeansInForce_A18(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a", "b"})
		for i := range 200 {
			owner := []string{"a", "b"}[i%2]
			g := f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", owner)))
			if i == 0 {
				f.openStream(t)
			}
			if _, err := f.Sharding().WaitAck(within(t, 5*time.Second), testTarget, g); err != nil {
				t.Fatal(err)
			}
			if got := f.who(t, "k"); got != owner {
				t.Fatalf("after the ack of generation %d the key reached %q, want %q", g, got, owner)
			}
		}
	})
}

// Settings for load reports change nothing, and no load is reported.
func TestLoadReportingIsIgnored_A32(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a", "b"})
		settings := sdktest.LoadReporting{QuantumFraction: 0.01, ResolutionBytes: 4, Interval: time.Millisecond}
		f.Sharding().SetLoadReporting(settings)
		f.assigned(t, sdktest.From("", "a"), sdktest.From("m", "b"))
		tr := keepCalling(f, outageOwners)
		tr.more(t, 200)
		f.Sharding().SetLoadReporting(settings) // again, in mid-stream
		tr.more(t, 200)
		f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b"))))
		tr.end(t)
		if got := verdicts(f.acksOf(t, 2)); got != "1 accepted, 2 accepted" {
			t.Errorf("acks are %q", got)
		}
		if loads, v, n := f.Sharding().LoadReports(), f.Sharding().Violations(), f.Sharding().Streams().Opened; len(loads) > 0 || len(v) > 0 || n != 1 {
			t.Errorf("load reports %v, violations %q, %d streams; want none, none, 1", loads, v, n)
		}
	})
}
