package assignment

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxMessageRunes bounds the text of an ack (A119: AssignmentAck.error_message).
const maxMessageRunes = 512

// maxRepeats bounds how often the owners of one slice may repeat: a pick may look
// at each of them.
const maxRepeats = 1024

// fault is what is wrong with a slice, or, for gap, beside it.
type fault uint8

const (
	noFault fault = iota
	startTooLong
	endTooLong
	emptyRange
	badIndex
	tooManyOwners
	overlap
	gap
	faultKinds
)

// faultText completes "N ...".
var faultText = [faultKinds]string{
	startTooLong:  fmt.Sprintf("with a start key over %d bytes", maxKeyBytes),
	endTooLong:    fmt.Sprintf("with an end key over %d bytes", maxKeyBytes),
	emptyRange:    "with a start key that is not before the end key",
	badIndex:      "with an endpoint index outside the endpoint list",
	tooManyOwners: fmt.Sprintf("with over %d more owners than there are endpoints", maxRepeats),
	overlap:       "overlapping another slice",
	gap:           "gap(s) in the keyspace",
}

// rangeFault is what is wrong with a range by itself. An end key that is
// present and empty is no end at all, so the range is empty (field case AP-06).
func rangeFault(start, end []byte, hasEnd bool) fault {
	switch {
	case len(start) > maxKeyBytes:
		return startTooLong
	case len(end) > maxKeyBytes:
		return endTooLong
	case hasEnd && bytes.Compare(start, end) >= 0:
		return emptyRange
	}
	return noFault
}

// report counts faults and remembers the first few slices with each. It holds
// slice numbers only: keys are personal data and must not reach a message.
type report struct {
	slices int
	counts [faultKinds]int
	first  [faultKinds][]int64 // of gap: the slice before it, -1 for the start of the keyspace
}

func (r *report) add(f fault, slice int64) {
	const shown = 3
	r.counts[f]++
	if len(r.first[f]) < shown {
		r.first[f] = append(r.first[f], slice)
	}
}

func (r *report) bad() int {
	n := 0
	for f := startTooLong; f < gap; f++ {
		n += r.counts[f]
	}
	return n
}

// String is a text for an ack or a log: counts and the first slice numbers, in
// the order of arrival and counted from 0.
func (r *report) String() string {
	if r.slices == 0 {
		return "no slices at all"
	}
	var parts []string
	if bad := r.bad(); bad > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d slices are unusable", bad, r.slices))
	}
	for f := startTooLong; f < faultKinds; f++ {
		if r.counts[f] == 0 {
			continue
		}
		where := make([]string, len(r.first[f]))
		for i, slice := range r.first[f] {
			switch {
			case f != gap:
				where[i] = fmt.Sprint("slice ", slice)
			case slice < 0:
				where[i] = "at the start"
			default:
				where[i] = fmt.Sprint("after slice ", slice)
			}
		}
		if r.counts[f] > len(where) {
			where = append(where, "...")
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", r.counts[f], faultText[f], strings.Join(where, ", ")))
	}
	return strings.Join(parts, "; ")
}

// clipText makes text valid UTF-8 of at most n code points.
func clipText(text string, n int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= n || utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := 0
	for i := range text {
		if runes == n-1 {
			return text[:i] + "…"
		}
		runes++
	}
	return text
}
