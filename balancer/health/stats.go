package health

// Stats counts what a [Registry] did since it was made, and what is so now.
type Stats struct {
	// Now: targets by state.
	Healthy, Unhealthy, Unknown int
	// Now: workers with a probe, and the most there ever were; at most Options.Workers.
	Busy, BusyMax int
	// Now: workers whose probe ignores its deadline.
	Stuck int

	// Probes that ended, by verdict. NoHealthService is part of Passed; TimedOut and
	// Panics are part of Failed.
	Passed, Failed, NoVerdict         uint64
	NoHealthService, TimedOut, Panics uint64
	// Late counts probes that began more than a tenth of an interval after they were
	// due because all workers were busy: raise Workers.
	Late uint64

	// Changes of state, by the new one.
	ToHealthy, ToUnhealthy uint64
	// EventsLost counts changes that the observer was not told, because too many
	// waited for it.
	EventsLost uint64
	// CallbackPanics counts panics of the observer, of views' notify, and of Close of
	// a target's checker.
	CallbackPanics uint64
}

// Stats is a consistent copy.
func (r *Registry) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.counts
	s.Busy = r.busy
	for _, e := range r.entries {
		if e.run != nil && e.run.overran(r.options.Timeout) {
			s.Stuck++
		}
		if e.gone() {
			continue
		}
		switch e.cell.State() {
		case Healthy:
			s.Healthy++
		case Unhealthy:
			s.Unhealthy++
		case Unknown:
			s.Unknown++
		}
	}
	return s
}
