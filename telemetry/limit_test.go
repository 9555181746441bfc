package telemetry_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/telemetry"
)

// TestStormsOfLogs: of records that say the same most are left out, and counted; others
// are not in their way.
func TestStormsOfLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := slog.New(telemetry.LimitLogs(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		lines := func(what string) int { return strings.Count(out.String(), "msg="+what) }
		for range 1000 {
			l.Warn("storm")
			l.Debug("detail")
		}
		l.Warn("another")
		l.With("target", "t").Warn("storm")
		l.WithGroup("g").Warn("storm") // the same logger's
		if lines("storm") != 21 || lines("detail") != 1000 || lines("another") != 1 {
			t.Errorf("%d of the storm, %d details and %d others came through", lines("storm"), lines("detail"), lines("another"))
		}
		out.Reset()
		time.Sleep(3 * time.Second)
		for range 10 {
			l.Warn("storm")
		}
		if got := out.String(); lines("storm") != 3 || !strings.Contains(got, "suppressed=981") {
			t.Errorf("3 s later came\n%s", got)
		}
	})
}

// TestStormsOfEvents: of many control events few become spans, and the next one says how many
// were left out.
func TestStormsOfEvents(t *testing.T) {
	e := openEyes(t)
	r, err := telemetry.New(telemetry.Options{MeterProvider: e.meters, TracerProvider: e.traces})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	began := time.Now()
	for i := range 1000 {
		r.Switched("g", "a", "b", failover.Lost, began.Add(time.Duration(i)))
	}
	if n := len(e.spansNamed(telemetry.EventFailover)); n != 20 {
		t.Errorf("there are %d spans, want 20", n)
	}
	r.Switched("g", "a", "b", failover.Lost, began.Add(time.Minute))
	spans := e.spansNamed(telemetry.EventFailover)
	if got := spanAttributes(spans[len(spans)-1].Attributes())["slicewire.suppressed"]; got != "980" {
		t.Errorf("the next span says that %q were left out, want 980", got)
	}
}

// TestTooManyNames: a program that declares ever new names gets one label for the rest.
func TestTooManyNames(t *testing.T) {
	e := openEyes(t)
	r, err := telemetry.New(telemetry.Options{MeterProvider: e.meters, TracerProvider: e.traces, Client: "names"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Show(fixed{})
	for i := range 1000 {
		r.KeyMissing(fmt.Sprintf("selector-%d", i))
		r.ConfigApplied(fmt.Sprintf("source-%d", i), "accepted", 1, nil)
	}
	all := e.collect(t)
	for _, c := range []struct{ name, label string }{{"slicewire.key.missing", "selector"}, {"slicewire.config.applies", "source"}} {
		list := all[c.name]
		if len(list) != 257 || total(list) != 1000 || total(list, c.label, "other") != 744 {
			t.Errorf("%s has %d series, which add up to %v, of which %v are others", c.name, len(list), total(list), total(list, c.label, "other"))
		}
	}
}
