//go:build race

package sim

// seedsUsually is lower with the race detector, for which one thread has little
// to find.
const seedsUsually = 20
