// Observability shows what a client shows: everything at once, and everything that
// goes wrong with it.
//
//	go -C examples/observability run .
//
// It is one process with a sharding service, servers at three addresses, a client
// with groups of targets, selectors, a circuit breaker, health probes and several
// connections for each server, and callers of all kinds. Faults come on a schedule,
// again and again until it is interrupted: servers die, are slow or go silent, the
// primary address goes down, the sharding service stops or talks nonsense, policies
// panic. Metrics are served for Prometheus, and the pages of the client beside them.
//
// It scrapes its own metrics, tells by which of them each fault can be seen, and exits
// 0 only if all were, and if in a whole round each of Slicewire's instruments was not
// 0 at some time.
//
// The servers come from package sdktest; the client, in client.go, is what a program
// of yours would have, with shorter timings.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// settings are what flags say.
type settings struct {
	listen string
	dwell  time.Duration
	lasts  time.Duration
	once   bool
	faults []string // nil: all
	log    bool
}

func main() {
	var s settings
	// The port is the one at which OpenTelemetry's exporters for Prometheus listen.
	flag.StringVar(&s.listen, "listen", "127.0.0.1:9464", "address of the metrics and pages; with \":9464\" a Prometheus in a container gets there too")
	flag.DurationVar(&s.dwell, "dwell", time.Second, "how long each step of a fault lasts at least; longer than your Prometheus takes between two scrapes")
	flag.DurationVar(&s.lasts, "for", 0, "end after so long; 0 is never")
	flag.BoolVar(&s.once, "once", false, "end after one round of all faults")
	flag.BoolVar(&s.log, "log", false, "print what the client logs")
	only := flag.String("faults", "", "only these faults, separated by commas (the words in brackets)")
	flag.Parse()
	if *only != "" {
		s.faults = strings.Split(*only, ",")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, s); err != nil {
		fmt.Printf("\nFAILED: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nThe metrics showed everything that happened.")
}

func run(ctx context.Context, s settings) error {
	if s.lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.lasts)
		defer cancel()
	}
	st, err := newStage(ctx, s)
	if err != nil {
		return err
	}
	defer st.close()
	faults, err := st.schedule()
	if err != nil {
		return err
	}
	st.whereToLook(faults)

	for round := 1; ; round++ {
		if err := st.round(ctx, faults, s.faults == nil); err != nil {
			return err
		}
		fmt.Printf("\n== After %d rounds: %d RPCs, of which %d failed; %d faults, of which %d were not seen\n",
			round, st.load.sent.Load(), st.load.failed.Load(), st.happened, len(st.problems))
		if s.once || ctx.Err() != nil {
			break
		}
	}
	if st.happened == 0 {
		return errors.New("no fault had the time to happen")
	}
	return errors.Join(st.problems...)
}

// round has the faults happen, one after the other, and notes what was not seen of
// them. What ctx cuts off counts for nothing.
func (st *stage) round(ctx context.Context, faults []fault, whole bool) error {
	for i := range faults {
		unseen, err := st.happen(ctx, i+1, &faults[i])
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case unseen != nil:
			st.problems = append(st.problems, unseen)
		}
		st.happened++
	}
	if whole && st.happened == len(faults) { // the first one
		if unseen := st.scraper.unseen(); len(unseen) > 0 {
			st.problems = append(st.problems, fmt.Errorf("0 or absent all the time: %s", strings.Join(unseen, ", ")))
		}
	}
	return nil
}

// schedule is the faults that happen, in their order.
func (st *stage) schedule() ([]fault, error) {
	servers, sharding, own := st.serverFaults(), st.shardingFaults(), st.ownFaults()
	all := append(append(servers, sharding...), own...)
	if st.settings.faults == nil {
		return all, nil
	}
	var list []fault
	for _, id := range st.settings.faults {
		n := len(list)
		var ids []string
		for _, f := range all {
			ids = append(ids, f.id)
			if f.id == id {
				list = append(list, f)
			}
		}
		if len(list) == n {
			return nil, fmt.Errorf("there is no fault %q; there are: %s", id, strings.Join(ids, ", "))
		}
	}
	return list, nil
}

func (st *stage) whereToLook(faults []fault) {
	fmt.Printf("== Where to look\n")
	for _, line := range st.places() {
		say("%s", line)
	}
	fmt.Printf("\n== Who is there\n")
	for _, b := range st.servers.cluster.Backends() {
		say("%-8s of main     %s", b.Name(), b.Addr())
	}
	say("%-8s of standby  %s", "standby", st.servers.standby.Addr())
	say("%-8s of replica  %s", "replica", st.servers.replica.Addr())
	say("%-8s service     %s", "sharding", st.servers.cluster.Sharding().Addr())
	say("RPCs of the group default go to main, else standby; those of the group read to replica, else standby")
	say("%d faults follow each other; each line with a time is a query and what it shows", len(faults))
}

func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }
