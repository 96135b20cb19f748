package filter

import (
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"strandline.dev/internal/record"
)

const (
	// maxRead is how many bytes of a key, of all headers, or of a JSON value an expression reads.
	// Decoded JSON may take twenty times as much memory.
	maxRead = 1 << 20
	// maxHeaders is how many headers an expression reads.
	maxHeaders = 10_000
)

// subject is the record on which an expression is evaluated. Fields are decoded when the
// expression names them, and once.
type subject struct {
	walk       *record.Walk
	key, value ref.Val // nil: not decoded yet
	headers    headers
}

// Parent implements cel.Activation.
func (s *subject) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (s *subject) ResolveName(name string) (any, bool) {
	switch name {
	case "key":
		if s.key == nil {
			s.key = decodeKey(s.walk.Key())
		}
		return s.key, true
	case "headers":
		return s.readHeaders(), true
	case "timestamp":
		return types.Timestamp{Time: time.UnixMilli(s.walk.Timestamp()).UTC()}, true
	case "offset":
		return types.Int(s.walk.Offset()), true
	case "size":
		return types.Int(s.walk.Size()), true
	case "value":
		if s.value == nil {
			s.value = decodeJSON(s.walk.Value())
		}
		return s.value, true
	}
	return nil, false
}

func decodeKey(key []byte) ref.Val {
	if len(key) > maxRead {
		return types.NewErr("the key has %d bytes, an expression reads up to %d", len(key), maxRead)
	}
	return types.String(key)
}

func (s *subject) readHeaders() ref.Val {
	if count, bytes := s.walk.HeaderSizes(); count > maxHeaders || bytes > maxRead {
		return types.NewErr("there are %d headers of %d bytes, an expression reads up to %d of %d bytes", count, bytes, maxHeaders, maxRead)
	}
	s.headers.walk = s.walk
	return &s.headers
}
