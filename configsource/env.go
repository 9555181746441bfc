package configsource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DefaultPrefix is what the names of environment variables begin with.
const DefaultPrefix = "SLICEWIRE"

// FileVariable is the environment variable that names the file where code names
// none. Env does not take it for a key.
const FileVariable = "SLICEWIRE_CONFIG"

// Env reads environment variables: one for each key, by one rule. The name is the
// prefix and the path, in capitals, with an underscore before each key, each
// position in a list, and each capital of a key:
//
//	client.drainTimeout     SLICEWIRE_CLIENT_DRAIN_TIMEOUT=5s
//	groups[0].targets[1]    SLICEWIRE_GROUPS_0_TARGETS_1=standby
//	groups[0].targets       SLICEWIRE_GROUPS_0_TARGETS=main,standby
//	groups                  SLICEWIRE_GROUPS=[{"name":"read","targets":["main"]}]
//
// A position is that in the list of the sources below, or just behind its end,
// which makes the list longer. Lists and objects are given whole as JSON; a list of
// strings may be given with commas too. Shorter names count first, so that an
// element may be changed in a list that is given whole. An empty variable says
// nothing. A variable that begins with the prefix and is no key is a problem, but
// for [FileVariable] and what Kubernetes sets for a service of that name.
//
// An empty prefix stands for [DefaultPrefix]. The environment is read by each Load
// and does not change by itself.
func Env(prefix string) Source { return source{stack{newEnv(prefix, os.Environ)}} }

// EnvFrom is [Env] of variables that environ gives, as os.Environ does.
func EnvFrom(prefix string, environ func() []string) Source {
	return source{stack{newEnv(prefix, environ)}}
}

type env struct {
	prefix  string
	environ func() []string
}

func newEnv(prefix string, environ func() []string) *env {
	return &env{cmp.Or(strings.TrimSuffix(prefix, "_"), DefaultPrefix) + "_", environ}
}

func (e *env) read(context.Context) (reading, error) {
	var found []assignment
	h := sha256.New()
	all := slices.Clone(e.environ())
	slices.Sort(all)
	for _, pair := range all {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, e.prefix)
		if !ours || name == FileVariable || value == "" {
			continue
		}
		steps, f := findEnv(root(), strings.Split(rest, "_"))
		if steps == nil && byKubernetes.MatchString(rest) {
			continue
		}
		fmt.Fprintf(h, "%q=%q\n", name, value)
		found = append(found, assignment{name: name, rest: rest, value: value, steps: steps, field: f})
	}
	slices.SortStableFunc(found, compareAssignments)
	return reading{layer: assignments(found), hash: [32]byte(h.Sum(nil))}, nil
}

func (e *env) wake(ctx context.Context, _ func()) error { return wait(ctx) }

// byKubernetes are the variables that it sets in every container for a service
// called slicewire.
var byKubernetes = regexp.MustCompile(`^(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// step is a key, or a position in a list if there is none.
type step struct {
	key   string
	index int
}

// findEnv is the path that the words of a variable's name give, and the field at its
// end. Keys are tried with all the words they may have; no two paths have the same
// words, which a test holds.
func findEnv(o *object, words []string) ([]step, *field) {
	for _, f := range o.fields {
		own := strings.Split(envWord(f.key), "_")
		if len(own) > len(words) || !slices.Equal(own, words[:len(own)]) {
			continue
		}
		rest, steps := words[len(own):], []step{{key: f.key}}
		if len(rest) == 0 {
			return steps, f
		}
		inner := f.elem
		if f.kind == kindObjects || f.kind == kindStrings {
			index, err := strconv.Atoi(rest[0])
			if err != nil || index < 0 || strconv.Itoa(index) != rest[0] {
				continue
			}
			steps, rest = append(steps, step{index: index}), rest[1:]
			if len(rest) == 0 {
				return steps, f
			}
		}
		if inner == nil {
			continue
		}
		if more, last := findEnv(inner, rest); more != nil {
			return append(steps, more...), last
		}
	}
	return nil, nil
}

// assignment is one variable.
type assignment struct {
	name, rest, value string
	steps             []step // nil if the name is no key's
	field             *field
}

// compareAssignments puts whole lists before their elements, and elements in the
// order of their positions.
func compareAssignments(a, b assignment) int {
	return slices.CompareFunc(a.steps, b.steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.index, y.index))
	})
}

// envWord is a key as part of a variable's name: drainTimeout is DRAIN_TIMEOUT.
func envWord(key string) string {
	var b strings.Builder
	for _, c := range key {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return strings.ToUpper(b.String())
}
