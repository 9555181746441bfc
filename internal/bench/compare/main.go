// Command compare measures Slicewire and its peers in one process and prints
// what came out beside the goals. See ../main.go for how to run it, and
// docs/performance.md for what the numbers mean.
//
// Ours and the peers take turns, in rounds; a ratio is the median over rounds,
// its spread the distance between the quartiles. Ratios of one run can be
// compared with those of another machine, times cannot. The exit code is 1 when
// a goal is missed by more than the spread, 2 when something did not work.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter rounds: under a minute")
	jsonFile := flag.String("json", "", "write the results to `FILE` too")
	only := flag.String("only", "", "run only the families of measures that match `REGEXP`")
	growth := flag.String("growth", "", "measure instead how costs grow with the number of slices, into `FILE` (CSV)")
	profile := flag.String("cpuprofile", "", "write a CPU profile of everything to `FILE`")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(fmt.Errorf("unexpected argument %q; all settings are flags, see -h", flag.Arg(0)))
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fail(fmt.Errorf("-only: %w", err))
	}
	size := full
	if *quick {
		size = short
	}
	if *profile != "" {
		stop, err := startProfile(*profile)
		if err != nil {
			fail(err)
		}
		defer stop()
	}

	if *growth != "" {
		if err := measureGrowth(size, *growth); err != nil {
			fail(err)
		}
		return
	}

	var rows []row
	matched := false
	for _, m := range measures {
		if !pattern.MatchString(m.name) {
			continue
		}
		matched = true
		began := time.Now()
		fmt.Fprintf(os.Stderr, "%-12s ", m.name)
		more, err := m.run(size)
		if err != nil {
			fail(fmt.Errorf("%s: %w", m.name, err))
		}
		fmt.Fprintf(os.Stderr, "%5.1f s\n", time.Since(began).Seconds())
		rows = append(rows, more...)
		debug.FreeOSMemory() // what one leaves must not weigh on the next
	}
	if !matched {
		fail(fmt.Errorf("-only %q matches no family of measures; there are: %s", *only, names(measures)))
	}
	if err := printTable(os.Stdout, rows); err != nil {
		fail(err)
	}
	if *jsonFile != "" {
		if err := writeJSON(*jsonFile, *quick, rows); err != nil {
			fail(err)
		}
	}
	if missed(rows) {
		pprof.StopCPUProfile() // a no-op without one
		os.Exit(1)
	}
}

func fail(err error) {
	pprof.StopCPUProfile()
	fmt.Fprintln(os.Stderr, "compare:", err)
	os.Exit(2)
}

func startProfile(name string) (stop func(), err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, nil
}
