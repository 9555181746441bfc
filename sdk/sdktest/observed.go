package sdktest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slicewire/slicewire/internal/wire"
)

// FirstMessage is what a client says when it opens a stream.
type FirstMessage struct {
	Stream           int // number of the stream, from 1
	Target           string
	ClientUUID       string
	LatestGeneration int64
	Time             time.Time
}

// Ack is a client's verdict on an assignment.
type Ack struct {
	Stream     int
	Target     string
	Generation int64
	Accepted   bool
	Message    string
	Time       time.Time
}

// LoadReport is a client's report of load.
type LoadReport struct {
	Stream     int
	Target     string
	Metrics    map[string][]RangeLoad // by metric name, in the order sent
	Start, End time.Time
}

// RangeLoad is the load of the keys from Start to the Start of the next one.
type RangeLoad struct {
	Start string
	Load  float64
}

// StreamCount counts streams whose first message has come.
type StreamCount struct {
	Opened int // since the start
	Live   int // open now
}

// observed is what clients have said. Guarded by ShardingService.mu.
type observed struct {
	firsts     []FirstMessage
	acks       []Ack
	loads      []LoadReport
	violations []string
}

// Streams counts the streams.
func (s *ShardingService) Streams() StreamCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StreamCount{Opened: s.opened, Live: len(s.streams)}
}

// FirstMessages returns the first message of every stream, in order.
func (s *ShardingService) FirstMessages() []FirstMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.observed.firsts)
}

// Acks returns every ack, in the order of arrival.
func (s *ShardingService) Acks() []Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.observed.acks)
}

// LoadReports returns every load report, in the order of arrival.
func (s *ShardingService) LoadReports() []LoadReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.observed.loads)
}

// Violations says how clients broke the protocol. It should stay empty.
func (s *ShardingService) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.observed.violations)
}

// WaitAck waits for an ack of the target's generation and returns the first
// there was, accepted or not.
func (s *ShardingService) WaitAck(ctx context.Context, targetName string, generation int64) (Ack, error) {
	var ack Ack
	err := s.changed.await(ctx, &s.mu, func() bool {
		i := slices.IndexFunc(s.observed.acks, func(a Ack) bool {
			return a.Target == targetName && a.Generation == generation
		})
		if i >= 0 {
			ack = s.observed.acks[i]
		}
		return i >= 0
	}, fmt.Sprintf("an ack of generation %d of target %q", generation, targetName), func() string {
		return fmt.Sprintf("%d acks on %d streams (%d live)", len(s.observed.acks), s.opened, len(s.streams))
	})
	return ack, err
}

// WaitStreams waits until n streams have been opened in all.
func (s *ShardingService) WaitStreams(ctx context.Context, n int) error {
	return s.changed.await(ctx, &s.mu, func() bool { return s.opened >= n },
		fmt.Sprintf("%d streams", n), s.haveStreams)
}

// WaitLive waits until exactly n streams are open.
func (s *ShardingService) WaitLive(ctx context.Context, n int) error {
	return s.changed.await(ctx, &s.mu, func() bool { return len(s.streams) == n },
		fmt.Sprintf("%d live streams", n), s.haveStreams)
}

// WaitLoadReports waits until n load reports have come in all.
func (s *ShardingService) WaitLoadReports(ctx context.Context, n int) error {
	return s.changed.await(ctx, &s.mu, func() bool { return len(s.observed.loads) >= n },
		fmt.Sprintf("%d load reports", n), func() string { return fmt.Sprint(len(s.observed.loads)) })
}

// haveStreams words what the waits have seen. s.mu is held.
func (s *ShardingService) haveStreams() string {
	return fmt.Sprintf("%d opened, %d live", s.opened, len(s.streams))
}

// receive records what comes after the first message until the stream ends.
func (s *ShardingService) receive(st *stream, call wire.Stream) {
	for {
		m, err := call.Recv()
		if err != nil {
			return
		}
		switch {
		case m.GetAssignmentAck() != nil:
			s.recordAck(st, m.GetAssignmentAck())
		case m.GetLoadReport() != nil:
			s.recordLoad(st, m.GetLoadReport())
		case m.GetInitialClientConfig() != nil:
			s.violation(fmt.Sprintf("stream %d sent initial_client_config again", st.number))
		default:
			s.violation(fmt.Sprintf("stream %d sent a message with no field set", st.number))
		}
	}
}

func (s *ShardingService) recordAck(st *stream, ack *wire.AssignmentAck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed.acks = append(s.observed.acks, Ack{
		Stream:     st.number,
		Target:     st.target,
		Generation: ack.GetGeneration(),
		Accepted:   ack.GetAccepted(),
		Message:    ack.GetErrorMessage(),
		Time:       time.Now(),
	})
	s.changed.raise()
}

func (s *ShardingService) recordLoad(st *stream, report *wire.LoadReport) {
	r := LoadReport{
		Stream:  st.number,
		Target:  st.target,
		Metrics: make(map[string][]RangeLoad, len(report.GetMetricLoads())),
		Start:   report.GetStartTime().AsTime(),
		End:     report.GetEndTime().AsTime(),
	}
	for name, load := range report.GetMetricLoads() {
		var ranges []RangeLoad
		for _, l := range load.GetRangeLoads() {
			ranges = append(ranges, RangeLoad{Start: string(l.GetStartKey()), Load: l.GetLoad()})
		}
		r.Metrics[name] = ranges
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.loadEpoch == 0 && !st.loadSent {
		s.observed.violations = append(s.observed.violations,
			fmt.Sprintf("stream %d sent a load report before a load reporting config", st.number))
	}
	s.observed.loads = append(s.observed.loads, r)
	s.changed.raise()
}

func (s *ShardingService) violation(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed.violations = append(s.observed.violations, what)
	s.changed.raise()
}
