package loopdisk

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's numbers, which golang.org/x/sys does not have.
const (
	goingDown       = 0x8004587d // FS_IOC_GOINGDOWN, and EXT4_IOC_SHUTDOWN
	withoutFlushing = 2          // FS_GOING_FLAGS_NOLOGFLUSH
	freeze          = 0xc0045877 // FIFREEZE
	thaw            = 0xc0045878 // FITHAW
)

// Cut takes the power away: every write and sync fails from now on, and what was
// not synced is not written any more. Remount gives the power back.
func (d *Disk) Cut() error {
	how := uint32(withoutFlushing)
	return d.control("cut the power of", goingDown, unsafe.Pointer(&how))
}

// Freeze makes every write and sync wait until Thaw, as a disk does that hangs.
// A process that waits cannot even be killed.
func (d *Disk) Freeze() error {
	err := d.control("freeze", freeze, nil)
	d.frozen = err == nil
	return err
}

// Thaw ends Freeze.
func (d *Disk) Thaw() error {
	d.frozen = false
	return d.control("thaw", thaw, nil)
}

func (d *Disk) control(what string, request uintptr, argument unsafe.Pointer) error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, _, failed := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), request, uintptr(argument)); failed != 0 {
		return fmt.Errorf("%s the disk at %s: %w", what, d.dir, failed)
	}
	return nil
}

func (d *Disk) free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

func allocate(f *os.File, from, size int64) error {
	return unix.Fallocate(int(f.Fd()), 0, from, size)
}
