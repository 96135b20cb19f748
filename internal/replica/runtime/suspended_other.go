//go:build !linux

package runtime

import "time"

// suspensionClock returns how far the wall clock has advanced relative to Go's: not all of these
// systems have a clock that advances while the machine is suspended. Setting the wall clock back
// hides a suspension.
func suspensionClock() func() time.Duration {
	started := time.Now()
	return func() time.Duration {
		now := time.Now()
		return now.Round(0).Sub(started.Round(0)) - now.Sub(started)
	}
}
