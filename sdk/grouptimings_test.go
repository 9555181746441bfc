package sdk_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/failover"
)

// A primary that is back within the recovery timeout keeps its traffic.
func TestME04G07ShortOutage(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(timed(failover.Options{Recovery: 300 * time.Millisecond}, "default", "main", "fallback")),
		reconnect(10*time.Millisecond, time.Second))
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 2, 5*time.Millisecond, time.Second)
	for range 3 {
		// The credit has to be earned anew.
		eventually(t, "credit", func() bool { return targetState(client, "default", "main").Credit })
		p["main"].Kill()
		killed := time.Now()
		for time.Since(killed) < 150*time.Millisecond {
			time.Sleep(5 * time.Millisecond)
		}
		if err := p["main"].Restart(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(killed); took+l.lateness()/2 > 250*time.Millisecond {
			t.Skipf("the outage of 150 ms took %v here, and goroutines wait for %v", took, l.lateness())
		}
		served(t, client, "default", "main")
	}
	failed := 0
	for _, a := range l.end() {
		if a.err != nil {
			failed++
			if status.Code(a.err) != codes.Unavailable {
				t.Errorf("an RPC failed with %v, want UNAVAILABLE", a.err)
			}
		}
	}
	if list := book.switches(); len(list) > 0 {
		t.Errorf("the group switched: %v", list)
	}
	if failed == 0 {
		t.Error("no RPC failed: there was no outage")
	}
}

// A primary that stays away is left once, between the recovery timeout and 200 ms
// later, though each failed attempt to connect says again that it is down.
func TestME04G07LongOutage(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(timed(failover.Options{Recovery: 300 * time.Millisecond}, "default", "main", "fallback")),
		reconnect(10*time.Millisecond, time.Second))
	served(t, client, "default", "main")
	eventually(t, "credit", func() bool { return targetState(client, "default", "main").Credit })
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 2, 5*time.Millisecond, time.Second)
	killed := time.Now()
	p["main"].Kill()
	served(t, client, "default", "fallback")
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); { // and no switch more
		time.Sleep(10 * time.Millisecond)
	}
	list := book.after(t, 1)
	if len(list) != 1 {
		t.Fatalf("%d switches, want one: %v", len(list), list)
	}
	s := list[0]
	if s.Group != "default" || s.From != "main" || s.To != "fallback" || s.Reason != failover.Lost {
		t.Errorf("the switch is %+v", s)
	}
	if after := s.At.Sub(killed); after < 300*time.Millisecond || after > 500*time.Millisecond+l.lateness() {
		t.Errorf("it came after %v, want 300 to 500 ms (late by at most %v here)", after, l.lateness())
	}
	for _, a := range l.end() {
		if a.begun.After(s.At.Add(l.lateness())) && (a.err != nil || a.from != "fallback") {
			t.Errorf("%v after the switch an RPC was answered by %q, %v", a.begun.Sub(s.At), a.from, a.err)
			break
		}
	}
}

// While the current target recovers, one of higher priority that becomes ready ends
// the wait at once.
func TestME04G07HigherPriorityEndsTheWait(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "second", "third")
	p["main"].Kill()
	client := dialGroups(t, p.topology(timed(failover.Options{Recovery: 10 * time.Second, InitialGrace: -1, MinUptime: -1}, "default", "main", "second", "third")),
		reconnect(10*time.Millisecond, time.Second))
	served(t, client, "default", "second")
	book := watchGroup(t, client, "default")
	startLoad(t, client, "default", 1, 5*time.Millisecond, time.Second)
	p["second"].Kill()
	eventually(t, "second recovering", func() bool { return targetState(client, "default", "second").State == failover.Recovering })
	if got := client.Group("default").Current(); got != "second" {
		t.Fatalf("current target %q", got)
	}
	if err := p["main"].Restart(); err != nil {
		t.Fatal(err)
	}
	served(t, client, "default", "main")
	if list := book.after(t, 1); len(list) != 1 || list[0].To != "main" || list[0].Reason != failover.Recovered {
		t.Errorf("switches %v, want one for the reason recovered", list)
	}
}

// With no recovery timeout the first failure is enough.
func TestME04NoRecovery(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(group("default", "main", "fallback")))
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 2, 5*time.Millisecond, time.Second)
	killed := time.Now()
	p["main"].Kill()
	served(t, client, "default", "fallback")
	list := book.after(t, 1)
	if len(list) != 1 {
		t.Fatalf("switches %v, want one", list)
	}
	if after := list[0].At.Sub(killed); after > 100*time.Millisecond+l.lateness() {
		t.Errorf("it came after %v (late by at most %v here)", after, l.lateness())
	}
}

// With every target down the group stays where it is, and RPCs fail with what the
// connection says. The first to return is used at once, also the worst.
func TestME04G10AllDown(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "second", "third")
	client := dialGroups(t, p.topology(group("default", "main", "second", "third")), reconnect(10*time.Millisecond, time.Second))
	served(t, client, "default", "main")
	for _, b := range p {
		b.Kill()
	}
	// RPCs find out, one target after the other.
	eventually(t, "all targets down", func() bool {
		_ = one(client, "default", time.Second)
		for _, s := range client.Status().Groups[0].Targets {
			if s.State != failover.Down {
				return false
			}
		}
		return true
	})
	stays := client.Group("default").Current()
	eventually(t, "what broke to be dialled again", func() bool {
		a := one(client, "default", time.Second)
		return a.err != nil && strings.Contains(a.err.Error(), "connection refused")
	})
	book := watchGroup(t, client, "default")
	for range 20 {
		a := one(client, "default", time.Second)
		if status.Code(a.err) != codes.Unavailable || !strings.Contains(a.err.Error(), "connection refused") {
			t.Fatalf("the RPC's error is %v, want UNAVAILABLE and that the connection was refused", a.err)
		}
		if !strings.Contains(a.err.Error(), p[stays].Addr()) {
			t.Errorf("the error %v is not about %q at %s", a.err, stays, p[stays].Addr())
		}
	}
	if list := book.switches(); len(list) > 0 {
		t.Errorf("switches with every target down: %v", list)
	}
	back := "third"
	if stays == back {
		back = "second"
	}
	if err := p[back].Restart(); err != nil {
		t.Fatal(err)
	}
	served(t, client, "default", back)
	book.after(t, 1)
	if got := book.path(); got != stays+" "+back {
		t.Errorf("current targets were %q, want %s %s", got, stays, back)
	}
}

// At the start a target has its grace before one of lower priority is used; without
// any its first failure counts; one that comes up within it is never left.
func TestG08InitialGrace(t *testing.T) {
	t.Parallel()
	firstSuccess := func(t *testing.T, p places, o failover.Options) (after time.Duration, book *switchBook, l *load) {
		begun := time.Now()
		client := dialGroups(t, p.topology(timed(o, "default", "main", "fallback")), reconnect(10*time.Millisecond, time.Second))
		book = watchGroup(t, client, "default")
		l = startLoad(t, client, "default", 1, 5*time.Millisecond, time.Second)
		served(t, client, "default", "fallback")
		return book.after(t, 1)[0].At.Sub(begun), book, l
	}
	for _, c := range []struct {
		name        string
		o           failover.Options
		least, most time.Duration
	}{
		{"none", failover.Options{InitialGrace: -1}, 0, 100 * time.Millisecond},
		{"of recovery none", failover.Options{Recovery: -1}, 0, 100 * time.Millisecond},
		{"given", failover.Options{InitialGrace: 300 * time.Millisecond}, 300 * time.Millisecond, 400 * time.Millisecond},
		{"what recovery is", failover.Options{Recovery: 200 * time.Millisecond}, 200 * time.Millisecond, 300 * time.Millisecond},
		{"at most 1 s", failover.Options{Recovery: time.Hour}, time.Second, 1100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startPlaces(t, "main", "fallback")
			p["main"].Kill()
			after, book, l := firstSuccess(t, p, c.o)
			if after < c.least || after > c.most+l.lateness() {
				t.Errorf("left after %v, want %v to %v (late by at most %v here)", after, c.least, c.most, l.lateness())
			}
			if got := book.path(); got != "main fallback" {
				t.Errorf("current targets were %q", got)
			}
		})
	}
	t.Run("comes up within it", func(t *testing.T) {
		t.Parallel()
		p := startPlaces(t, "main", "fallback")
		p["main"].Kill()
		client := dialGroups(t, p.topology(timed(failover.Options{InitialGrace: 10 * time.Second}, "default", "main", "fallback")),
			reconnect(10*time.Millisecond, time.Second))
		book := watchGroup(t, client, "default")
		startLoad(t, client, "default", 1, 5*time.Millisecond, time.Second)
		eventually(t, "main recovering", func() bool { return targetState(client, "default", "main").State == failover.Recovering })
		if err := p["main"].Restart(); err != nil {
			t.Fatal(err)
		}
		served(t, client, "default", "main")
		if n := len(book.switches()); n > 0 || p["fallback"].Count() > 0 {
			t.Errorf("%d switches, %d RPCs at the fallback", n, p["fallback"].Count())
		}
	})
}

// The delay is between two targets that work: back to the primary, and not away
// from it.
func TestG09SwitchDelay(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(timed(failover.Options{Recovery: -1, MinUptime: -1, InitialGrace: -1, SwitchDelay: delay}, "default", "main", "fallback")),
		reconnect(10*time.Millisecond, time.Second))
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 2, 5*time.Millisecond, time.Second)
	killed := time.Now()
	p["main"].Kill()
	served(t, client, "default", "fallback")
	if after := book.after(t, 1)[0].At.Sub(killed); after > 100*time.Millisecond+l.lateness() {
		t.Errorf("the target that failed was left after %v (late by at most %v here)", after, l.lateness())
	}
	restarted := time.Now()
	if err := p["main"].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "main ready", func() bool { return targetState(client, "default", "main").State == failover.Ready })
	ready := targetState(client, "default", "main").Since
	if got := client.Group("default").Current(); got != "fallback" && time.Since(ready) < delay {
		t.Errorf("%v after it was ready the target is current", time.Since(ready))
	}
	served(t, client, "default", "main")
	list := book.after(t, 2)
	if len(list) != 2 || list[1].Reason != failover.Recovered {
		t.Fatalf("switches %v", list)
	}
	if after := list[1].At.Sub(ready); after < delay || after > delay+100*time.Millisecond+l.lateness() {
		t.Errorf("traffic returned %v after the target was ready, want %v (late by at most %v here)", after, delay, l.lateness())
	}
	for _, a := range l.end() {
		if a.begun.After(restarted) && a.err != nil {
			t.Errorf("an RPC failed on the way back: %v", a.err)
		}
	}
}

// A current target that leaves the list is left at once, to the first that is
// available, and no RPC fails.
func TestG11RemovedUnderLoad(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "second", "third")
	o := failover.Options{SwitchDelay: time.Hour, Recovery: time.Hour}
	client := dialGroups(t, p.topology(timed(o, "default", "main", "second", "third")))
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 8, 0, 10*time.Second)
	for i, list := range [][]string{{"second", "third"}, {"third"}, {"third", "main"}, {"main"}, {"main", "second"}, {"second", "third"}} {
		eventually(t, "warm standbys", func() bool { // one that is just connecting is not available
			return !slices.ContainsFunc(client.Status().Groups[0].Targets, func(s failover.TargetState) bool { return s.State != failover.Ready })
		})
		before := book.total()
		was := client.Group("default").Current()
		if _, err := client.UpdateTopology(p.topology(timed(o, "default", list...))); err != nil {
			t.Fatal(err)
		}
		now := client.Group("default").Current()
		if was != now {
			eventually(t, "the switch", func() bool { return book.total() > before })
			if s := book.switches()[before-1]; s.Reason != failover.Removed || s.From != was || s.To != now {
				t.Errorf("update %d: %+v", i, s)
			}
		}
		if want := list[0]; now != want {
			t.Errorf("update %d to %v: current target %q", i, list, now)
		}
		served(t, client, "default", list[0])
	}
	answers := l.end()
	for _, a := range answers {
		if a.err != nil {
			t.Fatalf("an RPC failed: %v", a.err)
		}
	}
	if len(answers) < 10 {
		t.Errorf("only %d RPCs", len(answers))
	}
}
