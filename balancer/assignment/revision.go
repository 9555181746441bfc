package assignment

import "fmt"

// Revision is a draft of gRFC A119. The drafts differ in what they do with
// invalid assignments and with errors before the first good one.
type Revision uint8

const (
	// Revision202608 refuses an assignment with any fault as a whole and ends
	// the stream; RPCs wait for the initial timeout whatever the stream does.
	Revision202608 Revision = iota
	// Revision202610 turns bad slices into gaps and keeps the stream; an error
	// before the first good assignment is reported at once.
	Revision202610
)

// String gives the spelling of the LB config: "2026-08" or "2026-10".
func (r Revision) String() string {
	switch r {
	case Revision202608:
		return "2026-08"
	case Revision202610:
		return "2026-10"
	}
	return fmt.Sprintf("Revision(%d)", uint8(r))
}

// ParseRevision is the inverse of String.
func ParseRevision(s string) (Revision, error) {
	switch s {
	case "2026-08":
		return Revision202608, nil
	case "2026-10":
		return Revision202610, nil
	}
	return 0, fmt.Errorf(`unknown revision %q of gRFC A119: use "2026-08" or "2026-10"`, s)
}
