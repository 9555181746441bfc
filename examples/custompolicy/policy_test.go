package main

import (
	"testing"

	"github.com/slicewire/slicewire/balancer/selection"
)

// A policy needs no client and no server to be tested.
func TestCanary(t *testing.T) {
	anna := selection.NewMember("anna", selection.Info{}, nil)
	bert := selection.NewMember("bert", selection.Info{}, nil)
	view := selection.NewView(anna, bert)
	always := canary{"bert", 100}
	for _, tc := range []struct {
		name   string
		policy canary
		view   selection.View
		want   int
	}{
		{"preferred", always, view, 1},
		{"never", canary{"bert", 0}, view, selection.NoOpinion},
		{"excluded", always, view.Excluding(1), selection.NoOpinion},
		{"not connected", canary{"cleo", 100}, view, selection.NoOpinion},
	} {
		if got := tc.policy.Select(selection.Input{View: tc.view}); got != tc.want {
			t.Errorf("%s: Select = %d, want %d", tc.name, got, tc.want)
		}
	}
	if p := selection.Custom("canary", always); !p.Equal(selection.Custom("canary", canary{"bert", 100})) {
		t.Error("two policies with the same settings are not equal")
	}
}
