//go:build !race

package cluster

// RaceEnabled: a test under the race detector runs nodes under it, too.
const RaceEnabled = false
