//go:build race

package segment_test

// sparse: of the places and seeds of tests with one thread, in which the race detector has
// nothing to find, every fifth.
const sparse = 5
