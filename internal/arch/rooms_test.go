package arch

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// tree is the project as it lies on disk.
func tree(t *testing.T) (root string, packages []*Package) {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err = Root(wd)
	if err != nil {
		t.Fatal(err)
	}
	packages, err = Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return root, packages
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

func TestImportArrows(t *testing.T) {
	_, packages := tree(t)
	report(t, CheckArrows(packages, Rooms))
}

func TestPackageComments(t *testing.T) {
	_, packages := tree(t)
	report(t, CheckDocs(packages))
}

// TestLoadSeesTheTree keeps the checks above from passing on nothing.
func TestLoadSeesTheTree(t *testing.T) {
	_, packages := tree(t)
	i := slices.IndexFunc(packages, func(p *Package) bool { return p.Path == "internal/wire" })
	if i < 0 {
		t.Fatal("internal/wire was not loaded")
	}
	p := packages[i]
	if !slices.Contains(p.Imports, "google.golang.org/grpc") || p.Doc == "" || p.Name != "wire" {
		t.Errorf("internal/wire was read as name %q, doc %q, imports %q", p.Name, p.Doc, p.Imports)
	}
	if !slices.Contains(p.Tests, "TestGoldenBytes") || slices.Contains(p.Tests, "TestMain") {
		t.Errorf("internal/wire was read with tests %q", p.Tests)
	}
}

// TestArrowsRefused feeds each rule one import that breaks it, and its twin
// that does not.
func TestArrowsRefused(t *testing.T) {
	ours := func(rel string) string { return Module + "/" + rel }
	for _, tt := range []struct {
		name    string
		path    string
		imports string // one import
		test    bool   // imported by a test file
		want    string // part of the refusal; "" means allowed
	}{
		{"sdk enters balancer", "sdk", ours("balancer"), false, ""},
		{"sdk enters interceptors", "sdk", ours("interceptors"), false, ""},
		{"sdk ships no fixture", "sdk", ours("sdk/sdktest"), false, "package sdk imports"},
		{"sdk's tests use the fixture", "sdk", ours("sdk/sdktest"), true, ""},
		{"sdk speaks no protocol", "sdk", ours("internal/wire"), false, "package sdk imports"},
		{"sdk knows no OTel", "sdk", "go.opentelemetry.io/otel/metric", false, "go.opentelemetry.io"},
		{"sdktest speaks the protocol", "sdk/sdktest", ours("internal/wire"), false, ""},
		{"sdktest stands without sdk", "sdk/sdktest", ours("sdk"), false, "package sdk/sdktest imports"},
		{"sdktest stands without balancer", "sdk/sdktest", ours("balancer"), false, "package sdk/sdktest imports"},
		{"sdktest stands without testing libraries", "sdk/sdktest", "github.com/google/go-cmp/cmp", false, "go-cmp"},
		{"interceptors write callinfo", "interceptors", ours("internal/callinfo"), false, ""},
		{"interceptors stand on go-grpc-middleware", "interceptors", middleware + "/interceptors/retry", false, ""},
		{"interceptors know no balancer", "interceptors", ours("balancer"), false, "package interceptors imports"},
		{"telemetry reads balancer", "telemetry", ours("balancer"), false, ""},
		{"telemetry knows OTel", "telemetry", "go.opentelemetry.io/otel", false, ""},
		{"telemetry knows no sdk", "telemetry", ours("sdk"), false, "package telemetry imports"},
		{"configsource knows viper", "configsource", viper, false, ""},
		{"configsource knows no grpc", "configsource", grpcModule + "/codes", false, "google.golang.org/grpc/codes"},
		{"configsource knows no balancer", "configsource", ours("balancer"), false, "package configsource imports"},
		{"balancer enters assignment", "balancer", ours("balancer/assignment"), false, ""},
		{"balancer speaks no protocol", "balancer", ours("internal/wire"), false, "package balancer imports"},
		{"balancer knows no sdk", "balancer", ours("sdk"), false, "package balancer imports"},
		{"balancer knows no interceptors", "balancer", ours("interceptors"), false, "package balancer imports"},
		{"balancer knows no telemetry", "balancer", ours("telemetry"), false, "package balancer imports"},
		{"balancer knows no OTel", "balancer", "go.opentelemetry.io/otel", false, "go.opentelemetry.io"},
		{"balancer knows no viper", "balancer", viper, false, "viper"},
		{"balancer's tests use the fixture", "balancer", ours("sdk/sdktest"), true, ""},
		{"assignment enters keyrange", "balancer/assignment", ours("balancer/keyrange"), false, ""},
		{"assignment speaks the protocol", "balancer/assignment", ours("internal/wire"), false, ""},
		{"assignment knows no balancer", "balancer/assignment", ours("balancer"), false, "package balancer/assignment imports"},
		{"assignment knows no selection", "balancer/assignment", ours("balancer/selection"), false, "package balancer/assignment imports"},
		{"keyrange is std alone", "balancer/keyrange", "slices", false, ""},
		{"keyrange knows no grpc", "balancer/keyrange", grpcModule, false, "the standard library alone"},
		{"keyrange knows no wire", "balancer/keyrange", ours("internal/wire"), false, "the standard library alone"},
		{"keyrange's tests bring nothing of ours", "balancer/keyrange", ours("sdk/sdktest"), true, "in a test"},
		{"keyrange's tests bring no grpc", "balancer/keyrange", grpcModule, true, "in a test"},
		{"keyrange's tests compare with go-cmp", "balancer/keyrange", "github.com/google/go-cmp/cmp", true, ""},
		{"keyrange's tests import keyrange", "balancer/keyrange", ours("balancer/keyrange"), true, ""},
		{"selection knows no transport", "balancer/selection", grpcModule + "/balancer", false, "package balancer/selection imports"},
		{"selection knows no config", "balancer/selection", ours("configsource"), false, "package balancer/selection imports"},
		{"failover knows nothing", "balancer/failover", ours("balancer/health"), false, "package balancer/failover imports"},
		{"health probes through grpc", "balancer/health", grpcModule + "/health/grpc_health_v1", false, ""},
		{"health knows no balancer", "balancer/health", ours("balancer"), false, "package balancer/health imports"},
		{"callinfo imports no other room", "internal/callinfo", ours("balancer"), false, "package internal/callinfo imports"},
		{"wire interprets nothing", "internal/wire", ours("balancer/assignment"), false, "package internal/wire imports"},
		{"nobody enters arch", "sdk", ours("internal/arch"), false, "package sdk imports"},
		{"nobody enters an example", "sdk", ours("examples/quickstart"), false, "package sdk imports"},
		{"a prefix is no module", "telemetry", "go.opentelemetry.io.evil/x", false, "package telemetry imports"},
		{"unknown modules are refused", "sdk", "example.com/left/pad", false, "example.com/left/pad"},
		{"unknown modules are refused in tests", "sdk", "example.com/left/pad", true, "in a test"},
		{"cgo is refused", "balancer/keyrange", "C", false, "imports C"},
		{"a new package needs a row", "balancer/quota", "fmt", false, "package balancer/quota has no row in internal/arch/rooms.go; add one"},
		{"a package at the root needs a row", ".", "fmt", false, "package . has no row"},
		{"an example uses sdk", "examples/quickstart", ours("sdk"), false, ""},
		{"an example uses the fixture", "examples/quickstart", ours("sdk/sdktest"), false, ""},
		{"an example imports anything of others", "examples/quickstart", "go.opentelemetry.io/otel", false, ""},
		{"an example has parts", "examples/demo/web", ours("examples/demo/internal/pages"), false, ""},
		{"an example uses no internals", "examples/quickstart", ours("internal/wire"), false, "a user's module cannot"},
		{"an example's test uses no internals", "examples/quickstart", ours("internal/wire"), true, "a user's module cannot"},
		{"an example uses no nested internals", "examples/quickstart", ours("sdk/internal/x"), false, "a user's module cannot"},
		{"an example stands alone", "examples/quickstart", ours("examples/sharded"), false, "each must stand alone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &Package{Path: tt.path, Name: "x", Imports: []string{tt.imports}}
			if tt.test {
				p.Imports, p.TestImports = nil, p.Imports
			}
			problems := CheckArrows([]*Package{p}, Rooms)
			switch {
			case tt.want == "" && len(problems) > 0:
				t.Errorf("refused: %q", problems)
			case tt.want != "" && len(problems) != 1:
				t.Errorf("got %d refusals %q, want one with %q", len(problems), problems, tt.want)
			case tt.want != "" && !strings.Contains(problems[0], tt.want):
				t.Errorf("refusal %q does not contain %q", problems[0], tt.want)
			}
		})
	}
}

// TestRoomsHaveNoCycle: an arrow never runs back up, not even by two rows.
func TestRoomsHaveNoCycle(t *testing.T) {
	const (
		open   = 1
		closed = 2
	)
	state := map[string]int{}
	var visit func(path string, trail []string)
	visit = func(path string, trail []string) {
		trail = append(trail, path)
		switch state[path] {
		case open:
			t.Errorf("rooms form a circle: %s", strings.Join(trail, " -> "))
			return
		case closed:
			return
		}
		state[path] = open
		room := findRoom(Rooms, path)
		if room == nil {
			t.Errorf("%s allows %s, which has no row", trail[max(0, len(trail)-2)], path)
			return
		}
		for _, next := range room.Ours {
			visit(next, trail)
		}
		state[path] = closed
	}
	for _, r := range Rooms {
		visit(r.Path, nil)
	}
}

func TestDocsRefused(t *testing.T) {
	const good = "Package x is x.\n\nWhat belongs here: x. Who may\nimport it: nobody.\n"
	for _, tt := range []struct {
		name string
		p    Package
		want string
	}{
		{"good", Package{Path: "x", Name: "x", Doc: good}, ""},
		{"no comment", Package{Path: "x", Name: "x"}, "does not say what it is"},
		{"nothing on what belongs here", Package{Path: "x", Name: "x", Doc: "Package x is x. Who may import it: y."}, `"What belongs here"`},
		{"nothing on who may import it", Package{Path: "x", Name: "x", Doc: "Package x is x. What belongs here: x."}, `"Who may import it"`},
		{"a command needs a comment", Package{Path: "x", Name: "main"}, "does not say what it is"},
		{"a command is imported by nobody", Package{Path: "x", Name: "main", Doc: "Command x runs."}, ""},
		{"tests alone need none", Package{Path: "x"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems := strings.Join(CheckDocs([]*Package{&tt.p}), "\n")
			if (tt.want == "") != (problems == "") || !strings.Contains(problems, tt.want) {
				t.Errorf("got %q, want %q", problems, tt.want)
			}
		})
	}
}
