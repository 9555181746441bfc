package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	metricsOf = flag.String("metrics", "", "URL of the metrics of a process to scrape; empty: an exporter in the test that shows every metric of the table")
	firing    = flag.String("firing", "SlicewireConfigRefused,SlicewireAssignmentsRefused", "alerts that shall fire on what the process shows")
	patience  = flag.Duration("patience", time.Minute, "how long to wait for what a scrape shall show")
)

// TestScrapeFillsDashboards: a real Prometheus scrapes a process, and every query of every
// panel gives something that is not zero sooner or later, as do the variables; the process
// shows every metric with the labels that queries name, and no other metric of ours. Alerts
// that need no long time fire (field case TE-11).
func TestScrapeFillsDashboards(t *testing.T) {
	address := *metricsOf
	if address == "" {
		address = exporter(t)
	}
	s := serve(t, address)
	if t.Failed() {
		return
	}
	var wanted []wish
	for file, d := range checkedIn(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				wanted = append(wanted, wish{file + ", panel " + p.Title, func() error { return s.notZero(concrete(target.Expr)) }})
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				wanted = append(wanted, wish{file + ", variable " + v.Name, func() error { return s.hasValues(v.Query) }})
			}
		}
	}
	for _, m := range metrics {
		for _, name := range m.series() {
			wanted = append(wanted, wish{"metric " + name, func() error { return s.hasLabels(name, m) }})
		}
	}
	// What is there for a moment only, as faults come and go, counts: each wish is tried
	// until it comes true once.
	eventually(t, "all of it was seen", func() error {
		var missing []error
		wanted = slices.DeleteFunc(wanted, func(w wish) bool {
			err := w.try()
			if err != nil {
				missing = append(missing, fmt.Errorf("%s: %w", w.what, err))
			}
			return err == nil
		})
		return errors.Join(missing...)
	})
	s.checkNames(t)
	s.checkRules(t)
	for _, name := range strings.Split(*firing, ",") {
		eventually(t, name+" fires", func() error { return s.fires(name) })
	}
}

// wish is something that shall be seen once.
type wish struct {
	what string
	try  func() error
}

// notZero: a query has a result that is a number, and not 0.
func (s *server) notZero(expr string) error {
	result, err := s.query(expr)
	if err != nil {
		return err
	}
	for _, r := range result {
		if f := r.float(); f != 0 && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return nil
		}
	}
	return fmt.Errorf("%s has %d results, none above zero", expr, len(result))
}

// hasValues: a variable's query, label_values(series, label), gives something.
func (s *server) hasValues(ask string) error {
	parts := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(ask)
	if parts == nil {
		return fmt.Errorf("%q is not label_values(series, label)", ask)
	}
	var values []string
	if err := s.ask("/api/v1/label/"+parts[2]+"/values", url.Values{"match[]": {concrete(parts[1])}}, &values); err != nil {
		return err
	}
	if len(values) == 0 {
		return fmt.Errorf("%s finds nothing", ask)
	}
	return nil
}

// hasLabels: a series is there, with all labels of the table; grpc.method is there only if
// a process asks for it, and no query names it.
func (s *server) hasLabels(name string, m *instrument) error {
	result, err := s.query(name)
	if err != nil {
		return err
	}
	if len(result) == 0 {
		return errors.New("it is not there")
	}
	for _, l := range m.Labels {
		if _, ok := result[0].Metric[underscored(l)]; !ok && l != "grpc.method" {
			return fmt.Errorf("it has no label %s: %v", l, result[0].Metric)
		}
	}
	return nil
}

// fires: an alert does.
func (s *server) fires(name string) error {
	var now struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := s.ask("/api/v1/alerts", nil, &now); err != nil {
		return err
	}
	for _, a := range now.Alerts {
		if a.Labels["alertname"] == name && a.State == "firing" {
			return nil
		}
	}
	return fmt.Errorf("of %d alerts that are pending or firing it is none", len(now.Alerts))
}

// checkNames: what is scraped and ours is in the table.
func (s *server) checkNames(t *testing.T) {
	var names []string
	if err := s.ask("/api/v1/label/__name__/values", nil, &names); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range metrics {
		for _, name := range m.series() {
			known[name] = true
		}
	}
	for _, name := range names {
		ours := strings.HasPrefix(name, "slicewire_") || strings.HasPrefix(name, "grpc_client_") && strings.Contains(name, "_delay_")
		if ours && !known[name] {
			t.Errorf("the process shows %s, which is not in metrics.json and so on no dashboard", name)
		}
	}
}

// checkRules: Prometheus has evaluated every alert, without an error.
func (s *server) checkRules(t *testing.T) {
	want := slices.Sorted(maps.Keys(alerts(t)))
	eventually(t, "Prometheus has evaluated every alert", func() error {
		var loaded struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := s.ask("/api/v1/rules", nil, &loaded); err != nil {
			return err
		}
		var healthy []string
		for _, g := range loaded.Groups {
			for _, r := range g.Rules {
				if r.Health != "ok" {
					return fmt.Errorf("alert %s is %s: %s", r.Name, r.Health, r.LastError)
				}
				healthy = append(healthy, r.Name)
			}
		}
		if slices.Sort(healthy); !slices.Equal(healthy, want) {
			return fmt.Errorf("it has %q, want %q", healthy, want)
		}
		return nil
	})
}
