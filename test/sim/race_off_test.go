//go:build !race

package sim

// seedsUsually is how many seeds a plain go test runs.
const seedsUsually = 160
