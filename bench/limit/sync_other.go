//go:build !linux

package limit

import (
	"errors"
	"os"
)

func datasync(f *os.File) error { return f.Sync() }

func forget(*os.File) error {
	return errors.New("dropping pages from the cache works on Linux only")
}
