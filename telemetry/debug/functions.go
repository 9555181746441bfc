package debug

import (
	"html/template"
	"strings"
	"time"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"when":  func(at time.Time) moment { return moment{at} },
	"for":   func(d Duration) length { return length{d} },
	"lower": strings.ToLower,
	"class": class,
}

// moment is a time for people, with what JSON has of it.
type moment struct{ at time.Time }

// Zero says that it never happened.
func (m moment) Zero() bool { return m.at.IsZero() }

// Exact is as in JSON.
func (m moment) Exact() string { return m.at.Format(time.RFC3339Nano) }

// Clock is in UTC, to the millisecond.
func (m moment) Clock() string { return m.at.UTC().Format("2006-01-02 15:04:05.000") + " UTC" }

// Ago is how long ago it was, or how long it is till then.
func (m moment) Ago() string {
	ago := time.Since(m.at)
	if ago < 0 {
		return "in " + short(-ago)
	}
	return short(ago) + " ago"
}

// length is a duration likewise.
type length struct{ Duration }

// Short is for people.
func (l length) Short() string { return short(time.Duration(l.Duration)) }

// short is d with as many digits as one wants to read.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.String()
}

// class is how a state looks.
func class(state string) string {
	switch strings.ToLower(state) {
	case "ready", "healthy", "owned", "picked", "assigned":
		return "good"
	case "transient_failure", "unhealthy", "down", "failed", "dropped", "gap", "unassigned":
		return "bad"
	case "connecting", "recovering", "queued", "waiting":
		return "busy"
	}
	return "plain"
}
