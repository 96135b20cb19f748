package vfs

import "golang.org/x/sys/unix"

// direct opens a file past the page cache, which no flag of this system does.
const direct = 0

// datasync makes the bytes of a file durable: fsync leaves them in the disk's cache here.
func datasync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

// willNeed and dontNeed are advice that this system does not take in this form.
func willNeed(int, int64, int64) {}
func dontNeed(int, int64, int64) {}
