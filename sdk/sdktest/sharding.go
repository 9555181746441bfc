package sdktest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// defaultChunkSize is slices per chunk; with keys of 512 bytes such a chunk
// stays below gRPC's default limit of 4 MiB.
const defaultChunkSize = 1000

// ShardingService is a sharding service on a loopback port. It holds one
// assignment for each target, pushes every new one to the streams that watch
// the target, and gives a new stream the present one if that is newer than what
// the client says it has. A target without an assignment is waited for.
//
// Its faults are set by methods while it runs, and [ShardingService.Heal] ends
// them. They belong to the service, not to a target, and outlive a restart.
type ShardingService struct {
	host *host
	// receivers are one goroutine per stream, started by its handler and ended
	// with it. The host waits for them after it has waited for the handlers.
	receivers sync.WaitGroup

	mu        sync.Mutex // guards what follows
	changed   signal
	closed    bool
	targets   map[string]*target
	streams   map[*stream]struct{} // the live ones
	opened    int
	chunkSize int
	load      *LoadReporting
	loadEpoch int // rises with load
	faults    faults
	observed  observed
}

// target is what is assigned under one name. Guarded by ShardingService.mu.
type target struct {
	assigned   bool
	generation int64 // last used, by an assignment or by a corrupt one
	current    int64 // of the assignment in force
	assignment Assignment
	encoded    [][]byte // of current; nil until the first stream wants it
}

// faults is what is wrong at present. Guarded by ShardingService.mu.
type faults struct {
	delay         time.Duration
	refuse        *status.Status
	refuseUnknown bool
	hang          bool
	hangUp        bool
	corrupt       Corruption
	corruptEpoch  int // rises with each call of Corrupt
}

// StartSharding starts a service. [WithServices] adds services of yours on the
// same port.
func StartSharding(opts ...Option) (*ShardingService, error) {
	o := newOptions(opts)
	s := &ShardingService{
		targets:   make(map[string]*target),
		streams:   make(map[*stream]struct{}),
		chunkSize: defaultChunkSize,
	}
	h, err := startHost(o.address, func() *grpc.Server {
		server := grpc.NewServer(append([]grpc.ServerOption{
			grpc.WaitForHandlers(true),
			grpc.ForceServerCodecV2(frameCodec{}),
		}, o.server...)...)
		wire.RegisterServer(server, watchHandler{s})
		for _, register := range o.register {
			register(server)
		}
		return server
	}, s.receivers.Wait)
	if err != nil {
		return nil, fmt.Errorf("sharding service: %w", err)
	}
	s.host = h
	return s, nil
}

// Addr is the address to dial, the same over restarts.
func (s *ShardingService) Addr() string { return s.host.address() }

// Connections counts the connections to the service.
func (s *ShardingService) Connections() Connections { return s.host.conns.counts() }

// Close ends every stream and the service. It waits for both.
func (s *ShardingService) Close() {
	s.mu.Lock()
	s.closed = true
	s.changed.raise()
	s.mu.Unlock()
	s.host.close()
}

// Stop kills the service: connections are cut, the port is closed, dials are
// refused. Assignments and faults are kept for Restart.
func (s *ShardingService) Stop() { s.host.kill() }

// Restart listens again on the same port.
func (s *ShardingService) Restart() error { return s.host.restart() }

// BlackHole cuts every connection; from now on connections are accepted and
// nothing ever comes back on them. Restart ends it.
func (s *ShardingService) BlackHole() error { return s.host.blackHole() }

// SetChunkSize sends assignments in chunks of n slices. The default is 1000.
func (s *ShardingService) SetChunkSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunkSize = max(n, 1)
	for _, t := range s.targets {
		t.encoded = nil
	}
}

// Assign puts a in force for the target and pushes it to the streams that watch
// it. It returns the generation.
func (s *ShardingService) Assign(targetName string, a Assignment) int64 {
	a = a.resolved()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(targetName, a)
}

// AssignEven is Assign of [Even].
func (s *ShardingService) AssignEven(targetName string, endpoints ...string) int64 {
	return s.Assign(targetName, Even(endpoints...))
}

// Move gives the slice that holds key to the endpoints, as a new generation.
func (s *ShardingService) Move(targetName, key string, endpoints ...string) (int64, error) {
	return s.edit(targetName, func(a Assignment) (Assignment, error) { return a.moveKey(key, endpoints) })
}

// MoveRange gives the keys from start up to end to the endpoints, as a new
// generation, cutting slices as needed. An empty end is the end of the keyspace.
func (s *ShardingService) MoveRange(targetName, start, end string, endpoints ...string) (int64, error) {
	if end != "" && start >= end {
		return 0, errors.New("sdktest: cannot move a range that starts at or after its end")
	}
	return s.edit(targetName, func(a Assignment) (Assignment, error) {
		return a.assignRange(start, end, endpoints, false), nil
	})
}

// Split cuts the slice that holds at into two with the same endpoints.
func (s *ShardingService) Split(targetName, at string) (int64, error) {
	return s.edit(targetName, func(a Assignment) (Assignment, error) { return a.split(at) })
}

// Merge joins the two slices that meet at a key; the left one's endpoints own
// both.
func (s *ShardingService) Merge(targetName, at string) (int64, error) {
	return s.edit(targetName, func(a Assignment) (Assignment, error) { return a.merge(at) })
}

// Owners is who owns the key by the assignment in force.
func (s *ShardingService) Owners(targetName, key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[targetName]
	if t == nil {
		return nil
	}
	if i := t.assignment.find(key); i >= 0 {
		return append([]string(nil), t.assignment.Slices[i].Endpoints...)
	}
	return nil
}

// Generation is the generation in force for the target, 0 if there is none.
func (s *ShardingService) Generation(targetName string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.targets[targetName]; t != nil {
		return t.current
	}
	return 0
}

// SetLoadReporting sends l to the streams there are and to each new one before
// its assignment.
func (s *ShardingService) SetLoadReporting(l LoadReporting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = &l
	s.loadEpoch++
	s.changed.raise()
}

func (s *ShardingService) edit(name string, change func(Assignment) (Assignment, error)) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[name]
	if t == nil || !t.assigned {
		return 0, fmt.Errorf("sdktest: target %q has no assignment to change, call Assign first", name)
	}
	a, err := change(t.assignment)
	if err != nil {
		return 0, err
	}
	a.Generation = 0
	return s.put(name, a), nil
}

// target returns the target, making it if need be. s.mu is held.
func (s *ShardingService) target(name string) *target {
	t := s.targets[name]
	if t == nil {
		t = &target{}
		s.targets[name] = t
	}
	return t
}

// put makes a resolved assignment the one in force. s.mu is held.
func (s *ShardingService) put(name string, a Assignment) int64 {
	t := s.target(name)
	t.generation = max(t.generation+1, a.Generation)
	t.current, t.assignment, t.assigned, t.encoded = t.generation, a, true, nil
	s.changed.raise()
	return t.current
}

// frames is the assignment in force as messages. s.mu is held.
func (s *ShardingService) frames(t *target) [][]byte {
	if t.encoded == nil {
		t.encoded = t.assignment.frames(t.current, s.chunkSize)
	}
	return t.encoded
}

// unknownTarget is the protocol's answer to a target the service does not have.
func unknownTarget(name string) *status.Status {
	return status.Newf(codes.NotFound, "sdktest: no assignment for target %q", name)
}
