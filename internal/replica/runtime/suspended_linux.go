package runtime

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspensionClock returns how far CLOCK_BOOTTIME, which advances while the machine is suspended,
// is ahead of CLOCK_MONOTONIC, which Go uses. If a virtual machine is paused without being
// notified, neither clock shows it.
func suspensionClock() func() time.Duration {
	return func() time.Duration {
		var all, awake unix.Timespec
		// In this order, so that the time between the two calls does not count as a suspension. They do
		// not fail on any kernel that Go supports.
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &all)
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake)
		return time.Duration(all.Nano() - awake.Nano())
	}
}
