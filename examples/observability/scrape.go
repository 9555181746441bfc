package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/slicewire/slicewire/telemetry"
)

// scraper reads our own /metrics over HTTP, as Prometheus does, so that what is said
// here is what a dashboard can show.
type scraper struct {
	url string
	now scrape
	// seen are the metrics that were not 0 in some scrape.
	seen map[string]bool
}

// scrape is the metrics of one scrape by name.
type scrape map[string]*dto.MetricFamily

func (s *scraper) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", s.url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if s.now, err = parser.TextToMetricFamilies(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", s.url, err)
	}
	for name, family := range s.now {
		for _, m := range family.GetMetric() {
			if valueOf(m) != 0 {
				s.seen[name] = true
			}
		}
	}
	return nil
}

// valueOf is the value of a series; of a histogram how often something was noted.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	default:
		return m.GetUntyped().GetValue()
	}
}

// sum adds up the series of a metric that have the labels, in pairs of name and
// value. It is false if there are none.
func (s scrape) sum(metric string, labels []string) (total float64, found bool) {
	for _, m := range s[metric].GetMetric() {
		if !hasLabels(m, labels) {
			continue
		}
		total += valueOf(m)
		found = true
	}
	return total, found
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for pair := range slices.Chunk(labels, 2) {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == pair[0] && l.GetValue() == pair[1]
		}) {
			return false
		}
	}
	return true
}

// sign is what has to be seen in a metric.
type sign struct {
	metric string
	labels []string
	how    change
}

type change uint8

const (
	rise change = iota // it grows
	some               // it is above 0
	none               // it is 0
)

// rises is a counter or a histogram that grows; appears a gauge that is above 0;
// vanishes one that is 0. Labels are pairs of name and value.
func rises(metric string, labels ...string) sign    { return sign{metric, labels, rise} }
func appears(metric string, labels ...string) sign  { return sign{metric, labels, some} }
func vanishes(metric string, labels ...string) sign { return sign{metric, labels, none} }

// in says whether the sign is seen in a scrape that came after another one, and how.
func (g sign) in(now, before scrape) (string, bool) {
	v, found := now.sum(g.metric, g.labels)
	switch g.how {
	case rise:
		was, _ := before.sum(g.metric, g.labels)
		return fmt.Sprintf("%v +%v", g, v-was), v > was
	case some:
		return fmt.Sprintf("%v is %v", g, v), v > 0
	default:
		return fmt.Sprintf("%v is %v", g, v), found && v == 0
	}
}

// String is the sign as a query.
func (g sign) String() string {
	var labels []string
	for pair := range slices.Chunk(g.labels, 2) {
		labels = append(labels, fmt.Sprintf("%s=%q", pair[0], pair[1]))
	}
	if len(labels) == 0 {
		return g.metric
	}
	return g.metric + "{" + strings.Join(labels, ",") + "}"
}

// unseen are the instruments of Slicewire that were 0, or absent, in all scrapes. This
// client has its settings from code alone, and so shows nothing of a configuration.
func (s *scraper) unseen() (list []string) {
	for _, i := range telemetry.Instruments() {
		if i.Topic != "Configuration" && !slices.ContainsFunc(exported(i.Name), func(name string) bool { return s.seen[name] }) {
			list = append(list, i.Name)
		}
	}
	return list
}

// exported is what an instrument may be called in Prometheus: its exporter puts the
// unit and the kind behind the name.
func exported(instrument string) (names []string) {
	name := strings.ReplaceAll(instrument, ".", "_")
	for _, unit := range []string{"", "_seconds", "_bytes"} {
		names = append(names, name+unit, name+unit+"_total")
	}
	return names
}
