package telemetry

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// Spans and events of calls.
const (
	SpanAttemptDelay = "Attempt Delay"
	SpanCallDelay    = "Call Delay"
	EventDelayState  = "Delay state transition"
	EventPick        = "slicewire.pick"
	EventFallback    = "slicewire.fallback"

	attributeDelayReason = "grpc.delay_reason"
)

// Delays measures what the RPCs of one channel wait for (gRFC A121). It is the
// channel's stats handler; the picker tells the record, which TagRPC puts into the
// context, why it queued.
//
// An attempt that ends while it is queued has a delay up to then. One that grpc-go
// picked a broken connection for is told by its next pick, so if it ends before that
// the wait is not known.
type Delays struct {
	r *Registration
	// attempts and calls are nil where nobody looks.
	attempts, calls metric.Float64Histogram

	mu     sync.Mutex // guards the rest
	target string
	labels map[delayKey][]metric.RecordOption
}

type delayKey struct{ kind, method string }

var _ stats.Handler = (*Delays)(nil)

// Delays makes the stats handler of a channel, or returns nil where nobody would see
// what it measures: then it costs nothing. It goes behind gRPC's own handlers, whose
// spans it adds to.
func (r *Registration) Delays() *Delays {
	d := &Delays{r: r, labels: make(map[delayKey][]metric.RecordOption)}
	if r.metered && !(r.options.GRPC && grpcMeasuresDelays()) {
		d.attempts, d.calls = r.made.histograms[attemptDelay], r.made.histograms[callDelay]
	}
	if d.attempts == nil && r.tracer == nil {
		return nil
	}
	return d
}

// SetTarget says what the channel's canonical target is, before its first RPC. Nil
// does nothing.
func (d *Delays) SetTarget(target string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = target
}

// TagRPC implements [stats.Handler].
func (d *Delays) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if begin := callinfo.Resolved(ctx); info.NameResolutionDelay {
		d.Resolving(ctx, info.FullMethodName, begin, time.Now())
	}
	return callinfo.Measure(ctx, d, !info.FailFast, d.r.tracer != nil && trace.SpanFromContext(ctx).IsRecording())
}

// HandleRPC implements [stats.Handler].
func (d *Delays) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.DelayedPickComplete:
		callinfo.Unqueued(ctx)
	case *stats.End:
		callinfo.Finish(ctx)
	}
}

// TagConn implements [stats.Handler].
func (d *Delays) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements [stats.Handler].
func (d *Delays) HandleConn(context.Context, stats.ConnStats) {}

// Delayed implements [callinfo.Measurer].
func (d *Delays) Delayed(ctx context.Context, delay *callinfo.Delay) {
	d.record(ctx, d.attempts, SpanAttemptDelay, callinfo.From(ctx).Method(), delay)
}

// Resolving is a wait of a call, before its first attempt, for the name resolver's
// answer. Nil does nothing, nor does a zero begin.
func (d *Delays) Resolving(ctx context.Context, method string, begin, end time.Time) {
	if d == nil || begin.IsZero() {
		return
	}
	delay := callinfo.Delay{Type: callinfo.DelayResolving, Begin: begin, End: end}
	if d.r.tracer != nil && trace.SpanFromContext(ctx).IsRecording() {
		delay.Reasons = []callinfo.Reason{{At: begin, Text: "the name resolver's answer"}}
	}
	d.record(ctx, d.calls, SpanCallDelay, method, &delay)
}

func (d *Delays) record(ctx context.Context, h metric.Float64Histogram, name, method string, delay *callinfo.Delay) {
	if h != nil {
		h.Record(ctx, delay.End.Sub(delay.Begin).Seconds(), d.labelsOf(delay.Type, method)...)
	}
	if len(delay.Reasons) == 0 {
		return
	}
	// The delay is over, and so is its span: none is ever left open.
	kind := attribute.String(LabelGRPCDelayOf, delay.Type)
	_, span := d.r.tracer.Start(ctx, name, trace.WithTimestamp(delay.Begin), trace.WithAttributes(kind))
	for _, reason := range delay.Reasons {
		span.AddEvent(EventDelayState, trace.WithTimestamp(reason.At),
			trace.WithAttributes(kind, attribute.String(attributeDelayReason, reason.Text)))
	}
	span.End(trace.WithTimestamp(delay.End))
}

func (d *Delays) labelsOf(kind, method string) []metric.RecordOption {
	if !d.r.options.MethodLabel {
		method = ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := delayKey{kind, method}
	if opts := d.labels[k]; opts != nil {
		return opts
	}
	if len(d.labels) >= mostNames && method != "" {
		k.method = otherNames
	}
	labels := []attribute.KeyValue{attribute.String(LabelGRPCTarget, d.target), attribute.String(LabelGRPCDelayOf, kind)}
	if k.method != "" {
		labels = append(labels, attribute.String(LabelGRPCMethod, k.method))
	}
	opts := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(labels...))}
	d.labels[k] = opts
	return opts
}

// Chose implements [callinfo.Measurer]: the event slicewire.pick on the attempt's
// span, and slicewire.fallback where it was one.
func (d *Delays) Chose(ctx context.Context, c *callinfo.Choice) {
	span := trace.SpanFromContext(ctx)
	labels := []attribute.KeyValue{attribute.String("slicewire.selector", c.Selector), attribute.String("slicewire.policy", c.Policy)}
	if c.Slice >= 0 {
		labels = append(labels, attribute.Int("slicewire.slice", c.Slice))
	}
	if c.Generation != 0 {
		labels = append(labels, attribute.Int64("slicewire.generation", c.Generation))
	}
	if hash := d.keyHash(ctx); hash != "" {
		labels = append(labels, attribute.String("slicewire.key_hash", hash))
	}
	if c.Fallback != "" {
		reason := attribute.String("slicewire.fallback_reason", c.Fallback)
		labels = append(labels, reason)
		span.AddEvent(EventFallback, trace.WithAttributes(attribute.String("slicewire.selector", c.Selector), reason))
	}
	span.AddEvent(EventPick, trace.WithAttributes(labels...))
}

// keyHash is the first 8 bytes of an HMAC of the call's key, "" where it was not
// asked for: by it the calls of one key can be found, and the key cannot.
func (d *Delays) keyHash(ctx context.Context) string {
	salt := d.r.options.KeyHashSalt
	call := callinfo.From(ctx)
	if salt == nil || call == nil || !call.HasKey {
		return ""
	}
	h := hmac.New(sha256.New, salt)
	h.Write([]byte(call.Key))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
