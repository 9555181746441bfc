//go:build unix

package main

import (
	"syscall"
	"time"
)

// processCPU is the CPU time that the process has had. Unlike time on the clock
// it does not grow while another process has the CPU.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("bench: getrusage of this process failed: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
