//go:build race

package sim

// seedsUsually is lower with the race detector, for which one thread has little
// to find.
const seedsUsually = 20

// sparse: of the seeds, or steps, of other tests every eighth.
const sparse = 8
