package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
)

// ask sends one RPC of a group and returns the name of the server it reached.
func (s *story) ask(ctx context.Context, group string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s.count.sent.Add(1)
	return s.echo.Who(interceptors.WithGroup(ctx, group), "")
}

// settles waits until a group is at a server and says whether its RPCs are.
func (s *story) settles(ctx context.Context, group, want string) error {
	for {
		got, err := s.ask(ctx, group)
		if err == nil && got == want {
			break
		}
		if err != nil {
			s.count.dying.Add(1)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("RPCs of the group %q still reach %q (%w), want %s", group, got, errors.Join(err, ctx.Err()), want)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if at := s.client.Group(group).Current(); at != want {
		return fmt.Errorf("the group %q says that it is at %s, and its RPCs reach %s", group, at, want)
	}
	return s.allQuietly(ctx, group, want)
}

// all says whether the RPCs of a group reach a server, and tells it.
func (s *story) all(ctx context.Context, group, want string) error {
	if err := s.allQuietly(ctx, group, want); err != nil {
		return err
	}
	say("%d RPCs of the group %-9q -> %s", several, group, want)
	return nil
}

const several = 20

func (s *story) allQuietly(ctx context.Context, group, want string) error {
	for range several {
		got, err := s.ask(ctx, group)
		if err != nil {
			s.count.lost.Add(1)
			return fmt.Errorf("an RPC of the group %q: %w", group, err)
		}
		if got != want {
			return fmt.Errorf("an RPC of the group %q reached %s, want %s", group, got, want)
		}
	}
	return nil
}

// none says whether the RPCs of a group fail as they should when all is dead.
func (s *story) none(ctx context.Context, group string) error {
	for range several {
		got, err := s.ask(ctx, group)
		if status.Code(err) != codes.Unavailable {
			return fmt.Errorf("every address is dead, and an RPC of the group %q: %q, %w", group, got, err)
		}
		s.count.dead.Add(1)
	}
	return nil
}

// whilePinned says whether RPCs that are over before a pin's end reach its target.
func (s *story) whilePinned(ctx context.Context, want string, end time.Time) error {
	for n := range several {
		got, err := s.ask(ctx, "default")
		switch {
		case !time.Now().Before(end) && n > 0:
			return nil // on a busy machine
		case err != nil:
			s.count.lost.Add(1)
			return fmt.Errorf("an RPC of a group that is pinned to %s: %w", want, err)
		case got != want && time.Now().Before(end):
			return fmt.Errorf("an RPC of a group that is pinned to %s reached %s", want, got)
		}
	}
	say("%d RPCs of the group %-9q -> %s", several, "default", want)
	return nil
}
