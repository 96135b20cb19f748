package limit

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync is what the log does before it acknowledges.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

// forget asks the kernel to drop the file's pages from its cache. Only clean
// pages are dropped, so the file is synced first.
func forget(f *os.File) error {
	if err := datasync(f); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
