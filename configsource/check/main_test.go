package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checked runs the command.
func checked(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(args, func() []string { return environ }, &out, &errs)
	return code, out.String(), errs.String()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const good = `client: {drainTimeout: 5s}
targets:
- {name: main, uri: "dns:///main:443"}
- {name: standby, uri: "dns:///standby:443"}
groups:
- {name: default, targets: [main, standby]}
`

func TestCheck(t *testing.T) {
	path := file(t, "client.yaml", good)
	bad := file(t, "client.yaml", "client: {drainTimeout: -5s}\ngroups:\n- {name: a, targets: [mian]}\n")
	old := file(t, "old.yaml", strings.NewReplacer("standby:443", "elsewhere:443", "5s", "6s").Replace(good))
	for name, tc := range map[string]struct {
		environ []string
		args    []string
		code    int
		stdout  []string
		stderr  []string
	}{
		"good": {args: []string{path}, stdout: []string{path + " is valid: 2 targets, 1 groups, 0 selectors"}},
		"bad": {args: []string{bad}, code: 1, stderr: []string{
			bad + ":1: client.drainTimeout is -5s; it has to be", bad + `:3: groups[0].targets[0] is "mian"`, bad + ": 2 problems",
		}},
		"bad environment": {
			environ: []string{"SLICEWIRE_CLIENT_KEYS=maybe"}, args: []string{path}, code: 1,
			stderr: []string{`environment variable SLICEWIRE_CLIENT_KEYS: client.keys is "maybe"`, path + ": 1 problem\n"},
		},
		"without the environment": {environ: []string{"SLICEWIRE_CLIENT_KEYS=maybe"}, args: []string{"-env", "", path}, stdout: []string{"is valid"}},
		"another environment":     {environ: []string{"SHOP_CLIENT_KEYS=maybe"}, args: []string{"-env", "SHOP", path}, code: 1, stderr: []string{"SHOP_CLIENT_KEYS"}},
		"explained": {
			environ: []string{"SLICEWIRE_CLIENT_NAME=shop"}, args: []string{"-explain", path},
			stdout: []string{"drainTimeout: 5s", "# " + path + ":1", "# environment variable SLICEWIRE_CLIENT_NAME", "recovery: 1s", "# default"},
		},
		"compared": {args: []string{"-diff", old, path}, stdout: []string{
			"client.drainTimeout: 6s becomes 5s (takes effect at once)\n",
			`targets["standby"].uri: "dns:///elsewhere:443" becomes "dns:///standby:443" (makes new connections)` + "\n",
			"connections stay: main (dns:///main:443)\n", "connections open: standby (dns:///standby:443)\n", "connections close: standby (dns:///elsewhere:443)\n",
		}},
		"compared with itself": {args: []string{"-diff", path, path}, stdout: []string{"nothing changes\nconnections stay: main"}},
		"compared with bad":    {args: []string{"-diff", bad, path}, code: 1, stderr: []string{bad + ": 2 problems"}},
		"no such file":         {args: []string{path + ".yaml"}, code: 1, stderr: []string{"the file cannot be read", "no such file"}},
		"no file":              {code: 2, stderr: []string{"usage: check"}},
		"two files":            {args: []string{path, path}, code: 2, stderr: []string{"usage: check"}},
		"no such flag":         {args: []string{"-x", path}, code: 2, stderr: []string{"usage: check"}},
		"help":                 {args: []string{"-h"}, stderr: []string{"usage: check"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := checked(tc.environ, tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range tc.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("stdout is\n%s\nwant it with\n%s", stdout, want)
				}
			}
			for _, want := range tc.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr is\n%s\nwant it with\n%s", stderr, want)
				}
			}
			if tc.stdout == nil && stdout != "" || tc.stderr == nil && stderr != "" {
				t.Errorf("unasked: stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}
