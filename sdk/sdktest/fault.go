package sdktest

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Delay makes every answer of the service, an assignment or a refusal, come d
// late. 0 ends it.
func (s *ShardingService) Delay(d time.Duration) {
	s.setFaults(func(f *faults) { f.delay = d })
}

// Refuse ends every stream, those there are and each new one, with the status.
// [codes.OK] ends it.
func (s *ShardingService) Refuse(code codes.Code, message string) {
	s.setFaults(func(f *faults) {
		f.refuse = nil
		if code != codes.OK {
			f.refuse = status.New(code, message)
		}
	})
}

// RefuseUnknown answers NOT_FOUND to a target without an assignment, as the
// protocol has it. By default such a stream waits for Assign.
func (s *ShardingService) RefuseUnknown(on bool) {
	s.setFaults(func(f *faults) { f.refuseUnknown = on })
}

// HangUpAfterAnswer ends each stream with OK once it has had an assignment. A
// client that has the present one gets it again under a new generation, so that
// each stream is a success.
func (s *ShardingService) HangUpAfterAnswer(on bool) {
	s.setFaults(func(f *faults) { f.hangUp = on })
}

// Hang accepts each new stream and never answers it. The streams there are go
// on.
func (s *ShardingService) Hang() {
	s.setFaults(func(f *faults) { f.hang = true })
}

// Freeze makes the streams there are silent for good while they stay open. New
// streams are answered. What a frozen stream sends is still observed.
func (s *ShardingService) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		st.frozen = true
	}
	s.changed.raise()
}

// Corrupt sends nonsense of the kind, once, on each stream there is, and on each
// new one in place of an answer; assignments are withheld until Heal. Corrupt
// again sends again.
func (s *ShardingService) Corrupt(kind Corruption) {
	s.setFaults(func(f *faults) {
		f.corrupt = kind
		f.corruptEpoch++
	})
}

// Heal ends every fault. Streams that were kept waiting are answered, and after
// nonsense assignments are sent again under a new generation.
func (s *ShardingService) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.corrupt != 0 {
		for name, t := range s.targets {
			if t.assigned && t.generation > t.current {
				s.put(name, t.assignment)
			}
		}
	}
	s.faults = faults{corruptEpoch: s.faults.corruptEpoch}
	for st := range s.streams {
		st.frozen = false
	}
	s.changed.raise()
}

// Cut ends the streams there are with UNAVAILABLE. The connections stay, and new
// streams are welcome.
func (s *ShardingService) Cut() {
	s.End(codes.Unavailable, "sdktest: stream cut")
}

// End ends the streams there are with the status; [codes.OK] is a clean end.
func (s *ShardingService) End(code codes.Code, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		st.end = status.New(code, message)
	}
	s.changed.raise()
}

// Send puts responses, right or wrong, on every stream that watches the target
// now, and says how many those are. Faults do not hold them back, except Freeze.
// The assignment in force is not changed.
func (s *ShardingService) Send(targetName string, responses ...Response) int {
	frames := make([][]byte, 0, len(responses))
	loadReporting := false
	for _, r := range responses {
		frames = append(frames, r.encode())
		_, is := r.(LoadReporting)
		loadReporting = loadReporting || is
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for st := range s.streams {
		if st.target == targetName {
			st.queue = append(st.queue, frames...)
			st.loadSent = st.loadSent || loadReporting
			n++
		}
	}
	s.changed.raise()
	return n
}

func (s *ShardingService) setFaults(set func(*faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.faults)
	s.changed.raise()
}
