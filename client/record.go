package client

import (
	"bytes"
	"time"

	"strandline.dev/internal/record"
)

// MaxRecordBytes bounds the key, value and headers of one record together. It also bounds the
// records of one AppendBatch.
const MaxRecordBytes = record.MaxRecordBytes

// Record is one record of a log. A nil Key or Value is Kafka's null, which
// differs from an empty one.
type Record struct {
	// Offset is the position of the record in its log. Appends ignore it.
	Offset int64
	// Timestamp is the producer's time, with a precision of milliseconds. If it is zero, an append
	// sends the time at which the batch of the record was begun.
	Timestamp time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is a name and value that are stored with a record. Names may repeat.
type Header = record.Header

// Clone returns a copy of the record that stays valid when its Reader returns the
// next one.
func (r Record) Clone() Record {
	r.Key = bytes.Clone(r.Key)
	r.Value = bytes.Clone(r.Value)
	headers := make([]Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = Header{Key: h.Key, Value: bytes.Clone(h.Value)}
	}
	if r.Headers != nil {
		r.Headers = headers
	}
	return r
}

// Compression is how the records of a batch are compressed. Batches stay compressed in the log;
// every reader decompresses them itself.
type Compression = record.Codec

// The codecs, by Kafka's numbers.
const (
	None   = record.None
	Gzip   = record.Gzip
	Snappy = record.Snappy
	LZ4    = record.LZ4
	Zstd   = record.Zstd
)

// ParseCompression parses none, gzip, snappy, lz4 or zstd.
func ParseCompression(name string) (Compression, error) { return record.ParseCodec(name) }
