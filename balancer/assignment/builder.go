package assignment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slicewire/slicewire/internal/wire"
)

const (
	// lingerTime is how long the stream is read on after an assignment was refused,
	// so that the ack that says so goes out before the stream is cancelled.
	lingerTime = 250 * time.Millisecond
	// sendTimeout is how long one message to the service may be stuck in flow
	// control. A service that sends and never reads would stop us otherwise.
	sendTimeout = 20 * time.Second
)

var errStuck = fmt.Errorf("the sharding service did not read an ack within %v", sendTimeout)

// builder decides on what its client reads from one stream, one after the other
// and in order, and says so to the service. While it builds, or waits for its
// turn to, the stream is read on, and the newest of what comes takes the place of
// what is not begun yet. A build that has begun is finished: a service that is
// faster than our builds would never get anything into force otherwise.
type builder struct {
	client *client
	in     *inbox
	watch  *wire.Watch
	end    context.CancelCauseFunc // ends the stream
	over   <-chan struct{}         // closed when the stream is
}

// run decides until the inbox is closed and empty: what came whole before the
// stream broke is put in force, though no ack can say so. It stops early when
// ctx, the client's, ends, and with the error for which the stream is to end.
func (b *builder) run(ctx context.Context) error {
	defer b.in.close()
	c := b.client
	for {
		build, ok := b.in.wait()
		if !ok {
			return nil
		}
		if build && c.options.Gate.Enter(ctx, c.machine.generation == 0) != nil {
			return nil
		}
		batch := b.in.take(build)
		c.machine.revision = Revision(c.revision.Load())
		var made *Assignment
		var message string
		var took time.Duration
		if build {
			began := time.Now()
			made, message = b.build(ctx, batch)
			took = time.Since(began)
			c.options.Gate.Leave()
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := b.answer(batch, made, message, took); err != nil {
			return err
		}
	}
}

// build builds the one of batch that there is to build.
func (b *builder) build(ctx context.Context, batch []completed) (made *Assignment, message string) {
	for _, one := range batch {
		if one.assembly != nil {
			made, message = one.assembly.build(ctx, one.generation, b.client.machine.revision)
			b.in.built(one, made != nil)
		}
	}
	return made, message
}

// answer decides on batch, puts in force what is to be, and only then sends the
// acks: a service that is slow to read them shall not keep it. made and message are
// of the one that was built, which took so long. An error is why the stream is to end.
func (b *builder) answer(batch []completed, made *Assignment, message string, took time.Duration) error {
	var decisions []decision
	for _, one := range batch {
		d := b.decide(one, made, message)
		if one.assembly != nil && d.verdict != superseded && d.verdict != stale {
			d.took = took
		}
		b.client.sink.received(b.client, d)
		decisions = append(decisions, d)
		if d.end {
			break
		}
	}
	for _, d := range decisions {
		send(b.end, b.watch, &wire.WatchShardingAssignmentRequest{
			Request: &wire.WatchShardingAssignmentRequest_AssignmentAck{AssignmentAck: d.ack},
		})
		if d.end {
			b.linger(d.err)
			return d.err
		}
	}
	return nil
}

func (b *builder) decide(one completed, made *Assignment, message string) decision {
	m := &b.client.machine
	d := m.metadata(one.generation)
	switch {
	case !d.build: // stale
	case one.by != 0:
		d = m.superseded(one.generation, one.by)
	case one.assembly == nil:
		d = m.built(one.generation, nil, noChunk)
	default:
		d = m.built(one.generation, made, message)
	}
	return d
}

// linger ends the stream after a bounded moment, in which it is read on and what
// comes is nobody's: cancelling at once could overtake the ack.
func (b *builder) linger(cause error) {
	b.in.close()
	select {
	case <-time.After(lingerTime):
		b.end(cause)
	case <-b.over:
	}
}

// send sends one message. The stream's context bounds it, and a timer that
// cancels the stream if the service does not read. io.EOF says that the stream is
// over; who receives knows why.
func send(cancel context.CancelCauseFunc, watch *wire.Watch, m *wire.WatchShardingAssignmentRequest) {
	stuck := time.AfterFunc(sendTimeout, func() { cancel(errStuck) })
	defer stuck.Stop()
	if err := watch.Send(m); err != nil && !errors.Is(err, io.EOF) {
		cancel(err)
	}
}
