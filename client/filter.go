package client

import (
	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Filter selects records at the server: those for which all conditions that are set hold. A
// Reader with a filter reports its progress through Offset and WithProgressHandler, even while no
// record is selected.
type Filter struct {
	// Keys selects records whose key is one of these, and so no records without a key.
	Keys [][]byte
	// KeyPrefixes selects records whose key begins with one of these.
	KeyPrefixes [][]byte
	// Headers selects records that have a header with the name and value of each of these.
	Headers []Header
	// Where is an expression in CEL; it selects records for which it is true. docs/filters.md lists
	// its variables. An error in it ends the read with ErrFilterInvalid.
	Where string
	// OnFailed is called, from Next, for each record on which Where fails; the record is left out.
	// If OnFailed is nil, the first such record ends the read with ErrFilterFailed. After the Reader
	// had to reconnect, it may be called again for a record.
	OnFailed func(offset int64, why string)
}

// Projection describes which parts of a record are not sent. The record looks as if it had been
// appended without them.
type Projection struct {
	DropKey, DropValue, DropHeaders bool
	// ValueBytes is the maximum number of bytes of the value that are sent; 0: all.
	ValueBytes int64
	// JSONFields are the fields that are sent of a value that is a JSON object: a.b is field b of
	// the object a. Any other value becomes nil.
	JSONFields []string
}

// WithFilter reads the records that f selects. WithMaxRecords then counts these, and WithMaxBytes
// the bytes of batches as they are sent. Default: all records.
func WithFilter(f Filter) ReaderOption { return func(o *readerOptions) { o.filter = &f } }

// WithProjection reads only the parts of each record that p retains. Default: all.
func WithProjection(p Projection) ReaderOption { return func(o *readerOptions) { o.projection = &p } }

// WithProgressHandler makes Next call h when a Reader with a filter or a projection has advanced
// without a record: everything below offset has been scanned, and end is the committed end. While
// records are scanned, h is called at least once per second.
func WithProgressHandler(h func(offset, end int64)) ReaderOption {
	return func(o *readerOptions) { o.onProgress = h }
}

// selects reports whether frames may omit records.
func (o *readerOptions) selects() bool { return o.filter != nil || o.projection != nil }

// choose adds filter and projection to a request.
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

// report passes on the records of a frame on which the expression failed and that were left out.
func (o *readerOptions) report(all []*strandlinev1.FailedRecord, from int64) {
	for _, failed := range all {
		if o.filter != nil && o.filter.OnFailed != nil && failed.Offset >= from {
			o.filter.OnFailed(failed.Offset, failed.Message)
		}
	}
}
