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
	s, err := store.Recover(disk, dir, o)
	var suspect *store.SuspectError
	if errors.As(err, &suspect) {
		return nil, fmt.Errorf("open log in %s: %w", dir, diagnose(disk, dir, o, suspect))
	}
	return s, err
}
