//go:build !race

package sim

// seedsUsually is how many seeds a plain go test runs.
const seedsUsually = 160

// sparse: of the seeds, or steps, of other tests every one.
const sparse = 1
