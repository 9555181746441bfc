package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Storms are let through so many at once, then so many a second.
const (
	stormBurst = 20
	stormRate  = 1.0
	mostStorms = 1024 // names that are told apart
)

// limits let the first of many that are alike through, and count the rest. The zero
// value is ready.
type limits struct {
	mu sync.Mutex // guards by
	by map[string]*bucket
}

type bucket struct {
	left       float64
	at         time.Time
	suppressed int
}

// allow says whether one more of a name may go through, and how many before it did
// not.
func (l *limits) allow(name string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.by[name]
	if b == nil {
		if l.by == nil || len(l.by) >= mostStorms {
			l.by = make(map[string]*bucket)
		}
		b = &bucket{left: stormBurst, at: now}
		l.by[name] = b
	}
	if d := now.Sub(b.at); d > 0 {
		b.left, b.at = min(stormBurst, b.left+d.Seconds()*stormRate), now
	}
	if b.left < 1 {
		b.suppressed++
		return 0, false
	}
	b.left--
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, true
}

// LimitLogs returns a handler that passes the first 20 records of one message on to h,
// then one a second, which says in "suppressed" how many before it were left out.
// Records below Info are not limited: who asks for them wants them all.
func LimitLogs(h slog.Handler) slog.Handler { return &limitedLogs{h, &limits{}} }

type limitedLogs struct {
	slog.Handler
	limits *limits
}

// Handle implements [slog.Handler].
func (h *limitedLogs) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return h.Handler.Handle(ctx, r)
	}
	now := r.Time
	if now.IsZero() {
		now = time.Now()
	}
	suppressed, ok := h.limits.allow(r.Message, now)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler]. What it returns is limited on its own, so that
// one target's storm does not hide another's.
func (h *limitedLogs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return LimitLogs(h.Handler.WithAttrs(attrs))
}

// WithGroup implements [slog.Handler].
func (h *limitedLogs) WithGroup(name string) slog.Handler {
	return &limitedLogs{h.Handler.WithGroup(name), h.limits}
}
