//go:build !race

package cluster

// raceEnabled: a test under the race detector runs nodes under it, too.
const raceEnabled = false
