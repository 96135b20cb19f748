//go:build race

package chaos

// raceEnabled: nodes run under the race detector, too.
const raceEnabled = true
