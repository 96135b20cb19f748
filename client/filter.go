package client

import (
	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Filter selects records at the server: those for which all conditions that are set hold.
// A Reader with a filter reports its progress by Offset and WithProgressHandler, also while
// no record is selected.
type Filter struct {
	// Keys: the key is one of these. A record without a key has none of them.
	Keys [][]byte
	// KeyPrefixes: the key begins with one of these.
	KeyPrefixes [][]byte
	// Headers: for each, a header of that name has that value.
	Headers []Header
	// Where is an expression in CEL that is true: docs/filters.md lists what it can name. A
	// fault in it ends the read with ErrFilterInvalid.
	Where string
	// OnFailed is called, from Next, for each record that Where fails on, which is left out.
	// Where it is nil, the first such record ends the read with ErrFilterFailed. After the
	// Reader had to connect anew it may be called again for a record.
	OnFailed func(offset int64, why string)
}

// Projection says what of a record is not sent; it looks as if it had been appended without.
type Projection struct {
	DropKey, DropValue, DropHeaders bool
	// ValueBytes is how many bytes of the value are sent at most; 0: all.
	ValueBytes int64
	// JSONFields are the fields of a value that is a JSON object that are sent: a.b is field
	// b of the object a. Any other value becomes nil.
	JSONFields []string
}

// WithFilter reads the records that f selects. WithMaxRecords then counts those, and
// WithMaxBytes the bytes of batches as they are sent. Default: all records.
func WithFilter(f Filter) ReaderOption { return func(o *readerOptions) { o.filter = &f } }

// WithProjection reads of each record what p leaves. Default: all.
func WithProjection(p Projection) ReaderOption { return func(o *readerOptions) { o.projection = &p } }

// WithProgressHandler has Next call h when a Reader with a filter or a projection has moved
// without a record: everything below offset has been looked at, and end is the committed end.
// While records are scanned that is so at least once a second.
func WithProgressHandler(h func(offset, end int64)) ReaderOption {
	return func(o *readerOptions) { o.onProgress = h }
}

// selects reports whether frames may leave records out.
func (o *readerOptions) selects() bool { return o.filter != nil || o.projection != nil }

// choose puts filter and projection into a request.
func (o *readerOptions) choose(q *strandlinev1.ReadRequest) {
	if f := o.filter; f != nil {
		q.Filter = &strandlinev1.Filter{Keys: f.Keys, KeyPrefixes: f.KeyPrefixes, Where: f.Where, SkipFailed: f.OnFailed != nil}
		for _, h := range f.Headers {
			q.Filter.Headers = append(q.Filter.Headers, &strandlinev1.Header{Key: h.Key, Value: h.Value})
		}
	}
	if p := o.projection; p != nil {
		q.Projection = &strandlinev1.Projection{
			DropKey: p.DropKey, DropValue: p.DropValue, DropHeaders: p.DropHeaders, ValueBytes: p.ValueBytes, JsonFields: p.JSONFields,
		}
	}
}

// report names records of a frame that the expression failed on and that were left out.
func (o *readerOptions) report(all []*strandlinev1.FailedRecord, from int64) {
	for _, failed := range all {
		if o.filter != nil && o.filter.OnFailed != nil && failed.Offset >= from {
			o.filter.OnFailed(failed.Offset, failed.Message)
		}
	}
}
