package sdk

import (
	"context"
	"log/slog"
	"slices"

	"github.com/slicewire/slicewire/telemetry/debug"
)

// recorder is where a Client logs: what it says becomes control events of the debug
// pages, and goes on to the user's handler, if there is one. So an event and a log
// record say the same, and neither holds a key.
type recorder struct {
	events *debug.Events
	next   slog.Handler // nil without WithLogger
	group  string       // of attributes to come, "" or with a dot at its end
	own    []debug.Attribute
}

func remember(events *debug.Events, to *slog.Logger) *recorder {
	r := &recorder{events: events}
	if to != nil {
		r.next = to.Handler()
	}
	return r
}

// Enabled implements slog.Handler.
func (r *recorder) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || r.next != nil && r.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (r *recorder) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo {
		e := debug.Event{At: record.Time, Kind: record.Message, Trouble: record.Level >= slog.LevelWarn, Details: slices.Clone(r.own)}
		record.Attrs(func(a slog.Attr) bool {
			e.Details = details(e.Details, r.group, a)
			return true
		})
		r.events.Add(e)
	}
	if r.next == nil || !r.next.Enabled(ctx, record.Level) {
		return nil
	}
	return r.next.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (r *recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *r
	c.own = slices.Clone(r.own)
	for _, a := range attrs {
		c.own = details(c.own, r.group, a)
	}
	if r.next != nil {
		c.next = r.next.WithAttrs(attrs)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (r *recorder) WithGroup(name string) slog.Handler {
	if name == "" {
		return r
	}
	c := *r
	c.group += name + "."
	if r.next != nil {
		c.next = r.next.WithGroup(name)
	}
	return &c
}

// details appends a, and what is in it if it is a group, as text.
func details(to []debug.Attribute, group string, a slog.Attr) []debug.Attribute {
	v := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
		return to
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, in := range v.Group() {
			to = details(to, group, in)
		}
		return to
	}
	return append(to, debug.Attribute{Name: group + a.Key, Value: v.String()})
}
