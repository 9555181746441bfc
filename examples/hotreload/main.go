// Hotreload tells the story of a client whose configuration file is edited while RPCs
// run, on real servers over loopback TCP: traffic moves to another address, another
// policy chooses among connections, calls of a method get a group of their own, and a
// bad edit is refused. It edits a file of its own in a temporary directory.
//
// It exits 0 only if everything it tells came true and no RPC failed. The servers come
// from package sdktest; the client is what a program of yours would have.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Printf("\nFAILED: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nEverything above came true.")
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "hotreload")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &story{path: filepath.Join(dir, "client.yaml"), servers: make(map[string]*sdktest.Backend)}
	s.text = "targets:\n"
	for _, name := range []string{"main", "other"} {
		b, err := sdktest.StartBackend(name)
		if err != nil {
			return err
		}
		defer b.Close()
		s.servers[name] = b
		s.text += fmt.Sprintf("  - {name: %s, uri: \"dns:///%s\"}\n", name, b.Addr())
	}
	s.text += "groups:\n  - {name: default, targets: [main]}\n"
	if err := s.write(); err != nil {
		return err
	}

	title("A client that is dialled with nothing but credentials and a file")
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithConfigFile(s.path))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	s.client, s.echo = client, sdktest.NewEcho(client)
	show(s.text)
	if err := s.await(ctx, "RPCs are answered by main", func() bool { return s.who(ctx, "") == "main" }); err != nil {
		return err
	}
	traffic := s.startTraffic(ctx)
	for _, chapter := range []func(context.Context) error{s.group, s.selector, s.timing, s.bad, s.move} {
		if err := chapter(ctx); err != nil {
			traffic.stop()
			return err
		}
	}

	title("In the end")
	sent, failed := traffic.stop()
	status := client.Status().Configuration
	say("%d versions were applied and %d refused; %d RPCs were sent beside that, and %d failed", status.Applied, status.Refused, sent, len(failed))
	if len(failed) > 0 {
		return fmt.Errorf("%d RPCs failed, the first: %w", len(failed), failed[0])
	}
	for name, b := range s.servers {
		say("%s had %d connections", name, b.Connections().Accepted)
		if b.Connections().Accepted != 1 {
			return errors.New("want one connection for each address, whatever was edited")
		}
	}
	return nil
}

type story struct {
	path    string
	text    string
	servers map[string]*sdktest.Backend
	client  *sdk.Client
	echo    sdktest.Echo
}

// group adds a group for reads.
func (s *story) group(ctx context.Context) error {
	title("A group of its own for reads")
	if err := s.add("  - {name: read, targets: [other, main]}\n"); err != nil {
		return err
	}
	if err := s.await(ctx, "RPCs of the group \"read\" are answered by other", func() bool { return s.who(ctx, "read") == "other" }); err != nil {
		return err
	}
	return s.await(ctx, "all others still by main", func() bool { return s.who(ctx, "") == "main" })
}

// selector gives the default selector another policy.
func (s *story) selector(ctx context.Context) error {
	title("Another policy, over the connections that are there")
	if err := s.add("selectors:\n  - {name: default, policy: {kind: least_pending}}\n"); err != nil {
		return err
	}
	return s.await(ctx, "picks use least_pending", func() bool { return strings.Contains(s.client.Selector("default").Policy().String(), "least_pending") })
}

// timing changes a timing of a group.
func (s *story) timing(ctx context.Context) error {
	title("A timing of one group, in the middle of a line")
	if err := s.edit("{name: default, targets: [main]}", "{name: default, targets: [main], recovery: 300ms}"); err != nil {
		return err
	}
	return s.await(ctx, "the group has it", func() bool { return s.client.Topology().Groups[0].Failover.Recovery == 300*time.Millisecond })
}

// bad makes a mistake, and mends it.
func (s *story) bad(ctx context.Context) error {
	title("A bad edit is refused, as a whole")
	if err := s.edit("targets: [main], recovery: 300ms", "targets: [mian, other], recovery: -1s"); err != nil {
		return err
	}
	if err := s.await(ctx, "it is refused", func() bool { return s.client.Status().Configuration.Refused == 1 }); err != nil {
		return err
	}
	status := s.client.Status().Configuration
	say("%v", status.LastError)
	if text := fmt.Sprint(status.LastError); !strings.Contains(text, "did you mean main") || !strings.Contains(text, "recovery") {
		return errors.New("want both mistakes named")
	}
	if err := s.await(ctx, "RPCs are still answered by main", func() bool { return s.who(ctx, "") == "main" }); err != nil {
		return err
	}
	if err := s.edit("targets: [mian, other], recovery: -1s", "targets: [main], recovery: 300ms"); err != nil {
		return err
	}
	return s.await(ctx, "mended, the file is in force again", func() bool { return s.client.Status().Configuration.LastError == nil })
}

// move takes all traffic to the other address.
func (s *story) move(ctx context.Context) error {
	title("All traffic to the other address")
	if err := s.edit("{name: default, targets: [main]", "{name: default, targets: [other]"); err != nil {
		return err
	}
	if err := s.await(ctx, "RPCs are answered by other", func() bool { return s.who(ctx, "") == "other" }); err != nil {
		return err
	}
	for _, c := range s.client.Status().Configuration.Changed.Changes {
		say("the status says: %v", c)
	}
	return nil
}

// write replaces the file as editors do: a new one is renamed over it.
func (s *story) write() error {
	if err := os.WriteFile(s.path+"~", []byte(s.text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+"~", s.path)
}

func (s *story) add(text string) error {
	s.text += text
	show("+ " + text)
	return s.write()
}

func (s *story) edit(from, to string) error {
	if !strings.Contains(s.text, from) {
		return fmt.Errorf("the file does not hold %q", from)
	}
	s.text = strings.Replace(s.text, from, to, 1)
	show("- " + from)
	show("+ " + to)
	return s.write()
}

// who is the server that answers an RPC of a group, "" if none does.
func (s *story) who(ctx context.Context, group string) string {
	if group != "" {
		ctx = interceptors.WithGroup(ctx, group)
	}
	name, err := s.echo.Who(ctx, "")
	if err != nil {
		return ""
	}
	return name
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

// traffic is RPCs of both groups beside the story.
type traffic struct {
	halt    chan struct{}
	callers sync.WaitGroup

	mu     sync.Mutex // guards the rest
	sent   int
	failed []error
}

func (s *story) startTraffic(ctx context.Context) *traffic {
	t := &traffic{halt: make(chan struct{})}
	for i := range 4 {
		t.callers.Go(func() {
			ctx := interceptors.WithGroup(ctx, []string{"default", "read"}[i%2])
			for {
				select {
				case <-t.halt:
					return
				case <-time.After(time.Millisecond):
				}
				_, err := s.echo.Who(ctx, "")
				t.mu.Lock()
				t.sent++
				if err != nil {
					t.failed = append(t.failed, err)
				}
				t.mu.Unlock()
			}
		})
	}
	return t
}

func (t *traffic) stop() (sent int, failed []error) {
	close(t.halt)
	t.callers.Wait()
	return t.sent, t.failed
}

func title(text string) { fmt.Printf("\n== %s\n", text) }

func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }

// show prints lines of the file.
func show(text string) {
	for line := range strings.Lines(text) {
		fmt.Printf("   | %s\n", strings.TrimRight(line, "\n"))
	}
}
