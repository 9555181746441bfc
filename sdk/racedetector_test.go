//go:build race

package sdk_test

// raceDetector says that the tests run under it.
const raceDetector = true
