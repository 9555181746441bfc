package assignment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

// peer is the service's side of a stream, on loopback or in memory.
type peer interface {
	Send(*wire.WatchShardingAssignmentResponse) error
	Recv() (*wire.WatchShardingAssignmentRequest, error)
	Context() context.Context
}

// script is what a service does with one stream, after its first message.
type script func(s peer, first *wire.InitialClientConfig) error

// service runs a script for every stream and notes what came.
type service struct {
	script atomic.Pointer[script]

	mu     sync.Mutex
	firsts []*wire.InitialClientConfig
	starts []time.Time
	acks   []string // generation, accepted, with text
	texts  []string
}

func newService(s script) *service {
	svc := &service{}
	svc.play(s)
	return svc
}

// play changes the script for streams to come.
func (s *service) play(next script) { s.script.Store(&next) }

func (s *service) serve(p peer) error {
	m, err := p.Recv()
	if err != nil {
		return err
	}
	first := m.GetInitialClientConfig()
	s.mu.Lock()
	s.firsts = append(s.firsts, first)
	s.starts = append(s.starts, time.Now())
	s.mu.Unlock()
	return (*s.script.Load())(&notingPeer{p, s}, first)
}

func (s *service) streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.firsts)
}

func (s *service) last() *wire.InitialClientConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firsts[len(s.firsts)-1]
}

func (s *service) ackList() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.acks...)
}

func (s *service) ackTexts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.texts...)
}

func (s *service) startTimes() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.starts...)
}

// notingPeer notes acks.
type notingPeer struct {
	peer
	service *service
}

func (p *notingPeer) Recv() (*wire.WatchShardingAssignmentRequest, error) {
	m, err := p.peer.Recv()
	if ack := m.GetAssignmentAck(); ack != nil {
		p.service.mu.Lock()
		p.service.acks = append(p.service.acks, fmt.Sprint(ack.Generation, " ", ack.Accepted, " ", ack.ErrorMessage != ""))
		p.service.texts = append(p.service.texts, ack.ErrorMessage)
		p.service.mu.Unlock()
	}
	return m, err
}

// give sends a whole-keyspace assignment to one endpoint and reads its ack.
func give(p peer, generation int64, endpoint string) error {
	return giveParts(p, generation, []string{endpoint}, part{"", noEnd, []int32{0}})
}

func giveParts(p peer, generation int64, endpoints []string, parts ...part) error {
	if err := p.Send(chunkOf(endpoints, parts...)); err != nil {
		return err
	}
	if err := p.Send(metadataOf(generation)); err != nil {
		return err
	}
	_, err := p.Recv()
	return err
}

// hold keeps a stream open until the client ends it.
func hold(p peer) error {
	for {
		if _, err := p.Recv(); err != nil {
			<-p.Context().Done()
			return p.Context().Err()
		}
	}
}

// giveAndHold is the script of a healthy service.
func giveAndHold(generation int64, endpoint string) script {
	return func(p peer, first *wire.InitialClientConfig) error {
		if first.LatestGeneration < generation {
			if err := give(p, generation, endpoint); err != nil {
				return err
			}
		}
		return hold(p)
	}
}

func silence(p peer, _ *wire.InitialClientConfig) error { return hold(p) }

// listen serves svc on loopback TCP.
func (s *service) listen(t *testing.T) (address string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	wire.RegisterServer(server, loopback{s})
	served := make(chan struct{})
	go func() { // ends with Stop, waited for below
		defer close(served)
		_ = server.Serve(lis)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return lis.Addr().String()
}

type loopback struct{ service *service }

func (l loopback) WatchShardingAssignment(s wire.Stream) error { return l.service.serve(s) }

// memory is a channel to a service in the same process, for synctest. Each
// direction of a stream holds window messages before a sender has to wait.
type memory struct {
	service *service
	window  int

	mu       sync.Mutex
	ready    chan struct{} // NewStream waits for it (wait-for-ready)
	broken   chan struct{} // closing it ends all streams with UNAVAILABLE
	released int
	live     int
	faults   []string
	name     string
	journal  *journal
}

func newMemory(s *service) *memory {
	m := &memory{service: s, window: 100, ready: make(chan struct{}), broken: make(chan struct{})}
	close(m.ready)
	return m
}

func (m *memory) provider() Provider {
	return func(string) (grpc.ClientConnInterface, func(), error) { return m, m.release, nil }
}

// breakStreams ends all streams as a lost connection does.
func (m *memory) breakStreams() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.broken)
	m.broken = make(chan struct{})
}

func (m *memory) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.released++
	m.journal.note("release " + m.name)
	if m.live > 0 {
		m.faults = append(m.faults, fmt.Sprintf("released with %d live streams", m.live))
	}
}

// check says whether the channel was released exactly once, after its streams.
func (m *memory) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released != 1 {
		t.Errorf("channel %s was released %d times, want once", m.name, m.released)
	}
	for _, f := range m.faults {
		t.Errorf("channel %s: %s", m.name, f)
	}
}

// journal is what happened to channels, in order. Nil is fine.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) note(event string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (m *memory) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.New("no unary calls here")
}

func (m *memory) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	m.mu.Lock()
	ready := m.ready
	m.mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if method != wire.WatchMethod {
		return nil, fmt.Errorf("unknown method %s", method)
	}
	s := &memoryStream{
		ctx: ctx, conn: m,
		up:   make(chan *wire.WatchShardingAssignmentRequest, m.window),
		down: make(chan []byte, m.window),
		over: make(chan struct{}),
	}
	m.mu.Lock()
	if m.released > 0 {
		m.faults = append(m.faults, "a stream was opened after the release")
	}
	s.broken = m.broken
	m.live++
	m.journal.note("stream " + m.name)
	m.mu.Unlock()
	go func() { // ends when the script returns, which the client's end makes it do
		s.err = m.service.serve((*memoryPeer)(s))
		close(s.over)
	}()
	return s, nil
}

type memoryStream struct {
	ctx    context.Context
	conn   *memory
	up     chan *wire.WatchShardingAssignmentRequest
	down   chan []byte
	over   chan struct{}
	broken chan struct{}
	err    error // of the script, readable once over is closed
	once   sync.Once
}

func (s *memoryStream) Header() (grpcmetadata.MD, error) { return nil, nil }
func (s *memoryStream) Trailer() grpcmetadata.MD         { return nil }
func (s *memoryStream) CloseSend() error                 { return nil }
func (s *memoryStream) Context() context.Context         { return s.ctx }

func (s *memoryStream) SendMsg(m any) error {
	select {
	case s.up <- m.(*wire.WatchShardingAssignmentRequest):
		return nil
	case <-s.over:
		return io.EOF
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *memoryStream) RecvMsg(m any) (err error) {
	defer func() {
		if err != nil {
			s.once.Do(func() {
				s.conn.mu.Lock()
				s.conn.live--
				s.conn.mu.Unlock()
			})
		}
	}()
	if s.ctx.Err() != nil {
		return status.FromContextError(s.ctx.Err()).Err()
	}
	select {
	case b := <-s.down:
		m.(*wire.Frame).Bytes = b
		return nil
	default:
	}
	select {
	case b := <-s.down:
		m.(*wire.Frame).Bytes = b
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	case <-s.broken:
		return status.Error(codes.Unavailable, "connection lost")
	case <-s.over:
		select {
		case b := <-s.down:
			m.(*wire.Frame).Bytes = b
			return nil
		default:
		}
		if s.err == nil {
			return io.EOF
		}
		return s.err
	}
}

type memoryPeer memoryStream

func (p *memoryPeer) Context() context.Context { return p.ctx }

func (p *memoryPeer) Send(m *wire.WatchShardingAssignmentResponse) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case p.down <- b:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *memoryPeer) Recv() (*wire.WatchShardingAssignmentRequest, error) {
	select {
	case m := <-p.up:
		return m, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

// dialing is a provider of real channels to one address.
func dialing(address string) Provider {
	return func(string) (grpc.ClientConnInterface, func(), error) {
		cc, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, err
		}
		return cc, func() { _ = cc.Close() }, nil
	}
}

// eventually polls for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to pass that %s", what)
		}
	}
}

// owner is the endpoint that a key goes to, "" without one.
func owner(w *Watcher, key string) string {
	a := w.State().Assignment
	if a == nil {
		return ""
	}
	owners := a.Owners(a.Index.Find(key))
	if len(owners) == 0 {
		return ""
	}
	return a.Endpoints[owners[0]]
}
