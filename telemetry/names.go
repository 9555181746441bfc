package telemetry

import (
	"strconv"
	"sync"
)

// clientNames are the values of the label "client" that are taken. A name that is
// free again is used again, so that clients which come and go do not make ever new
// series.
var clientNames = struct {
	mu    sync.Mutex
	taken map[string]bool
}{taken: make(map[string]bool)}

// takeName returns want, or with a number behind it where a client has that name; ""
// stands for client-1 and so on.
func takeName(want string) string {
	clientNames.mu.Lock()
	defer clientNames.mu.Unlock()
	name := want
	base, n := want, 2
	if want == "" {
		base, n, name = "client", 2, "client-1"
	}
	for ; clientNames.taken[name]; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	clientNames.taken[name] = true
	return name
}

func releaseName(name string) {
	clientNames.mu.Lock()
	defer clientNames.mu.Unlock()
	delete(clientNames.taken, name)
}
