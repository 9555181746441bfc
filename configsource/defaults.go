package configsource

import (
	"reflect"
	"slices"
	"time"
)

// Default is what holds when nothing is said: [Config.WithDefaults] of the zero
// Config.
func Default() Config { return Config{}.WithDefaults() }

// WithDefaults is a copy of c in which every value that nothing was said about has
// its default, if it has one. What is off when left out, such as a breaker, stays
// off.
func (c Config) WithDefaults() Config {
	out := c.Clone()
	fillDefaults(root(), reflect.ValueOf(&out).Elem())
	for i := range out.Groups {
		g := &out.Groups[i]
		or(&g.InitialGrace, min(*g.Recovery, time.Second))
		or(&g.MinUptime, *g.Recovery)
		or(&g.Selector, defaultName)
	}
	for _, p := range out.probings() {
		or(&p.Timeout, min(time.Second, *p.Interval))
	}
	if cs := out.Connections; cs != nil {
		or(&cs.Max, max(1, *cs.Min))
	}
	out.defaultTargets()
	return out
}

// defaultName is the name of the default selector.
const defaultName = "default"

// defaultTargets keeps one endpoint connected of each target that a group could move
// to, and holds targets for as long as their calls count.
func (c *Config) defaultTargets() {
	standby := make(map[string]bool)
	for _, g := range c.Groups {
		if len(g.Targets) < 2 {
			continue
		}
		for _, name := range g.Targets {
			standby[name] = true
		}
	}
	alone := 0
	if c.Connections != nil {
		alone = *c.Connections.MinReady
	}
	for i := range c.Targets {
		t := &c.Targets[i]
		if standby[t.Name] {
			or(&t.MinReady, 1)
		} else {
			or(&t.MinReady, alone)
		}
		if r := t.ErrorRatio; r != nil {
			or(&r.Hold, *r.Window)
		}
	}
}

func (c *Config) probings() []*Probing {
	var ps []*Probing
	if c.Health != nil {
		ps = append(ps, &c.Health.Probing)
	}
	if c.Monitor != nil {
		ps = append(ps, c.Monitor)
	}
	return ps
}

func or[T any](v **T, otherwise T) {
	if *v == nil {
		*v = &otherwise
	}
}

// fillDefaults sets what nothing was said about and has a constant default.
func fillDefaults(o *object, into reflect.Value) {
	for _, f := range o.fields {
		v, said := f.get(into)
		switch {
		case f.kind == kindObject && said:
			fillDefaults(f.elem, v)
		case f.kind == kindObjects:
			for i := range v.Len() {
				fillDefaults(f.elem, v.Index(i))
			}
		case !said && f.standard != nil && f.applies(o, into):
			f.set(into, f.standard)
		}
	}
}

// applies says whether the key has a meaning beside the others of its object.
func (f *field) applies(o *object, holder reflect.Value) bool {
	if f.only.key == "" {
		return true
	}
	v, _ := o.byKey[f.only.key].get(holder)
	return slices.Contains(f.only.values, v.String())
}

// Clone is a copy of c that shares nothing with it.
func (c Config) Clone() Config {
	return cloneValue(reflect.ValueOf(c)).Interface().(Config)
}

func cloneValue(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(cloneValue(v.Elem()))
		return out
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(cloneValue(v.Index(i)))
		}
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			out.Field(i).Set(cloneValue(v.Field(i)))
		}
		return out
	}
	return v
}

// fillOf sets the constant defaults of one struct of a Config.
func fillOf[T any](v *T) { fillDefaults(newObject(reflect.TypeFor[T]()), reflect.ValueOf(v).Elem()) }
