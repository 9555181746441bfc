package sdktest

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// stream is one WatchShardingAssignment call. ShardingService.mu guards all but
// number and target, which do not change.
type stream struct {
	number int // from 1, over the life of the service
	target string

	sent         int64    // newest generation the client was sent or said it has
	answered     bool     // an assignment was sent
	queue        [][]byte // what Send put in
	end          *status.Status
	frozen       bool
	hung         bool      // opened while Hang was on
	corruptEpoch int       // of the nonsense it has had
	loadEpoch    int       // of the load reporting it has had
	loadSent     bool      // Send put load reporting in
	due          time.Time // when a delayed answer may go; zero: none is waiting
}

// step is what a stream does next: send, end, or wait until something changes
// or the time comes.
type step struct {
	frames  [][]byte
	end     *status.Status
	changed <-chan struct{}
	until   time.Time
}

// watchHandler keeps the method of the protocol out of ShardingService's own.
type watchHandler struct {
	s *ShardingService
}

// WatchShardingAssignment sends until the stream ends; what the client sends is
// read by a goroutine of its own, which ends with the stream's context.
func (h watchHandler) WatchShardingAssignment(call wire.Stream) error {
	s := h.s
	first, err := call.Recv()
	if err != nil {
		return err
	}
	config := first.GetInitialClientConfig()
	if config == nil {
		s.violation("the first message is no initial_client_config")
		return status.Error(codes.InvalidArgument, "sdktest: want initial_client_config in the first message")
	}
	st, ok := s.open(config)
	if !ok {
		return status.Error(codes.Unavailable, ErrClosed.Error())
	}
	defer s.leave(st)
	go func() {
		defer s.receivers.Done()
		s.receive(st, call)
	}()
	for {
		next := s.next(st)
		if next.end != nil {
			return next.end.Err()
		}
		for _, frame := range next.frames {
			if err := call.SendMsg(frame); err != nil {
				return err
			}
		}
		if next.frames != nil {
			continue
		}
		if err := wait(call, next); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to do for the stream.
func wait(call wire.Stream, next step) error {
	var expired <-chan time.Time
	if !next.until.IsZero() {
		timer := time.NewTimer(time.Until(next.until))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-next.changed:
	case <-expired:
	case <-call.Context().Done():
		return status.FromContextError(call.Context().Err()).Err()
	}
	return nil
}

// next decides, and takes note of what is about to be sent.
func (s *ShardingService) next(st *stream) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.faults
	t := s.target(st.target)
	idle := step{changed: s.changed.next()}
	switch {
	case st.end != nil:
		return step{end: st.end}
	case st.frozen:
		return idle
	case len(st.queue) > 0:
		frames := st.queue
		st.queue = nil
		return step{frames: frames}
	case f.hang && st.hung:
		return idle
	}

	// Past this point something may have to be sent, and may be late.
	unknown := f.refuseUnknown && !t.assigned
	nonsense := f.corrupt != 0
	owed := st.corruptEpoch != f.corruptEpoch
	if !nonsense {
		owed = t.current > st.sent || f.hangUp && t.assigned
	}
	reporting := st.loadEpoch != s.loadEpoch
	if f.refuse == nil && !unknown && !owed && !reporting {
		st.due = time.Time{}
		return idle
	}
	if f.delay > 0 && st.due.IsZero() {
		st.due = time.Now().Add(f.delay)
	}
	if f.delay > 0 && time.Now().Before(st.due) {
		idle.until = st.due
		return idle
	}
	st.due = time.Time{}
	switch {
	case f.refuse != nil:
		return step{end: f.refuse}
	case reporting:
		st.loadEpoch = s.loadEpoch
		return step{frames: [][]byte{s.load.encode()}}
	case nonsense:
		st.corruptEpoch = f.corruptEpoch
		t.generation++
		return step{frames: f.corrupt.frames(t.generation, t.current, t.assignment)}
	case unknown:
		return step{end: unknownTarget(st.target)}
	case f.hangUp && st.answered:
		return step{end: status.New(codes.OK, "")}
	case t.current <= st.sent: // hang up, and the client has it already
		s.put(st.target, t.assignment)
	}
	st.sent, st.answered = t.current, true
	return step{frames: s.frames(t)}
}

// open takes in a stream whose first message has come.
func (s *ShardingService) open(config *wire.InitialClientConfig) (*stream, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.opened++
	st := &stream{
		number: s.opened,
		target: config.GetTarget(),
		sent:   config.GetLatestGeneration(),
		hung:   s.faults.hang,
	}
	s.streams[st] = struct{}{}
	s.observed.firsts = append(s.observed.firsts, FirstMessage{
		Stream:           st.number,
		Target:           st.target,
		ClientUUID:       config.GetClientUuid(),
		LatestGeneration: config.GetLatestGeneration(),
		Time:             time.Now(),
	})
	s.receivers.Add(1)
	s.changed.raise()
	return st, true
}

func (s *ShardingService) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	s.changed.raise()
}
