package assignment

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// This file is the sink of watcher.go: what the client in charge sees becomes
// facts, counts and log lines here. It runs on the clients' goroutines.

// fromCharge is update, unless c has been replaced.
func (w *Watcher) fromCharge(c *client, change func()) {
	w.update(func() {
		if w.charge == c {
			change()
		}
	})
}

func (w *Watcher) unreachable(c *client, err error, warn bool) {
	w.fromCharge(c, func() {
		w.counts.LastError = err.Error()
		w.facts.unreachable = err
	})
	if warn {
		w.options.Logger.Warn("the sharding service cannot be reached; a stream waits for a connection", "sharding_target", c.target, "error", err)
	}
}

func (w *Watcher) streamOpened(c *client) {
	w.fromCharge(c, func() {
		w.facts.unreachable = nil
		w.facts.connected, w.spoke = true, false
		w.counts.StreamConnected = true
		w.counts.StreamSince = time.Now()
		w.counts.StreamsOpened++
	})
}

func (w *Watcher) streamEnded(c *client, err error, report bool) {
	w.fromCharge(c, func() {
		w.disconnected()
		if err == nil {
			return
		}
		w.counts.LastError = err.Error()
		w.facts.lastErr, w.facts.unreachable = err, nil
		if report {
			w.facts.reported = w.resultError(err)
		}
	})
	if err != nil {
		w.options.Logger.Warn("the stream to the sharding service ended", "sharding_target", c.target, "error", err)
	}
}

// disconnected notes that no stream is open. A stream that ended as soon as it
// was opened, without a word, is no sign of life: staleness goes on.
func (w *Watcher) disconnected() {
	if !w.counts.StreamConnected {
		return
	}
	now := time.Now()
	if w.spoke || now.Sub(w.counts.StreamSince) >= w.options.MinStreamGap {
		w.staleSince = now
	}
	w.facts.connected, w.counts.StreamConnected = false, false
	w.counts.StreamSince = now
}

// resultError is err as the error of the state.
func (w *Watcher) resultError(err error) error {
	return fmt.Errorf("no assignment from the sharding service %s: %w", w.facts.config.names(), err)
}

func (w *Watcher) received(c *client, d decision) {
	w.fromCharge(c, func() {
		w.counts.LastAck = Ack{time.Now(), d.ack.GetGeneration(), d.ack.GetAccepted(), d.ack.GetErrorMessage()}
		if d.verdict == stale || d.verdict == invalid {
			w.counts.LastRefusal = w.counts.LastAck
		}
		switch d.verdict {
		case accepted:
			w.counts.Accepted++
			w.spoke = true
		case stale:
			w.counts.Stale++
		case superseded:
			w.counts.Superseded++
		case invalid:
			w.counts.Invalid++
		}
		if d.err != nil {
			w.counts.LastError = d.err.Error()
		}
		if d.verdict == invalid {
			w.facts.lastErr = d.err
		}
		if d.publish != nil {
			w.facts.assignment = d.publish
			w.counts.ReceivedAt = time.Now()
		}
		if d.report {
			w.facts.reported = w.resultError(d.err)
		}
	})
	level, message := slog.LevelDebug, "assignment refused"
	attributes := []any{"sharding_target", c.target, "generation", d.ack.GetGeneration(), "result", d.verdict.String()}
	if d.verdict == superseded {
		message = "assignment superseded"
	}
	if d.publish != nil {
		level, message = slog.LevelInfo, "assignment received"
		attributes = append(attributes, "slices", d.publish.Slices(), "uncovered_slices", d.publish.Uncovered(), "endpoints", len(d.publish.Endpoints))
	}
	if d.err != nil {
		attributes = append(attributes, "error", d.err)
	}
	if d.err != nil && d.verdict != stale {
		level = slog.LevelWarn
	}
	w.options.Logger.Log(context.Background(), level, message, attributes...)
	if w.options.Observer != nil {
		w.options.Observer.Updated(update(c.target, d))
	}
}

// Pending says which assignment RPCs wait for and what is known of the sharding
// service, "" unless the phase is Waiting.
func (w *Watcher) Pending() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.published.Load().Phase != Waiting {
		return ""
	}
	return w.facts.config.names() + "; " + w.facts.hint()
}

// Status is a snapshot for operators.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.counts
	s.Phase = w.published.Load().Phase
	s.ChannelKey, s.Target = w.facts.config.ChannelKey, w.facts.config.Target
	s.ClientUUID = w.options.ClientUUID
	if a := w.facts.assignment; a != nil && !w.facts.suspended {
		s.Generation, s.Slices, s.Uncovered, s.Endpoints, s.Bytes = a.Generation, a.Slices(), a.Uncovered(), len(a.Endpoints), a.Bytes()
		s.Age = time.Since(s.ReceivedAt)
	}
	if w.facts.suspended {
		s.ReceivedAt = time.Time{}
	}
	if w.charge != nil {
		if heard := w.charge.heard.Load(); heard != 0 {
			s.MessageAt = time.Unix(0, heard)
		}
	}
	if !s.StreamConnected && !w.staleSince.IsZero() {
		s.StaleFor = time.Since(w.staleSince)
	}
	return s
}
