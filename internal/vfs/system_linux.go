package vfs

import "golang.org/x/sys/unix"

// direct opens a file past the page cache.
const direct = unix.O_DIRECT

// datasync makes the bytes of a file durable, and of its metadata what finds them.
func datasync(fd int) error { return unix.Fdatasync(fd) }

// willNeed has the page cache read ahead. It is advice: reading works without it, so its error has no reader.
func willNeed(fd int, position, length int64) {
	_ = unix.Fadvise(fd, position, length, unix.FADV_WILLNEED)
}

// dontNeed drops clean pages. It is advice: without it bytes are read from memory.
func dontNeed(fd int, position, length int64) {
	_ = unix.Fadvise(fd, position, length, unix.FADV_DONTNEED)
}
