package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labelSets are the label sets of one client's histograms, made once each: what a
// histogram has seen it never forgets, so there is no more than a bounded number of
// them.
type labelSets struct {
	mu sync.RWMutex // guards by
	by map[labelKey][]metric.RecordOption
}

// labelKey has the values of the labels that the row has.
type labelKey struct {
	row              int
	target, selector string
}

// seenClients are the clients whose names histograms have had, up to mostNames. They
// are kept for as long as the process lives, as the series are.
var seenClients = struct {
	mu sync.Mutex
	by map[string]bool
}{by: make(map[string]bool)}

func histogramClient(name string) string {
	seenClients.mu.Lock()
	defer seenClients.mu.Unlock()
	if !seenClients.by[name] {
		if len(seenClients.by) >= mostNames {
			return otherNames
		}
		seenClients.by[name] = true
	}
	return name
}

// record adds a value to a histogram, unless it leads nowhere.
func (r *Registration) record(ctx context.Context, k labelKey, v float64) {
	if h := r.made.histograms[k.row]; r.metered && h != nil {
		h.Record(ctx, v, r.labels.of(r, k)...)
	}
}

func (s *labelSets) of(r *Registration, k labelKey) []metric.RecordOption {
	s.mu.RLock()
	opts, full := s.by[k], len(s.by) >= mostNames
	s.mu.RUnlock()
	if opts != nil {
		return opts
	}
	if full { // the names are the caller's
		if k.selector != "" {
			k.selector = otherNames
		}
		if k.target != "" {
			k.target = otherNames
		}
	}
	labels := []attribute.KeyValue{attribute.String(LabelClient, histogramClient(r.client))}
	if k.target != "" {
		labels = append(labels, attribute.String(LabelTarget, k.target))
	}
	if k.selector != "" {
		labels = append(labels, attribute.String(LabelSelector, k.selector))
	}
	opts = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(labels...))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = make(map[labelKey][]metric.RecordOption)
	}
	s.by[k] = opts
	return opts
}
