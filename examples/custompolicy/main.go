// Custompolicy swaps the policy of a client while RPCs run: from p2c, which
// spreads them, to one of its own that prefers a server, and back.
//
// It exits 0 only if the shares of the servers followed, no RPC failed, a stream
// that was open stayed where it was, and each server accepted exactly one
// connection. The servers come from package sdktest; the policy is in policy.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

const (
	callers = 4    // that send one RPC after the other
	enough  = 2000 // RPCs to tell shares by
	percent = 90   // of the RPCs go to the canary
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
	cluster, err := sdktest.StartCluster("anna", "bert", "cleo")
	if err != nil {
		return err
	}
	defer cluster.Close()
	client, err := sdk.Dial(cluster.Target(),
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithResolvers(cluster.Resolver()),
		sdk.WithSelector(sdk.DefaultSelector, selection.P2C()))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()

	t := startTraffic(ctx, sdktest.NewEcho(client))
	defer t.stop()
	if err := connected(ctx, client); err != nil {
		return err
	}
	fmt.Printf("%d callers send RPCs to anna, bert and cleo, without a pause.\n\n", callers)

	if err := spread(ctx, t, "before, by p2c"); err != nil {
		return err
	}
	stream, err := sdktest.NewEcho(client).Talk(ctx)
	if err != nil {
		return err
	}
	home, err := stream.Ask("who?")
	if err != nil {
		return err
	}
	fmt.Printf("  a stream is open, at %s\n", home)

	preferred := "anna" // not where the stream is
	if home == preferred {
		preferred = "bert"
	}
	selector := client.Selector(sdk.DefaultSelector)
	mine := selection.Custom("canary", canary{preferred, percent})
	if err := publish(ctx, selector, mine); err != nil {
		return err
	}
	s, err := t.measure(ctx)
	if err != nil {
		return err
	}
	s.show("during, by canary")
	// p2c gives it a part of the rest as well.
	if s.of(preferred) < percent-5 {
		return fmt.Errorf("%s served %d%% of the RPCs, want at least %d%%", preferred, s.of(preferred), percent)
	}
	again, err := selector.Publish(mine, balancer.FromCode)
	if err != nil {
		return err
	}
	if again.Changed {
		return fmt.Errorf("an equal policy was taken for another one, number %d", again.Generation)
	}
	fmt.Println("  publishing an equal policy again changes nothing")

	if err := stays(stream, home); err != nil {
		return err
	}

	if err := publish(ctx, selector, selection.P2C()); err != nil {
		return err
	}
	if err := spread(ctx, t, "after, by p2c"); err != nil {
		return err
	}
	return outcome(cluster, t)
}

// publish puts p in force.
func publish(ctx context.Context, s *sdk.Selector, p selection.Policy) error {
	done, err := s.Publish(p, balancer.FromCode)
	if err != nil {
		return err
	}
	if err := done.Wait(ctx); err != nil { // at once, unless the policy builds something
		return err
	}
	fmt.Printf("\n%q is published, as policy number %d of the selector %q\n", p, done.Generation, s.Name())
	return nil
}

// spread says whether all servers get their share.
func spread(ctx context.Context, t *traffic, when string) error {
	s, err := t.measure(ctx)
	if err != nil {
		return err
	}
	s.show(when)
	for _, server := range []string{"anna", "bert", "cleo"} {
		if s.of(server) < 10 || s.of(server) > 70 {
			return fmt.Errorf("%s: %s served %d%% of the RPCs, want about a third", when, server, s.of(server))
		}
	}
	return nil
}

// stays says whether the stream is where it was. It ends it: for p2c an open stream
// is an RPC in flight like any other.
func stays(stream *sdktest.EchoStream, home string) error {
	at, err := stream.Ask("who?")
	if err != nil {
		return err
	}
	if at != home {
		return fmt.Errorf("the stream went from %s to %s", home, at)
	}
	fmt.Printf("  the stream is still at %s; it ends now\n", home)
	if err := stream.CloseSend(); err != nil {
		return err
	}
	// It is in flight until its end was received.
	switch _, err := stream.Recv(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("the stream went on after its end")
	default:
		return err
	}
}

// outcome is what must hold in the end.
func outcome(cluster *sdktest.Cluster, t *traffic) error {
	sent, failed := t.stop()
	fmt.Printf("\nRPCs: %d sent, %d failed.\n", sent, failed)
	var problems []error
	if failed > 0 {
		problems = append(problems, fmt.Errorf("%d RPCs failed, the first with: %w", failed, t.firstError()))
	}
	for _, b := range cluster.Backends() {
		n := b.Connections().Accepted
		fmt.Printf("Connections that %s has accepted: %d.\n", b.Name(), n)
		if n != 1 {
			problems = append(problems, fmt.Errorf("%s has accepted %d connections, want exactly 1", b.Name(), n))
		}
	}
	return errors.Join(problems...)
}

// connected waits until all servers are.
func connected(ctx context.Context, client *sdk.Client) error {
	for {
		ready := 0
		for _, e := range client.Status().Endpoints {
			if e.State == connectivity.Ready {
				ready++
			}
		}
		if ready == 3 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of 3 servers are connected: %w", ready, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
