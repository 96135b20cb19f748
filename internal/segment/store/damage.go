package store

import (
	"errors"
	"io/fs"
	"strings"

	"strandline.dev/internal/segment"
)

// DamagedSegment returns the segment file that a read error names. ok reports whether a replica
// may continue while that segment is repaired.
func DamagedSegment(cause error) (file string, ok bool) {
	var corrupt *segment.CorruptError
	var missing *fs.PathError
	switch {
	case errors.As(cause, &corrupt):
		file = corrupt.File
	case errors.Is(cause, fs.ErrNotExist) && errors.As(cause, &missing):
		file = missing.Path
	}
	return file, strings.HasSuffix(file, ".seg") && !strings.Contains(file, "*") && (corrupt == nil || !corrupt.Renew)
}
