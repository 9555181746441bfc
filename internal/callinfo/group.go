package callinfo

import "unique"

// Group returns the handle of a group's name, the zero handle for "", which is the
// default group's. Whoever declares groups and whoever asks for one use it, so that
// a call compares handles. It allocates only for a name that nobody holds.
func Group(name string) unique.Handle[string] {
	if name == "" {
		return unique.Handle[string]{}
	}
	return unique.Make(name)
}
