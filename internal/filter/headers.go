package filter

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"strandline.dev/internal/record"
)

// headers is CEL's map of a record's headers by name. It reads the encoded record. If several
// headers have the same name, the last one is used, as in Kafka's clients.
type headers struct {
	walk    *record.Walk
	lookups int
	all     map[string]string // filled after many look-ups, or when all are needed
}

// manyLookups is the number of look-ups from which on all headers are copied.
const manyLookups = 8

// Find implements traits.Mapper.
func (h *headers) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	if h.lookups++; h.all != nil || h.lookups > manyLookups {
		if found, has := h.copied()[string(name)]; has {
			return types.String(found), true
		}
		return nil, false
	}
	var found []byte
	has := false
	for n, value := range h.walk.Headers {
		if string(n) == string(name) {
			found, has = value, true
		}
	}
	if !has {
		return nil, false
	}
	return types.String(found), true
}

// Get implements traits.Indexer.
func (h *headers) Get(key ref.Val) ref.Val {
	found, ok := h.Find(key)
	switch {
	case ok:
		return found
	case found != nil:
		return found // an error
	}
	return types.NewErr("no such header: %v", key)
}

// Contains implements traits.Container.
func (h *headers) Contains(key ref.Val) ref.Val {
	_, ok := h.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (h *headers) Size() ref.Val { return h.mapped().Size() }

// Iterator implements traits.Iterable.
func (h *headers) Iterator() traits.Iterator { return h.mapped().Iterator() }

// Equal implements ref.Val.
func (h *headers) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*headers); ok {
		other = o.mapped()
	}
	return h.mapped().Equal(other)
}

// ConvertToNative implements ref.Val.
func (h *headers) ConvertToNative(t reflect.Type) (any, error) { return h.mapped().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (h *headers) ConvertToType(t ref.Type) ref.Val { return h.mapped().ConvertToType(t) }

// Type implements ref.Val.
func (h *headers) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (h *headers) Value() any { return h.copied() }

// String omits the content, which keeps the record out of messages.
func (h *headers) String() string { return fmt.Sprintf("headers of offset %d", h.walk.Offset()) }

func (h *headers) mapped() traits.Mapper {
	return types.NewStringStringMap(types.DefaultTypeAdapter, h.copied())
}

// copied returns all headers by name.
func (h *headers) copied() map[string]string {
	if h.all == nil {
		h.all = map[string]string{}
		for name, value := range h.walk.Headers {
			h.all[string(name)] = string(value)
		}
	}
	return h.all
}
