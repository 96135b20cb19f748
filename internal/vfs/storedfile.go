package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// storedFile reads what the disk has. With O_DIRECT the page cache is passed by:
// what is dirty in it is written first. Where the file system knows no O_DIRECT,
// pages that are clean and not in use elsewhere are dropped before they are read;
// others are read from memory.
type storedFile struct {
	osFile
	mu     sync.Mutex
	direct bool
	memory []byte // aligned
}

// directAlignment suits every disk.
const directAlignment = 4096

func (osFS) OpenStored(name string) (File, error) {
	f, err := open(name, os.O_RDONLY|direct)
	if errors.Is(err, unix.EINVAL) {
		f, err = open(name, os.O_RDONLY)
		return &storedFile{osFile: osFile{f}}, err
	}
	if err != nil {
		return nil, err
	}
	return &storedFile{osFile: osFile{f}, direct: direct != 0}, nil
}

func (f *storedFile) ReadAt(b []byte, position int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.direct {
		n, err := f.readDirect(b, position)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, 0); err != nil {
			return 0, &os.PathError{Op: "fcntl", Path: f.Name(), Err: err}
		}
		f.direct = false
	}
	dontNeed(int(f.Fd()), position, int64(len(b)))
	return f.File.ReadAt(b, position)
}

// readDirect reads whole blocks, and takes b out of them.
func (f *storedFile) readDirect(b []byte, position int64) (int, error) {
	from := position &^ (directAlignment - 1)
	to := (position + int64(len(b)) + directAlignment - 1) &^ (directAlignment - 1)
	blocks := f.aligned(int(to - from))
	n, err := f.File.ReadAt(blocks, from)
	if err != nil && err != io.EOF {
		return 0, err
	}
	got := copy(b, blocks[min(int(position-from), n):n])
	if got < len(b) {
		return got, io.EOF
	}
	return got, nil
}

// aligned returns memory that begins at a multiple of directAlignment.
func (f *storedFile) aligned(size int) []byte {
	if len(f.memory) < size {
		memory := make([]byte, size+directAlignment)
		skip := -uintptr(unsafe.Pointer(&memory[0])) & (directAlignment - 1)
		f.memory = memory[skip : int(skip)+size]
	}
	return f.memory[:size]
}
