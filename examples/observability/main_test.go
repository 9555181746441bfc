package main

import (
	"context"
	"testing"
	"time"
)

// Every fault is seen, and every instrument, also beside other tests.
func TestRound(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	if err := run(ctx, settings{listen: "127.0.0.1:0", once: true, dwell: between}); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("it did not end by itself")
	}
}
