package callinfo

import "unique"

// DefaultSelector is the name that says "the default selector" wherever a
// selector is named; so does the empty name.
const DefaultSelector = "default"

// Selector returns the handle of a selector's name, the zero handle for the
// default's. Whoever declares selectors and whoever asks for one use it, so that
// a pick compares handles. It allocates only for a name that nobody holds.
func Selector(name string) unique.Handle[string] {
	if name == "" || name == DefaultSelector {
		return unique.Handle[string]{}
	}
	return unique.Make(name)
}
