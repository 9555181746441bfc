package failover

import (
	"fmt"
	"time"
)

// State is what a target is to its group.
type State uint8

// A target that is Ready or Idle is available: it may be switched to. One that is
// Recovering keeps the traffic it has, for a while, but gets none it has not. One
// that is Down keeps it only while no other is available.
const (
	Ready      State = iota // connected
	Idle                    // not connected and not known to fail: never tried, or gone quiet
	Recovering              // lost, or not up yet, within the time it is given to come up
	Down                    // lost for longer than that, or condemned by another signal
)

// Available says whether a group may switch to a target in this state.
func (s State) Available() bool { return s <= Idle }

// String is a name for logs and labels.
func (s State) String() string { return name(s, "State", stateNames[:]) }

var stateNames = [...]string{"ready", "idle", "recovering", "down"}

// Connectivity is what a target's channel says of itself.
type Connectivity uint8

// The four states that a channel reports.
const (
	Up      Connectivity = iota // READY
	Dormant                     // IDLE
	Trying                      // CONNECTING
	Failed                      // TRANSIENT_FAILURE
)

// String is a name for logs and labels.
func (c Connectivity) String() string { return name(c, "Connectivity", connectivityNames[:]) }

var connectivityNames = [...]string{"up", "dormant", "trying", "failed"}

// Signal is a judge of targets beside their connectivity.
type Signal uint8

// The signals. A target is available while none of them is bad; of several bad
// ones the last in this list gives the reason.
const (
	ByErrorRatio Signal = iota // the share of its calls that fail, see [Ratio]
	ByMonitor                  // an application's own probes
	ByOperator                 // a person who took it out
	numSignals
)

// String is a name for logs and labels.
func (s Signal) String() string { return name(s, "Signal", signalNames[:]) }

var signalNames = [...]string{"error_ratio", "monitor", "operator"}

// Reason says why a group switched, or why a target is in its state.
type Reason uint8

// The reasons. Of a target: Start, Lost, ErrorRatio, Monitor, Disabled, Recovered.
const (
	Start      Reason = iota // the first target of a new group; nothing has happened to a target yet
	Lost                     // the connection is gone, or never came
	ErrorRatio               // too many calls failed
	Monitor                  // the monitor says so
	Disabled                 // an operator took the target out
	Recovered                // a target of higher priority is available again
	Pinned                   // an operator chose the target
	Unpinned                 // that choice ended
	Removed                  // the target left is no longer in the list
	Reordered                // a new list put an available target before the current one
	numReasons
)

// String is the value of the label "reason".
func (r Reason) String() string { return name(r, "Reason", reasonNames[:]) }

// Reasons are all there are, for what sets up a series for each.
func Reasons() []Reason {
	all := make([]Reason, numReasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

var reasonNames = [...]string{
	"start", "lost", "error_ratio", "monitor", "disabled", "recovered", "pinned", "unpinned", "removed", "reordered",
}

func name[T ~uint8](v T, kind string, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// Switch is a change of a group's current target.
type Switch struct {
	From, To string
	Reason   Reason
	At       time.Time
}
