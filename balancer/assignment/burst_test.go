package assignment

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

// EC-06: 200 whole assignments a second, each of which takes as long to build as
// ten to come. All are answered in order, few are built, something new comes into
// force all the time, and the last one does.
func TestEC06BurstEndsOnTheLast(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, revision Revision) {
		const updates, apart, build = 1000, 5 * time.Millisecond, 50 * time.Millisecond
		svc := newService(reading(func(p peer) {
			for g := range int64(updates) {
				offer(p, g+1, fmt.Sprint("owner-", g+1))
				time.Sleep(apart)
			}
		}))
		d := &slow{gate: make(gate, 1), build: build}
		var mu sync.Mutex
		var last time.Time
		var longest time.Duration
		w := NewWatcher(Options{Gate: d}, func() {
			mu.Lock()
			defer mu.Unlock()
			if !last.IsZero() {
				longest = max(longest, time.Since(last))
			}
			last = time.Now()
		})
		defer w.Close()
		w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
		time.Sleep(updates*apart + 2*build)
		if got := owner(w, "k"); got != fmt.Sprint("owner-", updates) {
			t.Errorf("%q is in force, want the last", got)
		}
		s := w.Status()
		if s.Accepted != d.builds.Load() || s.Accepted < 95 || s.Accepted > 105 || s.Accepted+s.Superseded != updates || s.StreamsOpened != 1 {
			t.Errorf("%d builds of %d updates; status %+v", d.builds.Load(), updates, s)
		}
		mu.Lock()
		defer mu.Unlock()
		if longest > build+apart {
			t.Errorf("nothing new for %v, a build takes %v", longest, build)
		}
		acks := svc.ackList()
		if len(acks) != updates {
			t.Fatalf("%d acks, want %d", len(acks), updates)
		}
		for g, ack := range acks {
			if !strings.HasPrefix(ack, fmt.Sprint(g+1, " ")) {
				t.Fatalf("ack %d is %q", g+1, ack)
			}
		}
	})
}

// slow is a Gate that makes a build take a while.
type slow struct {
	gate
	build  time.Duration
	builds atomic.Int64
}

func (s *slow) Leave() {
	time.Sleep(s.build)
	s.builds.Add(1)
	s.gate.Leave()
}

// The same over real gRPC, as fast as the service can.
func TestEC06LoopbackBurst(t *testing.T) {
	const updates = 100
	var chunks []*wire.WatchShardingAssignmentResponse
	for _, frame := range even(t, 500, 250, 16) {
		m := &wire.WatchShardingAssignmentResponse{}
		if err := proto.Unmarshal(frame, m); err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, m)
	}
	svc := newService(reading(func(p peer) {
		for g := range int64(updates) {
			for _, c := range chunks {
				_ = p.Send(c)
			}
			_ = p.Send(metadataOf(g + 1))
		}
	}))
	w := NewWatcher(quick(), nil)
	defer w.Close()
	w.Configure(cfg, dialing(svc.listen(t)))
	eventually(t, "the last is in force", func() bool { return w.Status().Generation == updates })
	eventually(t, "all are acked", func() bool { return len(svc.ackList()) == updates })
	for g, ack := range svc.ackList() {
		if !strings.HasPrefix(ack, fmt.Sprint(g+1, " ")) {
			t.Fatalf("ack %d is %q", g+1, ack)
		}
	}
	if s := w.Status(); s.Accepted+s.Superseded != updates || s.StreamsOpened != 1 || s.LastError != "" {
		t.Errorf("status %+v", s)
	}
}
