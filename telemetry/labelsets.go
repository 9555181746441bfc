package telemetry

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labelSets are the label sets of one client's histograms, made once each: what a
// histogram has seen it never forgets, so there is no more than a bounded number of
// them. To find one takes no lock, for calls do.
type labelSets struct {
	by atomic.Pointer[map[labelKey][]metric.RecordOption] // stored under mu, never changed
	mu sync.Mutex
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
		h.Record(ctx, v, r.labels.of(r.client, k)...)
	}
}

func (s *labelSets) of(client string, k labelKey) []metric.RecordOption {
	if by := s.by.Load(); by != nil {
		if opts := (*by)[k]; opts != nil {
			return opts
		}
	}
	return s.add(client, k)
}

func (s *labelSets) add(client string, k labelKey) []metric.RecordOption {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old map[labelKey][]metric.RecordOption
	if p := s.by.Load(); p != nil {
		old = *p
	}
	if len(old) >= mostNames { // the names are the caller's
		if k.selector != "" {
			k.selector = otherNames
		}
		if k.target != "" {
			k.target = otherNames
		}
	}
	if opts := old[k]; opts != nil {
		return opts
	}
	labels := []attribute.KeyValue{attribute.String(LabelClient, histogramClient(client))}
	if k.target != "" {
		labels = append(labels, attribute.String(LabelTarget, k.target))
	}
	if k.selector != "" {
		labels = append(labels, attribute.String(LabelSelector, k.selector))
	}
	opts := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(labels...))}
	by := maps.Clone(old)
	if by == nil {
		by = make(map[labelKey][]metric.RecordOption)
	}
	by[k] = opts
	s.by.Store(&by)
	return opts
}
