//go:build !race

package assignment

const crowdSize = 10_000
