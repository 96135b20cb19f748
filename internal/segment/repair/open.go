package repair

import (
	"errors"
	"fmt"

	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Open recovers the log in dir, see store.Recover.
//
// The error is ErrNoLog if there is none, and a *CorruptError if durable bytes are damaged. No
// file has changed in these cases.
func Open(disk vfs.FS, dir string, o store.Options) (*store.Store, error) {
	return open(store.Recover, disk, dir, o)
}

// OpenReadOnly is like Open, for reading while no process writes to the log, see
// store.OpenReadOnly.
func OpenReadOnly(disk vfs.FS, dir string, o store.Options) (*store.Store, error) {
	return open(store.OpenReadOnly, disk, dir, o)
}

func open(how func(vfs.FS, string, store.Options) (*store.Store, error), disk vfs.FS, dir string, o store.Options) (*store.Store, error) {
	s, err := how(disk, dir, o)
	var suspect *store.SuspectError
	if errors.As(err, &suspect) {
		return nil, fmt.Errorf("open log in %s: %w", dir, diagnose(disk, dir, o, suspect))
	}
	return s, err
}
