//go:build race

package campaign

// raceEnabled: nodes run under the race detector, too.
const raceEnabled = true
