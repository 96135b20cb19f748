// Package filter decides which records a reader gets, and which parts of each. A Spec describes
// the selection, New checks it, and a Filter is applied to one encoded record after another.
// Conditions on keys and headers compare bytes; an expression (expression.go) is in CEL.
package filter

import (
	"bytes"
	"fmt"
	"slices"

	"strandline.dev/internal/record"
)

// Spec describes a selection of records. All conditions that are set must hold.
type Spec struct {
	Keys       [][]byte        // the key is one of these
	Prefixes   [][]byte        // the key begins with one of these
	Headers    []record.Header // for each of these there is a header with that name and value
	Where      string          // this expression is true
	SkipFailed bool            // records on which the expression fails are left out
	Projection Projection
}

// Projection describes which parts of a record are not sent.
type Projection struct {
	DropKey, DropValue, DropHeaders bool
	ValueBytes                      int64    // at most this many bytes of the value; 0: all
	JSONFields                      []string // only these fields of a value that is a JSON object
}

// Limits of a Spec.
const (
	MaxConditions      = 10_000
	MaxHeaders         = 100 // each condition on a header reads all headers of a record
	MaxExpressionBytes = 16 << 10
	MaxJSONFields      = 100
	maxFieldDepth      = 10
	cheapHeaders       = 4 // conditions that do not make a filter costly
)

// Filter selects records for one read. It must be used by one goroutine at a time.
type Filter struct {
	spec     Spec
	wanted   keySet              // of the spec and of the expression
	keys     map[string]struct{} // of wanted; nil: any
	prefixes [][]byte            // of wanted, sorted; none begins with another; nil: any
	where    *expression         // nil: none
	project  bool
	fields   fieldTree // of JSONFields
}

// New checks a spec and returns its filter. The error is a *record.Refusal: FilterInvalid, with
// the place in the expression if it concerns that, or Invalid.
func New(s Spec) (*Filter, error) {
	if n := len(s.Keys) + len(s.Prefixes) + len(s.Headers); n > MaxConditions {
		return nil, record.Refuse(record.Invalid, "the filter has %d keys, prefixes and headers, the limit is %d", n, MaxConditions)
	}
	if n := len(s.Headers); n > MaxHeaders {
		return nil, record.Refuse(record.Invalid, "the filter has %d headers, the limit is %d", n, MaxHeaders)
	}
	p := s.Projection
	switch {
	case p.ValueBytes < 0:
		return nil, record.Refuse(record.Invalid, "a projection cannot keep %d bytes of the value", p.ValueBytes)
	case p.DropValue && (p.ValueBytes > 0 || len(p.JSONFields) > 0), p.ValueBytes > 0 && len(p.JSONFields) > 0:
		return nil, record.Refuse(record.Invalid, "a projection must either drop the value, keep its first bytes, or keep some of its fields")
	case len(p.JSONFields) > MaxJSONFields:
		return nil, record.Refuse(record.Invalid, "the projection has %d fields, the limit is %d", len(p.JSONFields), MaxJSONFields)
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

// Keys returns the keys that a selected record can have; none: any.
func (f *Filter) Keys() [][]byte { return f.wanted.keys }

// Prefixes returns prefixes with one of which the key of a selected record begins; none: any.
func (f *Filter) Prefixes() [][]byte { return f.prefixes }

// Costly reports whether a record may take long: the filter has an expression, reads JSON, or
// compares more than a few headers.
func (f *Filter) Costly() bool {
	return f.where != nil || f.fields != nil || len(f.spec.Headers) > cheapHeaders
}

// SkipFailed reports whether records on which the expression fails are left out.
func (f *Filter) SkipFailed() bool { return f.spec.SkipFailed }

// Whole reports whether selected records are sent unchanged.
func (f *Filter) Whole() bool { return !f.project }

// Keep reports whether the current record of a walk is selected. An error is that of the
// expression: it says what failed, not where. The expression is not evaluated if the record's key
// makes it false.
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

// shortest sorts prefixes and omits those that begin with another.
func shortest(prefixes [][]byte) [][]byte {
	var kept [][]byte
	for _, p := range slices.SortedFunc(slices.Values(prefixes), bytes.Compare) {
		if len(kept) == 0 || !bytes.HasPrefix(p, kept[len(kept)-1]) {
			kept = append(kept, p)
		}
	}
	return kept
}

// hasPrefix reports whether a key begins with one of the prefixes that shortest returned. Only
// the last prefix that is not greater than the key can match: all strings between a prefix and a
// key that begins with it also begin with the prefix.
func hasPrefix(key []byte, prefixes [][]byte) bool {
	if key == nil {
		return false
	}
	i, is := slices.BinarySearchFunc(prefixes, key, bytes.Compare)
	return is || i > 0 && bytes.HasPrefix(key, prefixes[i-1])
}

// hasHeader reports whether one of the headers has the name and the value; null equals only null.
func hasHeader(w *record.Walk, h *record.Header) bool {
	for name, value := range w.Headers {
		if string(name) == h.Key && bytes.Equal(value, h.Value) && (value == nil) == (h.Value == nil) {
			return true
		}
	}
	return false
}

// Add adds the current record of the walk to a selection, with the projection applied.
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

// Failed returns the error that ends a read at a record on which the expression fails.
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
