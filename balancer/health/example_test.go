package health_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slicewire/slicewire/balancer/health"
)

// One registry for all clients of a program: package sdk makes a view of it for each.
func ExampleNewRegistry() {
	registry, err := health.NewRegistry(health.Options{
		Checker:   health.GRPC(""),
		Interval:  10 * time.Second,
		FailAfter: 3,
		Observer:  func(f health.Flip) { fmt.Println(f) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer registry.Close()
	// Output:
}

// A check of one's own, and a start that waits for what it finds.
func ExampleFunc() {
	registry, err := health.NewRegistry(health.Options{
		Checker: health.Func(func(_ context.Context, t health.Target) error {
			if t.Name == "shop-2" {
				return errors.New("the disk is full")
			}
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer registry.Close()

	view, err := registry.NewView(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer view.Close()
	if err := view.Set([]health.Target{
		{Name: "shop-1", Address: "10.0.0.1:443"},
		{Name: "shop-2", Address: "10.0.0.2:443"},
	}); err != nil {
		fmt.Println(err)
		return
	}
	if err := registry.WaitFirst(context.Background(), 1); err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range registry.Targets() {
		fmt.Println(t.Names, t.State, t.LastError)
	}
	// Output:
	// [shop-1] healthy <nil>
	// [shop-2] unhealthy the disk is full
}

// Servers that tell their health over HTTP on another port than they serve on.
func ExampleOnPort() {
	checker := health.OnPort(8081, health.HTTP(health.HTTPOptions{
		Path: "/healthz",
		Accept: func(status int, _ http.Header, body []byte) error {
			if status != http.StatusOK || string(body) != "ok" {
				return fmt.Errorf("answered %d %q", status, body)
			}
			return nil
		},
	}))
	registry, err := health.NewRegistry(health.Options{Checker: checker})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry.Close()
	// Output:
}
