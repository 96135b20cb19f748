package runtime

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspensionClock returns how far CLOCK_BOOTTIME, which goes on while the machine is suspended, is ahead of
// CLOCK_MONOTONIC, which Go measures with. A virtual machine that is paused without being told shows it
// in neither.
func suspensionClock() func() time.Duration {
	return func() time.Duration {
		var all, awake unix.Timespec
		// In this order, so that what passes between the two is not taken for a suspension. They fail
		// on no kernel that Go runs on.
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &all)
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake)
		return time.Duration(all.Nano() - awake.Nano())
	}
}
