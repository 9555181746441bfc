package configsource

// Reload is what a reload does with the change of a key.
type Reload string

const (
	// Live has calls that begin afterwards follow the new value. No connection is
	// opened or closed for it unless that is what the key is about.
	Live Reload = "live"
	// Reconnect gives what the key belongs to new connections. Calls in flight end on
	// the old ones.
	Reconnect Reload = "reconnect"
	// AtStart reads the value once. A reload that changes it is refused by name.
	AtStart Reload = "start"
)

func (r Reload) known() bool { return r == Live || r == Reconnect || r == AtStart }

// Key is one key of the configuration, as documentation and tools need it.
type Key struct {
	// Path names it, with [] after lists, as in groups[].targets.
	Path string
	// Kind is what its value is: string, boolean, integer, number, duration, list of
	// strings, object or list of objects.
	Kind string
	// Default is its value when nothing is said, as a file would give it, "" if there
	// is none. DefaultFrom says in words what it is made from where it is no constant.
	Default, DefaultFrom string
	// Allowed is what it may be, in words.
	Allowed string
	// Enum are all its values, where they can be listed.
	Enum []string
	// Min, Above and Max are its limits, "" where there are none.
	Min, Above, Max string
	// Unit is what it counts, "" for durations and what has none.
	Unit string
	// Required says that the object it belongs to has to have it.
	Required bool
	// Reload is what a reload does with a change of it.
	Reload Reload
	// Env is its environment variable without the prefix, with # for the position in a
	// list, as in GROUPS_#_TARGETS.
	Env string
	// Type and Field are the Go names of what holds it, as in Group and Targets.
	Type, Field string
}

// Keys lists every key in the order of the types.
func Keys() []Key {
	var keys []Key
	root().list(&keys, "", "")
	return keys
}

func (o *object) list(keys *[]Key, path, env string) {
	for _, f := range o.fields {
		k := Key{
			Path: path + f.key, Kind: f.kind.String(), DefaultFrom: f.derived, Allowed: f.allowed(), Enum: f.enum,
			Unit: f.unit, Required: f.required, Reload: f.reload, Env: env + envWord(f.key), Field: f.goName,
			Type: o.holder(f),
		}
		if f.standard != nil {
			k.Default = format(f.standard)
		}
		for _, b := range []struct {
			to   *string
			from any
		}{{&k.Min, f.bounds.min}, {&k.Above, f.bounds.above}, {&k.Max, f.bounds.max}} {
			if b.from != nil {
				*b.to = format(b.from)
			}
		}
		*keys = append(*keys, k)
		switch f.kind {
		case kindObject:
			f.elem.list(keys, k.Path+".", k.Env+"_")
		case kindObjects:
			f.elem.list(keys, k.Path+"[].", k.Env+"_#_")
		}
	}
}

// holder is the Go type that a field stands in: another one for what is embedded.
func (o *object) holder(f *field) string {
	typ := o.typ
	for _, i := range f.index[:len(f.index)-1] {
		typ = typ.Field(i).Type
	}
	return typ.Name()
}
