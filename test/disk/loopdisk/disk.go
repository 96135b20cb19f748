package loopdisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrUnsupported is why Available fails on a system without loop mounts.
var ErrUnsupported = errors.New("loop mounts with a shutdown are known on Linux only")

// busyTime bounds how long Remount and Close wait for the last file of a process
// that has ended to be closed.
const busyTime = 10 * time.Second

// blockBytes is what ext4 gives to a file at least.
const blockBytes = 4096

// Disk is one file system and the file that holds it. Its methods are for one
// goroutine.
type Disk struct {
	image   string
	dir     string
	frozen  bool
	mounted bool
}

// Available reports whether a disk can be made here, by making a small one the
// first time it is asked: nil, or why not.
var Available = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "strandline-loopdisk-*")
	if err != nil {
		return err
	}
	d, err := New(filepath.Join(dir, "probe"), 16<<20)
	if err == nil {
		err = errors.Join(d.Cut(), d.Remount(), d.Close())
	}
	return errors.Join(err, os.RemoveAll(dir))
})

// New makes a disk of so many bytes, mounted at dir, which it makes; its image is
// the file dir + ".image", which takes up what is written only.
func New(dir string, size int64) (*Disk, error) {
	d := &Disk{image: dir + ".image", dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	image, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	err = errors.Join(image.Truncate(size), image.Close())
	if err == nil {
		// A node trims and recycles; blocks kept for root would be a size that
		// nobody sees.
		err = run("mkfs.ext4", "-q", "-F", "-m", "0", d.image)
	}
	if err == nil {
		err = d.mount()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Dir is where it is mounted.
func (d *Disk) Dir() string { return d.dir }

// Remount takes what is left after Cut, as the start of a machine does: the
// journal is replayed. No process may use the disk.
func (d *Disk) Remount() error {
	return errors.Join(d.unmount(), d.mount())
}

// Fill takes all room but so many bytes; Empty gives it back.
func (d *Disk) Fill(leave int64) error {
	free, err := d.free()
	if err != nil || free <= leave {
		return err
	}
	ballast, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	return errors.Join(grow(ballast, free-leave), ballast.Close())
}

// grow gives a file so many bytes, or as many as there are: the file system needs
// some of what it says is free for itself.
func grow(f *os.File, size int64) error {
	for at, step := int64(0), size; at < size && step >= blockBytes; {
		switch err := allocate(f, at, step); {
		case err == nil:
			at += step
		case errors.Is(err, syscall.ENOSPC):
			step /= 2
		default:
			return err
		}
	}
	return nil
}

// Empty ends Fill, for good: a power cut does not bring back what took the room.
func (d *Disk) Empty() error {
	if err := os.Remove(d.ballast()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Keep unmounts the disk and leaves its image.
func (d *Disk) Keep() error { return d.unmount() }

// Close unmounts the disk and removes it. No process may use it.
func (d *Disk) Close() error {
	err := d.unmount()
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(d.image), os.Remove(d.dir))
}

func (d *Disk) ballast() string { return filepath.Join(d.dir, "ballast") }

func (d *Disk) mount() error {
	if err := run("mount", "-t", "ext4", "-o", "loop", d.image, d.dir); err != nil {
		return err
	}
	d.mounted = true
	return nil
}

func (d *Disk) unmount() error {
	if !d.mounted {
		return nil
	}
	if d.frozen {
		if err := d.Thaw(); err != nil {
			return err
		}
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := run("umount", d.dir)
		if err == nil {
			d.mounted = false
			return nil
		}
		if time.Since(begin) > busyTime {
			return err
		}
	}
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
