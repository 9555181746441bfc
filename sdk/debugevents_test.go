package sdk

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/telemetry/debug"
)

// TestEventsFollowLog: what a client logs at Info and above becomes events, with all
// attributes, and goes on to the user's logger as that wants it.
func TestEventsFollowLog(t *testing.T) {
	var log bytes.Buffer
	for _, tt := range []struct {
		name   string
		to     *slog.Logger
		logged []string
	}{
		{"no logger", nil, nil},
		{"warnings", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), []string{"failed"}},
		{"everything", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), []string{"detail", "changed", "failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log.Reset()
			var events debug.Events
			l := slog.New(remember(&events, tt.to)).With("target", "t")
			l.Debug("detail")
			l.Info("changed", "n", 1)
			l.WithGroup("g").With("a", 2).Warn("failed", slog.Group("h", "b", 3), slog.Attr{})
			got := events.Newest()
			if len(got) != 2 || got[1].Kind != "changed" || got[1].Trouble || got[0].Kind != "failed" || !got[0].Trouble || got[0].At.IsZero() {
				t.Fatalf("events %+v", got)
			}
			want := []debug.Attribute{{Name: "target", Value: "t"}, {Name: "g.a", Value: "2"}, {Name: "g.h.b", Value: "3"}}
			if !slices.Equal(got[0].Details, want) {
				t.Errorf("details %v, want %v", got[0].Details, want)
			}
			if n := strings.Count(log.String(), "msg="); n != len(tt.logged) {
				t.Errorf("%d records went on, want %v: %s", n, tt.logged, log.String())
			}
			for _, message := range tt.logged {
				if !strings.Contains(log.String(), "msg="+message+" target=t") {
					t.Errorf("the log lacks %q: %s", message, log.String())
				}
			}
			if want := slices.Contains(tt.logged, "detail"); l.Enabled(context.Background(), slog.LevelDebug) != want {
				t.Errorf("debug records are made: %v, want %v", !want, want)
			}
		})
	}
}
