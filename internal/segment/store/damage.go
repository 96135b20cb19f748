package store

import (
	"errors"
	"io/fs"
	"strings"

	"strandline.dev/internal/segment"
)

// DamagedSegment returns the segment that an error of reading a log names, if a
// replica may continue while that one is repaired.
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
