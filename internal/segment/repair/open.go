package repair

import (
	"errors"
	"fmt"

	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Open recovers the log in dir, see Recover.
//
// ErrNoLog: there is none. *CorruptError: bytes that were durable are damaged; no
// file was changed.
func Open(disk vfs.FS, dir string, o store.Options) (*store.Store, error) {
	return open(store.Recover, disk, dir, o)
}

// OpenReadOnly is Open for reading while nobody writes, see store.OpenReadOnly.
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
