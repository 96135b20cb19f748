//go:build !linux

package loopdisk

import "os"

// Cut is known on Linux only, as is all below.
func (d *Disk) Cut() error { return ErrUnsupported }

// Freeze does nothing here.
func (d *Disk) Freeze() error { return ErrUnsupported }

// Thaw does nothing here.
func (d *Disk) Thaw() error { return ErrUnsupported }

func (d *Disk) free() (int64, error) { return 0, ErrUnsupported }

func allocate(*os.File, int64, int64) error { return ErrUnsupported }
