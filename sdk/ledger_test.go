package sdk_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
)

// ledger is an admission that admits everything and keeps account of tokens.
type ledger struct {
	next   atomic.Uint64
	during atomic.Pointer[func(endpoint string)] // runs inside the next pick

	mu     sync.Mutex // guards what follows
	open   map[admission.Token]string
	faults []string
	kinds  map[admission.Kind]int
}

func newLedger() *ledger {
	return &ledger{open: make(map[admission.Token]string), kinds: make(map[admission.Kind]int)}
}

func (l *ledger) Guard(endpoint string) admission.Guard { return ledgerGuard{l, endpoint} }

type ledgerGuard struct {
	*ledger
	endpoint string
}

func (g ledgerGuard) TryAcquire(string) (admission.Token, bool) {
	if f := g.during.Swap(nil); f != nil {
		(*f)(g.endpoint)
	}
	token := admission.Token(g.next.Add(1))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[token] = g.endpoint
	return token, true
}

func (g ledgerGuard) Report(token admission.Token, o admission.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[token] != g.endpoint {
		g.faults = append(g.faults, fmt.Sprintf("token %d of %q was reported to %q", token, g.open[token], g.endpoint))
	}
	delete(g.open, token)
	g.kinds[o.Kind]++
}

func (g ledgerGuard) RetryAfter() time.Duration { return 0 }

// balanced fails unless each token was reported exactly once, and returns how the
// attempts ended.
func (l *ledger) balanced(t testing.TB) map[admission.Kind]int {
	t.Helper()
	eventually(t, "all tokens reported", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.open) == 0
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fault := range l.faults {
		t.Error(fault)
	}
	return l.kinds
}
