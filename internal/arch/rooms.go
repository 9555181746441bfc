package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Room says what one package may import beside the standard library. The table
// is the drawing in docs/rooms.md; an arrow never
// runs back up.
type Room struct {
	// Path is the package, relative to the root.
	Path string
	// Ours are the rooms it may enter.
	Ours []string
	// Outside are the modules of others it may import, as path prefixes.
	Outside []string
	// Pure rooms keep their rules in tests too: nothing of ours comes in to
	// help, so that they can be understood, and lifted out, alone.
	Pure bool
}

// Modules of others that rooms name.
const (
	grpcModule = "google.golang.org/grpc"
	protobuf   = "google.golang.org/protobuf"
	uuid       = "github.com/google/uuid"
	middleware = "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	otel       = "go.opentelemetry.io"
	viper      = "github.com/spf13/viper"
	fsnotify   = "github.com/fsnotify/fsnotify"
	yaml       = "go.yaml.in/yaml/v3"
	toml       = "github.com/pelletier/go-toml/v2"
	reflected  = "github.com/invopop/jsonschema"
	schemas    = "github.com/santhosh-tekuri/jsonschema/v6"
	plot       = "gonum.org/v1/plot"
	browsers   = "github.com/chromedp"
	grafana    = "github.com/grafana/grafana-foundation-sdk/go"
	prometheus = "github.com/prometheus"
)

// What tests may import beyond their room's row: any test the first, tests of
// rooms that are not pure the second too.
var (
	testTools     = []string{"go.uber.org/goleak", "github.com/google/go-cmp"}
	testTransport = []string{grpcModule, protobuf}
)

// Rooms is the plan, from the top down. Rooms that are planned but not yet
// built have their row already.
var Rooms = []Room{
	{
		// Not sdk/sdktest: a fixture has no place in a user's program. Not
		// internal/wire: only the two ends of the protocol speak it.
		Path: "sdk",
		Ours: []string{
			"interceptors", "telemetry", "telemetry/debug", "configsource", "balancer", "balancer/assignment", "balancer/keyrange",
			"balancer/selection", "balancer/admission", "balancer/health", "balancer/failover", "internal/callinfo",
		},
		Outside: []string{grpcModule, protobuf},
	},
	{Path: "sdk/sdktest", Ours: []string{"internal/wire"}, Outside: []string{grpcModule, protobuf}},
	{Path: "interceptors", Ours: []string{"internal/callinfo"}, Outside: []string{grpcModule, protobuf, middleware}},
	{
		Path: "telemetry",
		Ours: []string{
			"balancer", "balancer/assignment", "balancer/selection", "balancer/admission", "balancer/health", "balancer/failover",
			"internal/callinfo",
		},
		Outside: []string{grpcModule, otel},
	},
	{Path: "telemetry/generate", Ours: []string{"telemetry"}}, // a command
	{Path: "telemetry/debug"},                                 // plain values in, pages out
	// Viper gives the values of a file; the parsers that it uses itself give the lines.
	{Path: "configsource", Outside: []string{viper, fsnotify, yaml, toml}, Pure: true},
	{Path: "configsource/check", Ours: []string{"configsource"}},
	// A command and a module of its own: what only makes a schema is not inherited.
	{Path: "configsource/generate", Ours: []string{"configsource"}, Outside: []string{reflected, schemas}},
	{
		Path: "balancer",
		Ours: []string{
			"balancer/assignment", "balancer/keyrange", "balancer/selection", "balancer/admission", "balancer/health",
			"internal/callinfo", "internal/rebuild",
		},
		Outside: []string{grpcModule, protobuf},
	},
	{
		Path:    "balancer/assignment",
		Ours:    []string{"balancer/keyrange", "internal/wire"},
		Outside: []string{grpcModule, protobuf, uuid},
	},
	{Path: "balancer/keyrange", Pure: true},
	{Path: "balancer/selection", Pure: true},
	{Path: "balancer/admission", Pure: true},
	{Path: "balancer/health", Outside: []string{grpcModule}},
	{Path: "balancer/failover", Pure: true},
	{Path: "internal/callinfo"},
	{Path: "internal/rebuild", Pure: true},
	{Path: "internal/wire", Outside: []string{grpcModule, protobuf}},
	{Path: "internal/arch", Pure: true},
	{Path: "internal/bench"}, // builds and runs the next one
	{
		// A command that nobody can import, and a module of its own: a peer it
		// measures needs what users of the SDK shall not inherit.
		Path: "internal/bench/compare",
		Ours: []string{
			"sdk", "sdk/sdktest", "interceptors", "balancer", "balancer/assignment", "balancer/keyrange",
			"balancer/selection", "balancer/admission", "balancer/failover", "internal/callinfo", "internal/wire",
		},
		Outside: []string{grpcModule, protobuf, otel},
	},
	{Path: "internal/linked"}, // tests alone: what may be linked beside us
	// Tests alone, and a module of its own: what speaks with browsers is not inherited.
	{Path: "internal/browsertest", Outside: []string{browsers}},
	// A command and a module of its own, for the sake of what draws the plots. It
	// simulates the policies that one of them compares.
	{Path: "docs/figures", Ours: []string{"balancer/selection"}, Outside: []string{plot}, Pure: true},
	// A command and a module of its own. Its tests parse queries as Prometheus does, and
	// show metrics by OpenTelemetry's own exporter.
	{Path: "grafana", Outside: []string{grafana, prometheus, otel, yaml}, Pure: true},
}

// CheckArrows returns every import that the table does not allow, and every
// package that it does not know.
func CheckArrows(packages []*Package, rooms []Room) []string {
	var problems []string
	for _, p := range packages {
		room := findRoom(rooms, p.Path)
		switch {
		case isExample(p.Path):
			problems = append(problems, checkExample(p)...)
		case room == nil:
			problems = append(problems, fmt.Sprintf(
				"package %s has no row in internal/arch/rooms.go; add one that says what it may import", p.Path))
		default:
			problems = append(problems, checkRoom(p, room)...)
		}
	}
	return problems
}

func findRoom(rooms []Room, path string) *Room {
	i := slices.IndexFunc(rooms, func(r Room) bool { return r.Path == path })
	if i < 0 {
		return nil
	}
	return &rooms[i]
}

// checkRoom applies a row. Tests of a room that is not pure may enter any room,
// for sdktest and the rooms above are what a behaviour is tested through.
func checkRoom(p *Package, room *Room) []string {
	var problems []string
	for _, imp := range p.Imports {
		if !room.allows(imp) {
			problems = append(problems, room.refusal(p, "", imp))
		}
	}
	for _, imp := range p.TestImports {
		_, ours := relative(imp)
		switch {
		case imp == Module+"/"+p.Path, room.allows(imp), hasPrefix(imp, testTools):
		case !room.Pure && (ours || hasPrefix(imp, testTransport)):
		default:
			problems = append(problems, room.refusal(p, "in a test ", imp))
		}
	}
	return problems
}

func (r *Room) allows(imp string) bool {
	if rel, ours := relative(imp); ours {
		return slices.Contains(r.Ours, rel)
	}
	return isStandard(imp) || hasPrefix(imp, r.Outside)
}

func (r *Room) refusal(p *Package, where, imp string) string {
	allowed := slices.Concat(r.Ours, r.Outside)
	may := "the standard library alone"
	if len(allowed) > 0 {
		may = "beside the standard library " + strings.Join(allowed, ", ")
	}
	return fmt.Sprintf("package %s %simports %s; it may import %s (internal/arch/rooms.go)", p.Path, where, imp, may)
}

// checkExample: a user must be able to copy an example, so it imports nothing
// that a user cannot, and nothing of another example.
func checkExample(p *Package) []string {
	var problems []string
	for _, imp := range slices.Concat(p.Imports, p.TestImports) {
		rel, ours := relative(imp)
		switch {
		case !ours, exampleOf(rel) == exampleOf(p.Path) && isExample(rel):
		case isExample(rel):
			problems = append(problems, fmt.Sprintf("example %s imports another example, %s; each must stand alone", p.Path, imp))
		case slices.Contains(strings.Split(rel, "/"), "internal"):
			problems = append(problems, fmt.Sprintf(
				"example %s imports %s, which a user's module cannot; use a public package", p.Path, imp))
		}
	}
	return problems
}

func isExample(path string) bool { return strings.HasPrefix(path, "examples/") }

// exampleOf is the first two elements of a path: examples/NAME.
func exampleOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// relative is an import path within the module, relative to its root.
func relative(imp string) (string, bool) {
	if imp == Module {
		return ".", true
	}
	return strings.CutPrefix(imp, Module+"/")
}

// isStandard reports whether imp belongs to the standard library: its first
// element is no host name. "C" is refused by being no room's business.
func isStandard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") && imp != "C"
}

// hasPrefix reports whether imp is, or lies under, one of the modules.
func hasPrefix(imp string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		rest, ok := strings.CutPrefix(imp, m)
		return ok && (rest == "" || rest[0] == '/')
	})
}

// CheckDocs returns every package whose comment does not say what it is, what
// belongs there and who may import it. Nobody can import a command, so there
// the first is enough.
func CheckDocs(packages []*Package) []string {
	var problems []string
	for _, p := range packages {
		if p.Name == "" {
			continue // tests only
		}
		doc := strings.ToLower(strings.Join(strings.Fields(p.Doc), " "))
		var missing []string
		if doc == "" {
			missing = append(missing, "what it is")
		}
		if p.Name != "main" {
			if !strings.Contains(doc, "what belongs here") {
				missing = append(missing, `"What belongs here"`)
			}
			if !strings.Contains(doc, "who may import it") {
				missing = append(missing, `"Who may import it"`)
			}
		}
		if len(missing) > 0 {
			problems = append(problems, fmt.Sprintf("the package comment of %s does not say %s", p.Path, strings.Join(missing, " nor ")))
		}
	}
	return problems
}
