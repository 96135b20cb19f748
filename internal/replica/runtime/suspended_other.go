//go:build !linux

package runtime

import "time"

// suspensionClock returns how far the wall clock has come ahead of Go's: there is no clock on all of these
// systems that goes on while the machine is suspended. One that is set back hides a suspension.
func suspensionClock() func() time.Duration {
	started := time.Now()
	return func() time.Duration {
		now := time.Now()
		return now.Round(0).Sub(started.Round(0)) - now.Sub(started)
	}
}
