package rebuild

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Seed row P-09: a request returns at once, and what is in force stays until the
// build has ended.
func TestP09Asynchronous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		p := b.pipeline(Options[*thing]{}, takes(500*time.Millisecond))
		p.Request(1)
		pass(time.Second)
		began := time.Now()
		p.Request(2)
		if d := time.Since(began); d != 0 {
			t.Errorf("Request took %v", d)
		}
		pass(499 * time.Millisecond)
		same(t, "publications during the build", b.of(p), []int{1})
		pass(2 * time.Millisecond)
		same(t, "publications after the build", b.of(p), []int{1, 2})
		b.free(t)
	})
}

// Seed row P-10: a build blocks, four updates go to six pipelines behind one gate.
func TestP10Coalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		block := make(chan struct{})
		blocked := func(context.Context, int) error { <-block; return nil }
		var pipelines []*Pipeline[int, *thing]
		for range 6 {
			pipelines = append(pipelines, b.pipeline(Options[*thing]{}, blocked))
		}
		for update := 1; update <= 4; update++ {
			for _, p := range pipelines {
				p.Request(update)
				synctest.Wait() // the first update of the first pipeline builds
			}
		}
		if w := b.gate.Stats().Waiting; w != 5 {
			t.Errorf("%d wait at the gate, want 5", w)
		}
		close(block)
		synctest.Wait()

		same(t, "builds", b.builds(), []int{1, 4, 4, 4, 4, 4, 4})
		var coalesced []uint64
		for i, p := range pipelines {
			coalesced = append(coalesced, p.Stats().Coalesced)
			if got := b.of(p); got[len(got)-1] != 4 {
				t.Errorf("pipeline %d published %v, want 4 last", i, got)
			}
			accounted(t, p)
		}
		same(t, "coalesced", coalesced, []uint64{2, 3, 3, 3, 3, 3})
		if b.most != 1 {
			t.Errorf("%d builds at one time", b.most)
		}
		if n := b.gate.Stats().Entered; n != 7 {
			t.Errorf("the permit was had %d times, want 7", n)
		}
		b.free(t)
	})
}

// Seed row P-11: two groups of pipelines, one gate, one build at a time.
func TestP11OneBuildAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		var groups [2][]*Pipeline[int, *thing]
		for g := range groups {
			for range 3 {
				groups[g] = append(groups[g], b.pipeline(Options[*thing]{}, takes(7*time.Millisecond)))
			}
		}
		var senders sync.WaitGroup
		for g, pipelines := range groups {
			senders.Go(func() {
				for i := 1; i <= 100; i++ {
					for _, p := range pipelines {
						p.Request(i)
					}
					time.Sleep(time.Duration(1+g) * time.Millisecond)
				}
			})
		}
		senders.Wait()
		pass(time.Second)
		for _, pipelines := range groups {
			for _, p := range pipelines {
				if got := b.of(p); got[len(got)-1] != 100 {
					t.Errorf("the last published is %d, want 100", got[len(got)-1])
				}
				accounted(t, p)
			}
		}
		if b.most != 1 {
			t.Errorf("%d builds at one time", b.most)
		}
		b.free(t)
	})
}

// The gate does not starve a pipeline, and one that has nothing in force yet comes
// before those that have.
func TestGateOrderOfPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		slow := takes(10 * time.Millisecond)
		old := []*Pipeline[int, *thing]{b.pipeline(Options[*thing]{}, slow), b.pipeline(Options[*thing]{}, slow), b.pipeline(Options[*thing]{}, slow)}
		for i, p := range old {
			p.Request(10 + i)
			synctest.Wait()
		}
		pass(time.Second)
		for i, p := range old {
			p.Request(20 + i)
			synctest.Wait()
		}
		for i := range 2 {
			b.pipeline(Options[*thing]{}, slow).Request(30 + i)
			synctest.Wait()
		}
		old[0].Request(40) // pending behind its own build
		pass(time.Second)
		same(t, "builds", b.builds(), []int{10, 11, 12, 20, 30, 31, 21, 22, 40})
		b.free(t)
	})
}

// Seed row P-16: results are published in the order of the requests, so that who
// waits for a generation sees it or a later one, and the last request is the last
// published.
func TestP16EndsOnTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		pipelines := []*Pipeline[int, *thing]{b.pipeline(Options[*thing]{}, nil), b.pipeline(Options[*thing]{}, nil), b.pipeline(Options[*thing]{}, nil)}
		var senders sync.WaitGroup
		for _, p := range pipelines {
			senders.Go(func() {
				for i := 1; i <= 10_000; i++ {
					p.Request(i)
				}
			})
		}
		senders.Wait()
		synctest.Wait()
		for _, p := range pipelines {
			got, before := b.of(p), 0
			for _, in := range got {
				if in <= before {
					t.Fatalf("%d was published after %d", in, before)
				}
				before = in
			}
			if before != 10_000 {
				t.Errorf("the last published is %d", before)
			}
			if s := p.Stats(); s.Requests != 10_000 || s.Published != uint64(len(got)) || s.Builds != s.Published {
				t.Errorf("stats are %+v with %d publications", s, len(got))
			}
			accounted(t, p)
		}
		b.free(t)
	})
}

// Seed row P-32: the times are exact.
func TestP32Times(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		first := b.pipeline(Options[*thing]{}, takes(30*time.Millisecond))
		failures := 2
		second := b.pipeline(Options[*thing]{}, func(context.Context, int) error {
			time.Sleep(5 * time.Millisecond)
			if failures > 0 {
				failures--
				return errBuild
			}
			return nil
		})
		first.Request(1)
		synctest.Wait()
		pass(time.Millisecond)
		second.Request(1) // gate 29, build 5, wait 10, build 5, wait 20: 69; build 5
		first.Request(2)  // replaced, so it does not count
		pass(time.Millisecond)
		first.Request(3) // gate 28 + 5; build 30
		pass(time.Second)

		// When second wants to try again first holds the permit, until 34 + 1 + 30.
		if s := first.Stats(); s.Queue != 33*time.Millisecond || s.Build != 30*time.Millisecond ||
			s.QueueTotal != 33*time.Millisecond || s.BuildTotal != 60*time.Millisecond {
			t.Errorf("the first waited %v, built %v; in all %v, %v", s.Queue, s.Build, s.QueueTotal, s.BuildTotal)
		}
		// Asked at 1; built at 30 to 35, 65 to 70, and from 90.
		if s := second.Stats(); s.Queue != 89*time.Millisecond || s.Build != 5*time.Millisecond ||
			s.QueueTotal != s.Queue || s.BuildTotal != s.Build || s.Failed != 2 || s.Builds != 3 {
			t.Errorf("the second is %+v", s)
		}
	})
}

// While there is nothing to do there is no goroutine, so a pipeline that nobody
// closes leaks nothing: synctest.Test fails on goroutines that are left.
func TestIdlePipelineHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(GateOptions{})
		p := b.pipeline(Options[*thing]{}, nil)
		for i := range 3 {
			p.Request(i)
			synctest.Wait()
		}
		same(t, "publications", b.of(p), []int{0, 1, 2})
	})
}

// Callbacks may ask for more, and cancel.
func TestCallbacksMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published []int
		var p *Pipeline[int, int]
		p = New(NewGate(GateOptions{}), Options[int]{
			OnError: func(error) { p.Request(10) },
			Bytes:   func(int) int64 { p.Stats(); return 1 << 40 }, // no pointer: not waited for
		}, func(_ context.Context, in int) (int, error) {
			if in == 3 {
				p.Cancel()
				p.Request(4)
			}
			if in == 5 {
				return 0, errBuild
			}
			return in, nil
		}, func(in, _ int) {
			published = append(published, in)
			if in < 5 {
				p.Request(in + 1)
			}
		})
		p.Request(1)
		synctest.Wait()
		same(t, "publications", published, []int{1, 2, 4, 10})
	})
}
