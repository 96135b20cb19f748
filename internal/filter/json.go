package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"strandline.dev/internal/record"
)

var errMore = errors.New("more data follows the JSON value")

// decodeJSON returns the value as CEL's type, null if there is none, or a CEL error.
func decodeJSON(value []byte) ref.Val {
	if value == nil {
		return types.NullValue
	}
	if len(value) > maxRead {
		return types.NewErr("the value has %d bytes, JSON is read up to %d", len(value), maxRead)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errMore
		}
	}
	if err != nil {
		return types.NewErr("the value is not JSON: %v", err)
	}
	return types.DefaultTypeAdapter.NativeToValue(numbers(v))
}

// numbers converts JSON numbers to integers if they are integers, and to floats otherwise.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64() // beyond the range it is infinite
		return f
	case map[string]any:
		for name, inner := range v {
			v[name] = numbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = numbers(inner)
		}
	}
	return v
}

// fieldTree is the wanted fields of an object, by name; a nil value means the whole field.
type fieldTree map[string]fieldTree

// newFieldTree parses paths such as a.b. It returns nil if there are none.
func newFieldTree(paths []string) (fieldTree, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := fieldTree{}
	for _, path := range paths {
		names := strings.Split(path, ".")
		if len(names) > maxFieldDepth || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || path == "" || strings.Contains(path, "..") {
			return nil, record.Refuse(record.Invalid, "the path of a JSON field must be 1 to %d names separated by dots, not %q", maxFieldDepth, path)
		}
		at := root
		for i, name := range names {
			below, there := at[name]
			if there && below == nil {
				break // the whole field is wanted already
			}
			if i == len(names)-1 {
				at[name] = nil
				break
			}
			if below == nil {
				below = fieldTree{}
				at[name] = below
			}
			at = below
		}
	}
	return root, nil
}

// project returns an object with only the wanted fields, or nil if value is not an object.
func (t fieldTree) project(value []byte) []byte {
	if len(value) > maxRead {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(value, &all) != nil || all == nil {
		return nil
	}
	for name, field := range all {
		below, wanted := t[name]
		switch {
		case !wanted:
			delete(all, name)
		case below != nil:
			if inner := below.project(field); inner != nil {
				all[name] = inner
			} else {
				delete(all, name)
			}
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return out
}
