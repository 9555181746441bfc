package main

import (
	"context"
	"testing"
	"time"
)

// The story comes true, also beside other tests.
func TestStory(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		t.Fatal(err)
	}
}
