package store

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// delay waits like a slow disk: in the kernel, as an fdatasync does. time.Sleep would also round
// up to the next millisecond on an idle machine.
func delay(d time.Duration) {
	rest := unix.NsecToTimespec(int64(d))
	for errors.Is(unix.Nanosleep(&rest, &rest), unix.EINTR) {
	}
}
