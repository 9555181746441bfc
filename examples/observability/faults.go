package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// fault is something that goes wrong, or is done to the client, and is put right
// again by its last step.
type fault struct {
	id    string // for -faults
	name  string
	steps []step
}

// step is one thing that happens, and the signs of it that metrics have to show.
type step struct {
	says string
	do   func(context.Context) error // nil: only wait
	show []sign
}

const (
	between = 200 * time.Millisecond // two scrapes
	most    = 20 * time.Second       // that a sign may take, on a machine that is busy
)

// happen has a fault happen. Each step but the last one lasts for the dwell at least,
// and until its signs were seen; unseen says which were not. The error is a step's
// that could not be done.
func (st *stage) happen(ctx context.Context, n int, f *fault) (unseen, err error) {
	fmt.Printf("\n== %d. %s (%s)\n", n, f.name, f.id)
	var missing []string
	for i := range f.steps {
		dwell := st.settings.dwell
		if i == len(f.steps)-1 {
			dwell = 0
		}
		list, err := st.step(ctx, &f.steps[i], dwell)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", f.id, f.steps[i].says, err)
		}
		missing = append(missing, list...)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: the metrics do not show %s", f.id, strings.Join(missing, ", nor ")), nil
	}
	return nil, nil
}

func (st *stage) step(ctx context.Context, s *step, dwell time.Duration) (unseen []string, err error) {
	say("%s", s.says)
	if err := st.scraper.read(ctx); err != nil {
		return nil, err
	}
	before := st.scraper.now
	began := time.Now()
	if s.do != nil {
		if err := s.do(ctx); err != nil {
			return nil, err
		}
	}
	left := append([]sign(nil), s.show...)
	for {
		if err := st.scraper.read(ctx); err != nil {
			return nil, err
		}
		var still []sign
		for _, g := range left {
			if what, ok := g.in(st.scraper.now, before); ok {
				say("  %4.1f s  %s", time.Since(began).Seconds(), what)
			} else {
				still = append(still, g)
			}
		}
		left = still
		took := time.Since(began)
		if len(left) == 0 && took >= dwell {
			return nil, nil
		}
		if len(left) > 0 && took >= dwell+most {
			break
		}
		if err := sleep(ctx, between); err != nil {
			return nil, err
		}
	}
	for _, g := range left {
		what, _ := g.in(st.scraper.now, before)
		say("  NOT SEEN: %s", what)
		unseen = append(unseen, g.String())
	}
	return unseen, nil
}

// await waits until done, but for nothing that takes long.
func await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !done() {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
