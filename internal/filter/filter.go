// Package filter decides which records a reader gets, and what of each: a Spec says so, New
// checks it, and a Filter is asked of one record after the other where it lies. Conditions
// on keys and headers look at the bytes; an expression (expression.go) is in CEL.
package filter

import (
	"bytes"
	"fmt"
	"slices"

	"strandline.dev/internal/record"
)

// Spec is what a reader asks for. All conditions that are set have to hold.
type Spec struct {
	Keys       [][]byte        // the key is one of these
	Prefixes   [][]byte        // the key begins with one of these
	Headers    []record.Header // a header of that name has that value, for each
	Where      string          // an expression that is true
	SkipFailed bool            // a record that the expression fails on is left out
	Projection Projection
}

// Projection is what of a record is not sent.
type Projection struct {
	DropKey, DropValue, DropHeaders bool
	ValueBytes                      int64    // at most; 0: all
	JSONFields                      []string // of a value that is an object
}

// Limits of a Spec.
const (
	MaxConditions      = 10_000
	MaxHeaders         = 100 // of the conditions: each looks at all headers of a record
	MaxExpressionBytes = 16 << 10
	MaxJSONFields      = 100
	maxFieldDepth      = 10
	cheapHeaders       = 4 // conditions that take no turn
)

// Filter answers for one read. It is for one goroutine.
type Filter struct {
	spec     Spec
	wanted   keySet              // of the spec and of the expression
	keys     map[string]struct{} // of wanted; nil: any
	prefixes [][]byte            // of wanted, sorted, none begins with another; nil: any
	where    *expression         // nil: none
	project  bool
	fields   fieldTree // of JSONFields
}

// New checks a spec. The error is a *record.Refusal: FilterInvalid, with the place in
// the expression if it is about that, or Invalid.
func New(s Spec) (*Filter, error) {
	if n := len(s.Keys) + len(s.Prefixes) + len(s.Headers); n > MaxConditions {
		return nil, record.Refuse(record.Invalid, "a filter of %d keys, prefixes and headers, the limit is %d", n, MaxConditions)
	}
	if n := len(s.Headers); n > MaxHeaders {
		return nil, record.Refuse(record.Invalid, "a filter of %d headers, the limit is %d", n, MaxHeaders)
	}
	p := s.Projection
	switch {
	case p.ValueBytes < 0:
		return nil, record.Refuse(record.Invalid, "a projection to %d bytes of the value", p.ValueBytes)
	case p.DropValue && (p.ValueBytes > 0 || len(p.JSONFields) > 0), p.ValueBytes > 0 && len(p.JSONFields) > 0:
		return nil, record.Refuse(record.Invalid, "a projection takes no value, its first bytes or some of its fields: one of them")
	case len(p.JSONFields) > MaxJSONFields:
		return nil, record.Refuse(record.Invalid, "a projection to %d fields, the limit is %d", len(p.JSONFields), MaxJSONFields)
	}
	f := &Filter{spec: s, wanted: keySet{s.Keys, s.Prefixes}, project: p.DropKey || p.DropValue || p.DropHeaders || p.ValueBytes > 0 || len(p.JSONFields) > 0}
	var err error
	if f.fields, err = newFieldTree(p.JSONFields); err != nil {
		return nil, err
	}
	if s.Where != "" {
		if f.where, err = compile(s.Where); err != nil {
			return nil, err
		}
		f.wanted = f.wanted.within(f.where.keys)
	}
	f.prefixes = shortest(f.wanted.prefixes)
	if len(f.wanted.keys) > 0 {
		f.keys = make(map[string]struct{}, len(f.wanted.keys))
		for _, k := range f.wanted.keys {
			f.keys[string(k)] = struct{}{}
		}
	}
	return f, nil
}

// Keys are the only ones that a record may have; none: any.
func (f *Filter) Keys() [][]byte { return f.wanted.keys }

// Prefixes are such that a record's key begins with one of them; none: any.
func (f *Filter) Prefixes() [][]byte { return f.prefixes }

// Costly reports whether a record may take long: there is an expression, JSON to read, or
// more than a few headers to compare.
func (f *Filter) Costly() bool {
	return f.where != nil || f.fields != nil || len(f.spec.Headers) > cheapHeaders
}

// SkipFailed reports whether a record that the expression fails on is left out.
func (f *Filter) SkipFailed() bool { return f.spec.SkipFailed }

// Whole reports whether records that are kept are sent as they are.
func (f *Filter) Whole() bool { return !f.project }

// Keep reports whether the newest record of a walk is wanted. The error is of the
// expression: it says what failed, not where. The expression is not evaluated where it is
// false for the record's key, whatever else it says.
func (f *Filter) Keep(w *record.Walk) (bool, error) {
	if f.keys != nil {
		if key := w.Key(); key == nil {
			return false, nil
		} else if _, ok := f.keys[string(key)]; !ok {
			return false, nil
		}
	}
	if f.prefixes != nil && !hasPrefix(w.Key(), f.prefixes) {
		return false, nil
	}
	for i := range f.spec.Headers {
		if !hasHeader(w, &f.spec.Headers[i]) {
			return false, nil
		}
	}
	if f.where == nil {
		return true, nil
	}
	return f.where.holds(w)
}

// shortest sorts prefixes and leaves out those that begin with another.
func shortest(prefixes [][]byte) [][]byte {
	var kept [][]byte
	for _, p := range slices.SortedFunc(slices.Values(prefixes), bytes.Compare) {
		if len(kept) == 0 || !bytes.HasPrefix(p, kept[len(kept)-1]) {
			kept = append(kept, p)
		}
	}
	return kept
}

// hasPrefix reports whether a key begins with one of the shortest prefixes. Only the last
// that is not behind the key can be it: between a prefix and its keys are such as begin
// with it.
func hasPrefix(key []byte, prefixes [][]byte) bool {
	if key == nil {
		return false
	}
	i, is := slices.BinarySearchFunc(prefixes, key, bytes.Compare)
	return is || i > 0 && bytes.HasPrefix(key, prefixes[i-1])
}

// hasHeader reports whether one of the headers has the name and the value; null is equal to
// null only.
func hasHeader(w *record.Walk, h *record.Header) bool {
	for name, value := range w.Headers {
		if string(name) == h.Key && bytes.Equal(value, h.Value) && (value == nil) == (h.Value == nil) {
			return true
		}
	}
	return false
}

// Add takes the newest record of the walk into a selection, as the projection wants it.
func (f *Filter) Add(s *record.Selection, w *record.Walk) {
	if !f.project {
		s.Add(w)
		return
	}
	p := &f.spec.Projection
	key, value := w.Key(), w.Value()
	if p.DropKey {
		key = nil
	}
	switch {
	case p.DropValue:
		value = nil
	case p.ValueBytes > 0 && int64(len(value)) > p.ValueBytes:
		value = value[:p.ValueBytes]
	case f.fields != nil:
		value = f.fields.project(value)
	}
	s.AddWith(w, key, value, !p.DropHeaders)
}

// Failed is the error that ends a read at a record which the expression fails on.
func Failed(o record.Offset, err error) *record.Refusal {
	r := record.Refuse(record.FilterFailed, "the expression fails on the record at offset %d: %v", o, err)
	r.At = o
	return r
}

func invalid(line, column int, format string, args ...any) *record.Refusal {
	r := record.Refuse(record.FilterInvalid, "line %d, column %d of the expression: %s", line, column, short(fmt.Sprintf(format, args...)))
	r.Line, r.Column = line, column
	return r
}
