package grpcserver

import (
	"sort"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
)

// frameBytes is the size at which a frame of decoded records ends. gRPC clients accept messages of
// up to 4 MiB by default, so only a single record larger than that makes a larger frame.
const frameBytes = 1 << 20

// localFrameBytes is the same where frames become text of another port, which a slow client holds.
const localFrameBytes = 64 << 10

// recordFrames decodes chunks into frames of plain records, cut exactly.
type recordFrames struct {
	stream *readStream
	most   int // bytes of a frame
	chunk  reading.Chunk
	frame  strandlinev1.ReadResponse
	size   int
	// With a filter: the first offset of the next frame, and the failed records that it must list.
	selected bool
	first    record.Offset
	failed   []reading.Failed
	// spare are messages of frames that were sent, to be filled again.
	spare []*strandlinev1.Record
}

func (f *recordFrames) send(c reading.Chunk) error {
	f.chunk = c
	defer func() {
		f.chunk.Taken() // also what was inflated for no record
		f.chunk = reading.Chunk{}
		c.Release()
	}()
	f.frame.LogId = f.stream.id
	f.frame.StartOffset, f.frame.EndOffset = int64(c.Start), int64(c.End)
	f.frame.Age = nil
	if c.Age != reading.UnknownAge {
		f.frame.Age = durationpb.New(c.Age)
	}
	f.selected, f.first, f.failed = c.Selected, c.First, c.Failed
	for r, err := range f.chunk.Records(f.stream.stream.Context()) {
		if err != nil {
			return err
		}
		if err := f.add(r); err != nil {
			return err
		}
	}
	return f.flush(c.Next)
}

func (f *recordFrames) add(r record.Record) error {
	size := record.MaxEncodedSize(r.Key, r.Value, r.Headers)
	if f.size > 0 && f.size+size > f.most {
		if err := f.flush(r.Offset); err != nil {
			return err
		}
	}
	m := f.message()
	m.Offset, m.Key, m.Value = int64(r.Offset), r.Key, r.Value
	m.Timestamp.Seconds, m.Timestamp.Nanos = splitMillis(r.Timestamp)
	m.Headers = m.Headers[:0]
	for _, h := range r.Headers {
		// Kafka's producers may use any bytes as a header's name; protobuf strings are UTF-8.
		name := strings.ToValidUTF8(h.Key, "\uFFFD")
		m.Headers = append(m.Headers, &strandlinev1.Header{Key: name, Value: h.Value})
	}
	f.frame.Records = append(f.frame.Records, m)
	f.size += size
	return nil
}

func (f *recordFrames) message() *strandlinev1.Record {
	if n := len(f.spare); n > 0 {
		m := f.spare[n-1]
		f.spare = f.spare[:n-1]
		return m
	}
	return &strandlinev1.Record{Timestamp: new(timestamppb.Timestamp)}
}

// flush sends the records collected so far. With a filter, the frame covers the selected records
// below next.
func (f *recordFrames) flush(next record.Offset) error {
	records := f.frame.Records
	switch {
	case f.selected:
		n := sort.Search(len(f.failed), func(i int) bool { return f.failed[i].Offset >= next })
		f.frame.FirstOffset, f.frame.NextOffset, f.frame.Failed = int64(f.first), new(int64(next)), failedRecords(f.failed[:n])
		f.first, f.failed = next, f.failed[n:]
	case len(records) == 0:
		return nil
	default:
		f.frame.FirstOffset = records[0].Offset
	}
	f.frame.RecordCount = int32(len(records))
	err := f.stream.server.SendToReader(f.stream.stream, &f.frame)
	for _, m := range records {
		m.Key, m.Value = nil, nil // chunks are not kept for a slow stream's sake
		clear(m.Headers)
	}
	f.spare = append(f.spare, records...)
	f.frame.Records, f.size = records[:0], 0
	f.chunk.Taken()
	return err
}

// Protobuf's timestamps are those of the years 1 to 9999, in unix milliseconds: JSON has no others.
const (
	firstMillis = -62_135_596_800_000
	lastMillis  = 253_402_300_799_999
)

// splitMillis splits unix milliseconds the way a protobuf timestamp wants them. A time that it cannot express, which
// producers may have stored, becomes the nearest that it can.
func splitMillis(ms int64) (seconds int64, nanos int32) {
	ms = min(max(ms, firstMillis), lastMillis)
	seconds, rest := ms/1000, ms%1000
	if rest < 0 {
		seconds, rest = seconds-1, rest+1000
	}
	return seconds, int32(rest * 1e6)
}
