//go:build race

package assignment

// The race detector allows some 8,000 goroutines at a time.
const crowdSize = 1_000
