package main

import "testing"

// TestRunHandsOn: arguments reach the comparison, and its exit code comes back.
func TestRunHandsOn(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the comparison")
	}
	for name, tc := range map[string]struct {
		args []string
		code int
	}{
		"help":      {[]string{"-h"}, 0},
		"no family": {[]string{"-only", "^no such family$"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			code, err := run(tc.args)
			if err != nil || code != tc.code {
				t.Errorf("exit code %d, %v; want %d", code, err, tc.code)
			}
		})
	}
}
