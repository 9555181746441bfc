// Multiendpoint tells the story of a service at three addresses, on real servers
// over loopback TCP that die and return: main and fallback do everything, ro only
// reads. RPCs of the group "default" go to main, else to fallback; those of the group
// "read" go to ro, else to fallback, else to main.
//
// It exits 0 only if everything it tells came true. The servers come from package
// sdktest; the client is what a program of yours would have, with shorter timings.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Printf("\nFAILED: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nEverything above came true.")
}

// order is where the RPCs of each group go, best first.
var order = map[string][]string{
	"default": {"main", "fallback"},
	"read":    {"ro", "fallback", "main"},
}

var (
	names  = []string{"main", "fallback", "ro"}
	groups = []string{"default", "read"}
)

func run(ctx context.Context) error {
	s := &story{servers: make(map[string]*sdktest.Backend), dead: make(map[string]bool)}
	for _, name := range append(names, "ro-2") {
		b, err := sdktest.StartBackend(name)
		if err != nil {
			return err
		}
		defer b.Close()
		s.servers[name] = b
	}

	client, err := sdk.Dial("",
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithTopology(s.topology("ro")),
		// Servers come back soon here, and so may connections.
		sdk.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		})))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	s.client, s.echo = client, sdktest.NewEcho(client)

	for _, chapter := range []func(context.Context) error{s.pools, s.combinations, s.drill, s.update} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	title("In the end")
	for _, g := range client.Status().Groups {
		say("the group %-9q switched: %s", g.Name, reasons(g.Switches))
	}
	say("%d RPCs were sent; %d failed while an address died, %d because all were dead, and %d otherwise",
		s.count.sent.Load(), s.count.dying.Load(), s.count.dead.Load(), s.count.lost.Load())
	if s.count.lost.Load() > 0 {
		return errors.New("RPCs failed though an address was alive")
	}
	return nil
}

type story struct {
	servers map[string]*sdktest.Backend
	dead    map[string]bool
	client  *sdk.Client
	echo    sdktest.Echo
	count   counts
}

// topology is the three addresses and the two groups; readOnly is the best one for
// reads.
func (s *story) topology(readOnly string) sdk.Topology {
	timings := failover.Options{Recovery: 20 * time.Millisecond, InitialGrace: 500 * time.Millisecond}
	var t sdk.Topology
	for _, name := range []string{"main", "fallback", readOnly} {
		t.Targets = append(t.Targets, sdk.TargetConfig{Name: name, URI: "dns:///" + s.servers[name].Addr()})
	}
	t.Groups = []sdk.GroupConfig{
		{Name: "default", Targets: []string{"main", "fallback"}, Failover: timings},
		{Name: "read", Targets: []string{readOnly, "fallback", "main"}, Failover: timings},
	}
	return t
}

func (s *story) pools(ctx context.Context) error {
	title("Two groups over three addresses")
	for _, name := range names {
		say("%-8s listens on %s", name, s.servers[name].Addr())
	}
	for _, group := range groups {
		say("RPCs of the group %-9q go to the first of %v that is available", group, order[group])
	}
	for _, group := range groups {
		if err := s.all(ctx, group, order[group][0]); err != nil {
			return err
		}
	}
	n := len(s.client.Status().Targets)
	say("there are %d pools of connections: one for each address, not for each place in a list", n)
	if n != 3 {
		return errors.New("want exactly 3 pools")
	}
	return nil
}

// combinations has the servers die and return in all ways.
func (s *story) combinations(ctx context.Context) error {
	title("Whichever addresses are dead, RPCs go to the best one alive")
	say("%-9s %-9s %-9s | %-9s %-9s | failed on the way", "main", "fallback", "ro", "default", "read")
	for dead := range 8 {
		row := ""
		for i, name := range names {
			if err := s.set(name, dead>>i&1 == 1); err != nil {
				return err
			}
			row += fmt.Sprintf("%-9s ", map[bool]string{false: "alive", true: "dead"}[s.dead[name]])
		}
		row += "| "
		failedBefore := s.count.dying.Load()
		for _, group := range groups {
			best := "nobody"
			for _, name := range order[group] {
				if !s.dead[name] {
					best = name
					break
				}
			}
			row += fmt.Sprintf("%-9s ", best)
			var err error
			if best == "nobody" {
				err = s.none(ctx, group)
			} else {
				err = s.settles(ctx, group, best)
			}
			if err != nil {
				return err
			}
		}
		say("%s| %d", row, s.count.dying.Load()-failedBefore)
	}
	for _, name := range names {
		if err := s.set(name, false); err != nil {
			return err
		}
	}
	for _, group := range groups {
		if err := s.settles(ctx, group, order[group][0]); err != nil {
			return err
		}
	}
	if n := len(s.client.Status().Targets); n != 3 {
		return fmt.Errorf("there are %d pools, want exactly 3", n)
	}
	say("all are back, and so are the RPCs; there are still 3 pools")
	return s.await(ctx, "the standby is connected again as well", func() bool {
		for _, t := range s.client.Status().Targets {
			if t.State != connectivity.Ready {
				return false
			}
		}
		return true
	})
}

// drill moves a group by hand.
func (s *story) drill(ctx context.Context) error {
	title("A drill: a pin moves a group to another address, for a while")
	t := s.startTraffic(ctx)
	defer t.stop()
	const pin = 500 * time.Millisecond
	group := s.client.Group("default")
	began := time.Now()
	switches := 0
	for change := range group.Watch(ctx) {
		switch change.Reason {
		case failover.Pinned:
			say("default goes from %s to %s: %v", change.From, change.To, change.Reason)
			if err := s.whilePinned(ctx, "fallback", began.Add(pin)); err != nil {
				return err
			}
			switches++
		case failover.Unpinned:
			say("default goes from %s to %s: %v, after %v", change.From, change.To, change.Reason, time.Since(began).Round(100*time.Millisecond))
			switches++
		default: // how the group came to be where it is
			say("default is at %s, and is pinned to fallback for %v", change.To, pin)
			began = time.Now()
			if err := group.Pin("fallback", pin); err != nil {
				return err
			}
		}
		if switches == 2 {
			break
		}
	}
	if switches != 2 {
		return fmt.Errorf("saw %d switches of 2: %w", switches, ctx.Err())
	}
	if err := s.all(ctx, "default", "main"); err != nil {
		return err
	}
	return t.outcome()
}

// update changes the list of addresses.
func (s *story) update(ctx context.Context) error {
	title("The list of addresses changes while RPCs run")
	t := s.startTraffic(ctx)
	defer t.stop()
	stream, err := s.echo.Talk(interceptors.WithGroup(ctx, "read"))
	if err != nil {
		return err
	}
	if err := asks(stream, "ro", "a stream of the group \"read\" is open"); err != nil {
		return err
	}
	change, err := s.client.UpdateTopology(s.topology("ro-2"))
	if err != nil {
		return err
	}
	say("targets added: %v, removed: %v; groups changed: %v", change.Targets.Added, change.Targets.Removed, change.Groups.Changed)
	if err := s.all(ctx, "read", "ro-2"); err != nil {
		return err
	}
	if err := asks(stream, "ro", "the open stream goes on"); err != nil {
		return err
	}
	if err := end(stream); err != nil {
		return err
	}
	if err := s.await(ctx, "the stream ended, and its pool is closed", func() bool { return len(s.client.Status().Targets) == 3 }); err != nil {
		return err
	}
	bad := s.topology("ro")
	bad.Groups[1].Targets = append(bad.Groups[1].Targets, "nowhere://")
	if _, err = s.client.UpdateTopology(bad); err == nil {
		return errors.New("a bad update was taken")
	}
	say("a bad update changes nothing: %v", err)
	if err := s.all(ctx, "read", "ro-2"); err != nil {
		return err
	}
	return t.outcome()
}

// set has a server be dead or alive.
func (s *story) set(name string, dead bool) error {
	was := s.dead[name]
	s.dead[name] = dead
	switch {
	case dead && !was:
		s.servers[name].Kill()
	case was && !dead:
		return s.servers[name].Restart()
	}
	return nil
}

// await waits until done, or until ctx ends.
func (s *story) await(ctx context.Context, what string, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	say("%s", what)
	return nil
}

// reasons are how often a group switched, and why.
func reasons(switches map[failover.Reason]uint64) string {
	var parts []string
	for _, r := range failover.Reasons() {
		if n := switches[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("%v %d", r, n))
		}
	}
	return strings.Join(parts, ", ")
}

func title(text string) { fmt.Printf("\n== %s\n", text) }

func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }
