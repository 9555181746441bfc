package assignment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// recheckTime is how long a stream waits for a connection before the channel is
// asked again what is wrong.
const recheckTime = 10 * time.Second

var (
	errSilent = errors.New("no message within the refresh interval")
	errWaited = errors.New("no connection yet")
)

// client does the I/O for one channel and target. newClient starts its
// goroutine, which reads, and which starts and awaits a builder for each stream;
// close ends both and waits.
type client struct {
	cc       grpc.ClientConnInterface
	target   string
	options  Options
	sink     sink
	revision atomic.Uint32 // a Revision; the watcher stores, the goroutines load
	heard    atomic.Int64  // Unix nanoseconds of the newest message; the goroutine stores, the watcher loads

	machine  machine   // of the builder while there is one, else of the goroutine
	assembly assembler // of the goroutine

	cancel context.CancelFunc
	done   chan struct{}
}

// sink is told what a client sees, from the client's goroutines, one at a time.
type sink interface {
	// unreachable is told what keeps the channel from connecting, time and again
	// while a stream waits for that. warn says to tell the operator.
	unreachable(c *client, err error, warn bool)
	streamOpened(*client)
	// streamEnded is told once for every streamOpened, and also if a stream
	// could not be opened. err is nil if the client ended it for a refresh.
	streamEnded(c *client, err error, report bool)
	// received is told the verdict over an assignment and puts d.publish in force.
	received(c *client, d decision)
}

func newClient(cc grpc.ClientConnInterface, target string, revision Revision, options Options, to sink) *client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{
		cc:      cc,
		target:  target,
		options: options,
		sink:    to,
		machine: machine{
			backoff: options.Backoff,
			minGap:  options.MinStreamGap,
			random:  rand.Float64,
		},
		assembly: assembler{maxBytes: options.MaxAssignmentBytes},
		cancel:   cancel,
		done:     make(chan struct{}),
	}
	c.setRevision(revision)
	go c.run(ctx)
	return c
}

func (c *client) setRevision(r Revision) { c.revision.Store(uint32(r)) }

// close ends the stream and waits until nothing of the client runs any more.
func (c *client) close() {
	c.cancel()
	<-c.done
}

func (c *client) run(ctx context.Context) {
	defer close(c.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		openAt := c.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		timer.Reset(time.Until(openAt))
	}
}

// stream runs one stream to its end and says when the next one may start.
func (c *client) stream(parent context.Context) (openAt time.Time) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)

	generation := c.machine.opening(time.Now())
	watch, err := c.open(ctx, cancel)
	if err == nil {
		c.machine.opened(time.Now())
		c.sink.streamOpened(c)
		err = c.converse(parent, ctx, cancel, watch, generation)
	}
	c.assembly.reset() // chunks of a dead stream are never completed
	c.machine.revision = Revision(c.revision.Load())
	switch {
	case parent.Err() != nil:
		c.sink.streamEnded(c, nil, false)
		return time.Time{}
	case watch == nil && errors.Is(context.Cause(ctx), errWaited):
		return time.Now() // the service saw no stream: nothing to space, nothing failed
	case errors.Is(err, errSilent), errors.Is(err, errWaited):
		c.sink.streamEnded(c, nil, false)
		return c.machine.silent(time.Now()).openAt
	}
	d := c.machine.ended(time.Now(), c.describe(err))
	c.sink.streamEnded(c, d.err, d.report)
	return d.openAt
}

// open opens a stream as soon as there is a connection (A119: wait-for-ready).
// gRPC keeps to itself why a channel cannot connect for as long as a call waits
// for that, so one that does not wait asks first. The wait is ended with
// errWaited after a while, so that the cause told is the newest.
func (c *client) open(ctx context.Context, cancel context.CancelCauseFunc) (*wire.Watch, error) {
	watch, err := wire.OpenNow(ctx, c.cc, c.options.MaxMessageBytes)
	if status.Code(err) != codes.Unavailable {
		return watch, err
	}
	c.sink.unreachable(c, c.unreachable(err), c.machine.unreachable(time.Now()))
	enough := time.AfterFunc(c.machine.spread(recheckTime), func() { cancel(errWaited) })
	defer enough.Stop()
	return wire.Open(ctx, c.cc, c.options.MaxMessageBytes)
}

// converse sends the first message, has what comes answered, and returns why the
// stream ended. By then it is over on the channel too: the channel may be
// released right after (field case LL-04). parent is the client's context, ctx
// the stream's, and cancel ends the stream with a cause.
func (c *client) converse(parent, ctx context.Context, cancel context.CancelCauseFunc, watch *wire.Watch, generation int64) error {
	send(cancel, watch, &wire.WatchShardingAssignmentRequest{
		Request: &wire.WatchShardingAssignmentRequest_InitialClientConfig{
			InitialClientConfig: &wire.InitialClientConfig{
				Target:           c.target,
				ClientUuid:       c.options.ClientUUID,
				LatestGeneration: generation,
			},
		},
	})
	in := newInbox(c.options.MaxAssignmentBytes, generation)
	b := &builder{client: c, in: in, watch: watch, over: ctx.Done(), end: cancel}
	refused := make(chan error, 1)
	go func() { refused <- b.run(parent) }() // ends with the inbox, or with parent

	err := c.read(cancel, watch, in)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	in.close()
	cancel(err) // no ack can reach the service any more
	if refusal := <-refused; refusal != nil {
		return refusal
	}
	return err
}

// read puts what comes on the stream together until the stream is over, and
// returns how it ended.
func (c *client) read(cancel context.CancelCauseFunc, watch *wire.Watch, in *inbox) error {
	refresh := c.startRefresh(cancel)
	defer refresh.stop()
	for {
		f, err := watch.Recv()
		if err != nil {
			return err
		}
		c.heard.Store(time.Now().UnixNano())
		refresh.restart()
		if !in.room(c.assembly.bytes() + len(f.Bytes)) {
			continue // the stream is being ended, and the rest is nobody's
		}
		kind, generation, err := c.assembly.frame(f.Bytes)
		if err != nil {
			in.close()
			cancel(err)
			continue
		}
		// Load report settings, unset and unknown responses are ignored, between
		// chunks too (A-34, field case AP-11).
		if kind == messageMetadata {
			in.put(generation, c.assembly.complete())
		}
	}
}

// refresh cancels a stream that has been silent for too long. The zero refresh
// does nothing.
type refresh struct {
	timer *time.Timer
	after func() time.Duration
}

func (c *client) startRefresh(cancel context.CancelCauseFunc) refresh {
	if c.options.RefreshInterval <= 0 {
		return refresh{}
	}
	r := refresh{after: func() time.Duration { return c.machine.spread(c.options.RefreshInterval) }}
	r.timer = time.AfterFunc(r.after(), func() { cancel(errSilent) })
	return r
}

func (r refresh) restart() {
	if r.timer != nil {
		r.timer.Reset(r.after())
	}
}

func (r refresh) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// streamError is the end of a stream. Its text is bounded: the status message
// is whatever the service says.
type streamError struct {
	text  string
	cause error
}

func (e *streamError) Error() string { return e.text }
func (e *streamError) Unwrap() error { return e.cause }

// describe says what the end of a stream means.
func (c *client) describe(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return &streamError{"the sharding service ended the stream without an error", err}
	case errors.Is(err, errRefused), errors.Is(err, errTooLarge), errors.Is(err, errWire), errors.Is(err, errUTF8), errors.Is(err, errStuck):
		return err
	}
	s, _ := status.FromError(err)
	text := fmt.Sprintf("the stream to the sharding service ended with %v: %s", s.Code(), s.Message())
	text = clipText(text, maxMessageRunes)
	if s.Code() == codes.ResourceExhausted {
		text += fmt.Sprintf(" (one message may have at most %d bytes here: MaxMessageBytes)", c.options.MaxMessageBytes)
	}
	return &streamError{text, err}
}

// unreachable says why there is no connection. The status stays out of it: it is
// no verdict on anybody's RPC.
func (c *client) unreachable(err error) error {
	where := ""
	if t, ok := c.cc.(interface{ Target() string }); ok {
		where = fmt.Sprintf(" at %q", t.Target())
	}
	s, _ := status.FromError(err)
	return errors.New(clipText(fmt.Sprintf("the sharding service%s cannot be reached: %s", where, s.Message()), maxMessageRunes))
}
