//go:build race

package assignment

// The race detector allows 8,128 goroutines at a time, other tests' included.
const crowdSize = 300
