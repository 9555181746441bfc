//go:build !unix

package main

import "time"

var processStart = time.Now()

// processCPU stands in for CPU time where we do not know how to ask for it.
func processCPU() time.Duration { return time.Since(processStart) }
