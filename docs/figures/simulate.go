package main

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// servers is how many there are; number odd is the one that is slow, or fails.
const (
	servers = 10
	odd     = 7
)

// scenario is what the servers do, in virtual time.
type scenario struct {
	name   string
	rate   float64 // calls a second, a Poisson process
	usual  time.Duration
	odd    time.Duration // what a call takes at the odd server, on average
	fails  bool          // the odd server fails each call
	atOnce int           // calls that a server works on at a time, 0: all
}

const ms = time.Millisecond

var scenarios = []scenario{
	{name: "light", rate: 200, usual: 10 * ms, odd: 100 * ms},
	{name: "busy", rate: 2000, usual: 10 * ms, odd: 100 * ms},
	{name: "queueing", rate: 2000, usual: 10 * ms, odd: 100 * ms, atOnce: 8},
	{name: "failing", rate: 2000, usual: 10 * ms, odd: ms, fails: true},
}

// contender is one way of choosing.
type contender struct {
	name   string
	policy selection.Policy // in a slice, where sliced is set
	sliced bool
	slow   uint32 // the odd server's weight, of 10 for each of the others; 0: 10
}

var contenders = []contender{
	{name: "p2c", policy: selection.P2C()},
	{name: "p2c, no penalty", policy: selection.P2C().WithPenalty(0)},
	{name: "least_pending", policy: selection.LeastPending()},
	{name: "random", policy: selection.Random()},
	{name: "round_robin", policy: selection.RoundRobin()},
	{name: "weighted, equal", policy: selection.Weighted(nil)},
	{name: "weighted, 1 of 10", policy: selection.Weighted(nil), slow: 1},
	{name: "ketama", policy: selection.Ketama(selection.KetamaOptions{})},
	{name: "sliced", policy: selection.Random(), sliced: true},
	{name: "sliced, p2c", policy: selection.P2C(), sliced: true},
}

// result is what a contender came to in a scenario.
type result struct {
	share    float64 // the odd server's, in percent of the calls
	p50, p99 time.Duration
	failed   float64 // percent of the calls
}

const (
	warmUp = 10 * time.Second // that does not count
	length = 120 * time.Second
	keys   = 10_000 // that calls have, each as likely as the others
	owners = 3      // of a slice, where there are slices
)

// world is one run.
type world struct {
	scenario
	contender
	random  *rand.Rand // of arrivals, keys and times; policies draw their own numbers
	now     time.Duration
	members []*selection.Member
	views   []selection.View // of all, or of the owners of each slice
	order   selection.Order
	state   selection.State
	queues  [servers][]call // calls that a server has not begun
	working [servers]int
	endings endings
}

// call is one RPC.
type call struct {
	began, ends time.Duration
	server      int
}

// endings are the calls that servers work on, the one that ends first on top.
type endings []call

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].ends < e[j].ends }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(c any)        { *e = append(*e, c.(call)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulate runs one contender through one scenario.
func simulate(s scenario, c contender) (result, error) {
	w := &world{scenario: s, contender: c, random: rand.New(rand.NewPCG(1, 2))}
	for i := range servers {
		info := selection.Info{Address: fmt.Sprintf("10.0.0.%d:443", i+1), Weight: 10}
		if i == odd && c.slow > 0 {
			info.Weight = c.slow
		}
		m := selection.NewMember(fmt.Sprintf("server-%d", i), info, i)
		m.SetClock(func() time.Duration { return w.now })
		w.members = append(w.members, m)
	}
	switch {
	case c.policy.Built():
		var err error
		if w.order, err = c.policy.Build(context.Background(), selection.Membership{Members: w.members}, &w.state); err != nil {
			return result{}, err
		}
	case c.sliced:
		for i := range servers {
			twice := slices.Concat(w.members, w.members)
			w.views = append(w.views, selection.NewView(twice[i:i+owners]...))
		}
	default:
		w.views = []selection.View{selection.NewView(w.members...)}
	}
	return w.run(), nil
}

func (w *world) run() result {
	var took []time.Duration
	atOdd, failed := 0, 0
	for next := w.gap(); ; {
		if len(w.endings) > 0 && w.endings[0].ends <= next {
			c := heap.Pop(&w.endings).(call)
			w.now = c.ends
			w.end(c)
			if c.began >= warmUp {
				took = append(took, c.ends-c.began)
				if c.server == odd && w.fails {
					failed++
				}
			}
			continue
		}
		if next >= warmUp+length {
			break
		}
		w.now = next
		c := call{began: next, server: w.choose()}
		if c.server == odd && next >= warmUp {
			atOdd++
		}
		w.members[c.server].Start()
		w.queues[c.server] = append(w.queues[c.server], c)
		w.work(c.server)
		next += w.gap()
	}
	// What has not ended yet, as in a queue that only grows, counts as if it ended now.
	unfinished := slices.Concat(append(w.queues[:], w.endings)...)
	for _, c := range unfinished {
		if c.began >= warmUp {
			took = append(took, w.now-c.began)
		}
	}
	slices.Sort(took)
	n := len(took)
	percent := func(k int) float64 { return 100 * float64(k) / float64(n) }
	return result{share: percent(atOdd), failed: percent(failed), p50: took[n/2], p99: took[n*99/100]}
}

// choose asks the policy as a pick does.
func (w *world) choose() int {
	key := w.random.IntN(keys)
	c := selection.Call{Key: fmt.Sprint("user-", key), HasKey: true}
	if w.order != nil {
		i, _ := w.policy.Next(w.order, &c, selection.Cursor{})
		return i
	}
	view := &w.views[key%len(w.views)]
	return view.Member(w.policy.Choose(view, &c, &w.state)).Handle().(int)
}

// work has a server begin what it may.
func (w *world) work(server int) {
	for len(w.queues[server]) > 0 && (w.atOnce == 0 || w.working[server] < w.atOnce) {
		c := w.queues[server][0]
		w.queues[server] = w.queues[server][1:]
		mean := w.usual
		if server == odd {
			mean = w.scenario.odd
		}
		c.ends = w.now + time.Duration(w.random.ExpFloat64()*float64(mean))
		w.working[server]++
		heap.Push(&w.endings, c)
	}
}

func (w *world) end(c call) {
	w.members[c.server].End(w.fails && c.server == odd)
	w.working[c.server]--
	w.work(c.server)
}

// gap is the time to the next call.
func (w *world) gap() time.Duration {
	return time.Duration(w.random.ExpFloat64() / w.rate * float64(time.Second))
}
