// Quickstart tells the story of a sharded service on real servers over loopback
// TCP: RPCs reach the server that owns their key, follow a range of keys that
// moves, survive the death of an owner, and of the sharding service.
//
// It exits 0 only if everything it tells came true. The servers and the sharding
// service come from package sdktest; the client is what a program of yours would
// have.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Printf("\nFAILED: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nEverything above came true.")
}

func run(ctx context.Context) error {
	cluster, err := sdktest.StartCluster("anna", "bert", "cleo")
	if err != nil {
		return err
	}
	defer cluster.Close()
	cluster.Sharding().Assign("profiles", sdktest.Ranges(
		sdktest.From("", "anna"), sdktest.From("h", "bert"), sdktest.From("q", "cleo")))

	client, err := sdk.Dial(cluster.Target(),
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithResolvers(cluster.Resolver()),
		sdk.WithShardingService("sharder", cluster.Sharding().Addr(),
			grpc.WithTransportCredentials(insecure.NewCredentials())),
		sdk.WithSharding(sdk.Sharding{
			ServiceKey: "sharder",
			Target:     "profiles",
			KeyHeader:  "x-profile-id",
			Fallback:   true,
		}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()

	s := &story{cluster: cluster, client: client, echo: sdktest.NewEcho(client)}
	for _, chapter := range []func(context.Context) error{
		s.owners, s.move, s.ownerDies, s.sharderDies,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

type story struct {
	cluster *sdktest.Cluster
	client  *sdk.Client
	echo    sdktest.Echo
}

func (s *story) owners(ctx context.Context) error {
	title("Each RPC reaches the server that owns its key")
	for _, b := range s.cluster.Backends() {
		say("server %s listens on %s", b.Name(), b.Addr())
	}
	say("the sharding service gives [start, h) to anna, [h, q) to bert, [q, end) to cleo")
	ready, err := s.client.WaitReady(ctx)
	if err != nil {
		return err
	}
	say("the client is %v: generation %d, %d slices", ready, s.generation(), s.client.Status().Assignment.Slices)
	return errors.Join(
		s.reaches(ctx, "alice", "anna"),
		s.reaches(ctx, "john", "bert"),
		s.reaches(ctx, "zoe", "cleo"))
}

func (s *story) move(ctx context.Context) error {
	title("A range moves, and RPCs follow")
	stream, err := s.echo.Talk(interceptors.WithKeyString(ctx, "john"))
	if err != nil {
		return err
	}
	if err := asks(stream, "bert", "a stream for \"john\" is open"); err != nil {
		return err
	}
	generation, err := s.cluster.Sharding().Move("profiles", "john", "cleo")
	if err != nil {
		return err
	}
	say("the sharding service moves [h, q) to cleo")
	if err := s.await(ctx, "the client has it", func() bool { return s.generation() >= generation }); err != nil {
		return err
	}
	if err := s.reaches(ctx, "john", "cleo"); err != nil {
		return err
	}
	if err := asks(stream, "bert", "the open stream stays where it is"); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) { // read to its end: Close waits for open streams
		return fmt.Errorf("the stream ended with: %w", err)
	}
	return nil
}

func (s *story) ownerDies(ctx context.Context) error {
	title("An owner dies, and comes back")
	anna := s.cluster.Backend("anna")
	anna.Kill()
	say("anna is killed; nobody else owns her keys, and the client may fall back")
	failed := 0
	err := s.await(ctx, "RPCs fell back", func() bool {
		server, err := s.ask(ctx, "alice")
		if err != nil {
			failed++ // in flight to anna as she died
		}
		return err == nil && server != "anna"
	})
	if err != nil {
		return err
	}
	servers := map[string]int{}
	for range 20 {
		server, err := s.ask(ctx, "alice")
		if err != nil {
			return fmt.Errorf("an RPC failed in fallback: %w", err)
		}
		servers[server]++
	}
	say("20 RPCs with key \"alice\": bert served %d, cleo %d; lost before the first: %d", servers["bert"], servers["cleo"], failed)
	if servers["anna"] > 0 {
		return errors.New("a dead server answered")
	}
	if err := anna.Restart(); err != nil {
		return err
	}
	say("anna is back; gRPC tries to connect again about a second after a failure")
	return s.await(ctx, "RPCs with key \"alice\" reached anna again", func() bool {
		server, err := s.ask(ctx, "alice")
		return err == nil && server == "anna"
	})
}

func (s *story) sharderDies(ctx context.Context) error {
	title("The sharding service dies, and RPCs go on")
	s.cluster.Sharding().Stop()
	say("the sharding service is stopped")
	sent, wrong := 0, error(nil)
	err := s.await(ctx, "the client was out of touch for a second", func() bool {
		if err := errors.Join(s.owned(ctx, "alice", "anna"), s.owned(ctx, "john", "cleo"), s.owned(ctx, "zoe", "cleo")); err != nil {
			wrong = err
			return true
		}
		sent += 3
		return s.client.Status().Assignment.StaleFor > time.Second
	})
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	say("meanwhile %d RPCs all reached their owners, by generation %d", sent, s.generation())
	if err := s.cluster.Sharding().Restart(); err != nil {
		return err
	}
	generation, err := s.cluster.Sharding().Move("profiles", "zoe", "bert")
	if err != nil {
		return err
	}
	say("the sharding service is back, and moves [q, end) to bert; clients come back spread over a second or two")
	if err := s.await(ctx, "the client has it", func() bool { return s.generation() >= generation }); err != nil {
		return err
	}
	return s.reaches(ctx, "zoe", "bert")
}

// ask sends one RPC with a key and returns the name of the server it reached.
func (s *story) ask(ctx context.Context, key string) (string, error) {
	return s.echo.Who(interceptors.WithKeyString(ctx, key), "")
}

// reaches sends one RPC and tells where it went.
func (s *story) reaches(ctx context.Context, key, want string) error {
	if err := s.owned(ctx, key, want); err != nil {
		return err
	}
	say("key %-7q -> %s", key, want)
	return nil
}

// owned says whether one RPC reaches its owner.
func (s *story) owned(ctx context.Context, key, want string) error {
	got, err := s.ask(ctx, key)
	if err != nil {
		return fmt.Errorf("RPC with key %q: %w", key, err)
	}
	if got != want {
		return fmt.Errorf("the RPC with key %q reached %s, its owner is %s", key, got, want)
	}
	return nil
}

func (s *story) generation() int64 { return s.client.Status().Generation }

// await waits until done, or until ctx ends.
func (s *story) await(ctx context.Context, what string, done func() bool) error {
	began := time.Now()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	say("%s, after %v", what, max(time.Since(began).Round(time.Millisecond), time.Millisecond))
	return nil
}

func asks(stream *sdktest.EchoStream, want, what string) error {
	got, err := stream.Ask("who?")
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s, but at %s instead of %s", what, got, want)
	}
	say("%s, at %s", what, got)
	return nil
}

func title(text string) { fmt.Printf("\n== %s\n", text) }

func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }
