package admission

// Breaker is an [Admission] with a circuit breaker for each endpoint (row S-20).
// It only holds the settings: what an endpoint's calls did is in its [Circuit].
// It may serve any number of Routers, has no goroutine and needs no Close.
type Breaker struct{ options BreakerOptions }

// NewBreaker makes a Breaker. The error names every setting that is not allowed.
func NewBreaker(o BreakerOptions) (*Breaker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Breaker{options: o}, nil
}

// Guard makes a closed [Circuit]. Nothing is kept of one that was made for the
// same endpoint before.
func (b *Breaker) Guard(endpoint string) Guard {
	c := &Circuit{endpoint: endpoint, breaker: b}
	first := &phase{state: Closed, epoch: 1, calls: new(window)}
	c.phase.Store(first)
	c.told = first
	return c
}
