package failover

import (
	"fmt"
	"strings"
	"time"
)

// Pin makes a target current whatever its state, until then or until
// [Machine.Unpin]; after that the normal rule holds at once. Another pin replaces
// it; it ends when the target is removed.
//
// It is an error if the target is not in the list, or if the end is not in the
// future; then nothing changes.
func (m *Machine) Pin(target string, until, now time.Time) ([]Switch, error) {
	t := m.find(target)
	if t == nil {
		return nil, fmt.Errorf("failover: cannot pin %q, it is not in the group; allowed is one of %s", target, m.names())
	}
	if now.Before(m.now) {
		now = m.now
	}
	if !until.After(now) {
		return nil, fmt.Errorf("failover: cannot pin %q until %v, which is not after %v; allowed is any later time", target, until, now)
	}
	m.advance(now)
	m.pin, m.until = t, until
	return m.decide(false), nil
}

// Unpin ends a pin before its time. It changes nothing if there is none.
func (m *Machine) Unpin(now time.Time) []Switch {
	ended := m.advance(now) || m.pin != nil
	m.pin = nil
	return m.decide(ended)
}

// Pinned is the target that is pinned and the end of that, false if none is.
func (m *Machine) Pinned() (target string, until time.Time, ok bool) {
	if m.pin == nil {
		return "", time.Time{}, false
	}
	return m.pin.name, m.until, true
}

func (m *Machine) names() string {
	var b strings.Builder
	for i, t := range m.targets {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", t.name)
	}
	return b.String()
}
