package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"text/tabwriter"
	"time"
)

// row is one line of the table.
type row struct {
	Measure string  `json:"measure"`
	Unit    string  `json:"unit"`
	Ours    float64 `json:"ours"`
	// Peer is what ours is divided by; PeerName is "" where there is none.
	Peer     float64 `json:"peer,omitempty"`
	PeerName string  `json:"peerName,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
	// Spread is that of what the goal is about: the ratio, or ours.
	Spread float64 `json:"spread"`
	Goal   string  `json:"goal,omitempty"`
	// Verdict is "ok", "SHORT", or "" without a goal.
	Verdict string `json:"verdict,omitempty"`
	// Missed says that the goal is missed by more than the spread.
	Missed bool `json:"missed,omitempty"`
}

// goal is a bound. The zero goal is none.
type goal struct {
	atMost, atLeast float64
	set             bool
}

func atMost(limit float64) goal  { return goal{atMost: limit, set: true} }
func atLeast(limit float64) goal { return goal{atLeast: limit, set: true} }

var noGoal goal

func (g goal) String() string {
	switch {
	case !g.set:
		return ""
	case g.atLeast > 0:
		return ">= " + number(g.atLeast)
	}
	return "<= " + number(g.atMost)
}

// short is by how much v falls short of the goal.
func (g goal) short(v float64) float64 {
	switch {
	case !g.set:
		return 0
	case g.atLeast > 0:
		return max(0, g.atLeast-v)
	}
	return max(0, v-g.atMost)
}

// against is a row whose goal is about the ratio of ours to a peer's.
func against(name, unit string, ours []float64, peerName string, peer []float64, g goal) row {
	rs := ratios(ours, peer)
	r := row{
		Measure: name, Unit: unit, Ours: median(ours), Peer: median(peer), PeerName: peerName,
		Ratio: median(rs), Spread: spread(rs), Goal: g.String(),
	}
	return r.judge(r.Ratio, g)
}

// alone is a row whose goal is about our own number.
func alone(name, unit string, ours []float64, g goal) row {
	r := row{Measure: name, Unit: unit, Ours: median(ours), Spread: spread(ours), Goal: g.String()}
	return r.judge(r.Ours, g)
}

// beside adds a peer to a row whose goal is about our own number.
func (r row) beside(peerName string, peer []float64) row {
	r.PeerName, r.Peer = peerName, median(peer)
	r.Ratio = r.Ours / r.Peer
	return r
}

func (r row) judge(v float64, g goal) row {
	if !g.set {
		return r
	}
	lack := g.short(v)
	r.Verdict = "ok"
	if lack > 0 {
		r.Verdict = "SHORT"
	}
	r.Missed = lack > r.Spread
	return r
}

func missed(rows []row) bool {
	for _, r := range rows {
		if r.Missed {
			return true
		}
	}
	return false
}

// number prints three digits or so.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v == float64(int(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 0.01:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func printTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tunit\tours\tpeer\t\tratio\tspread\tgoal\t")
	for _, r := range rows {
		peer, ratio := "-", "-"
		if r.PeerName != "" {
			peer, ratio = number(r.Peer), number(r.Ratio)
		}
		verdict := r.Verdict
		if verdict == "SHORT" && !r.Missed {
			verdict = "SHORT, within the spread"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Measure, r.Unit, number(r.Ours), peer, r.PeerName, ratio, number(r.Spread), r.Goal, verdict)
	}
	return t.Flush()
}

// report is the form of -json.
type report struct {
	Time  time.Time `json:"time"`
	Go    string    `json:"go"`
	OS    string    `json:"os"`
	Arch  string    `json:"arch"`
	CPUs  int       `json:"cpus"`
	Quick bool      `json:"quick"`
	Rows  []row     `json:"rows"`
}

func writeJSON(name string, quick bool, rows []row) error {
	var js bytes.Buffer
	e := json.NewEncoder(&js)
	e.SetEscapeHTML(false) // goals read "<= 2"
	e.SetIndent("", "  ")
	err := e.Encode(report{
		Time: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPUs: runtime.GOMAXPROCS(0), Quick: quick, Rows: rows,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(name, js.Bytes(), 0o644)
}
