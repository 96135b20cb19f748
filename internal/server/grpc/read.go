package grpcserver

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/wire"
)

const (
	defaultHeartbeat = 5 * time.Second
	minHeartbeat     = 100 * time.Millisecond
)

// reads are what reads ask of a node.
type reads interface {
	Read(ctx context.Context, c verbs.Caller, log string, q reading.Request) (guard.Reader, error)
	KnownInfo(c verbs.Caller, log string) (verbs.Info, error)
}

// readStream is one Read stream. It waits for a slow client: gRPC gets a chunk after it has sent
// the previous one. The stream reads the next chunk meanwhile, and releases it if sending takes
// long.
type readStream struct {
	*logService
	stream    grpc.ServerStream
	files     rpc.FileStream // that stream, if it sends from files
	log       string
	id        uint64 // of the log
	reader    guard.Reader
	next      record.Offset // of the next record to send
	selected  bool          // the read has a filter or a projection
	follow    bool
	heartbeat time.Duration
	send      func(reading.Chunk) error
	sent      chan struct{} // of capacity 1: gRPC has sent the chunk it was given
	// taken is when the client last took some of a file, in unix ns; 0: none is being sent.
	taken atomic.Int64
}

// takeTime is how long a client may accept no bytes of a file. Until then the file is kept for it,
// even if it has been trimmed.
const takeTime = time.Minute

// Drop implements rpc.Reader.
func (s *readStream) Drop(end func()) {
	if taken := s.taken.Load(); taken != 0 && time.Since(time.Unix(0, taken)) >= takeTime {
		end()
	}
	s.reader.Drop(end)
}

// Read serves a read until a limit, the end of the log or, if it follows, until
// the client leaves, the log can no longer be read or the server stops. A read
// that follows gets a frame without records at once, which shows the offset at
// which it begins.
func (d *logService) Read(q *strandlinev1.ReadRequest, stream grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
	ctx, cancel := d.server.UntilStop(stream.Context())
	defer cancel()
	request, refusal := decodeRead(q)
	if refusal != nil {
		return rpc.StatusOf(ctx, refusal)
	}
	request.Metered, request.Little = true, rpc.IsLocal(ctx) && q.GetFormat() == strandlinev1.ReadFormat_READ_FORMAT_BATCHES
	files, _ := stream.(rpc.FileStream)
	if g, ok := stream.(*grpc.GenericServerStream[strandlinev1.ReadRequest, strandlinev1.ReadResponse]); ok {
		files, _ = g.ServerStream.(rpc.FileStream)
	}
	request.Stored = !q.GetVerify() && files != nil && files.SendsFiles() && q.GetFormat() == strandlinev1.ReadFormat_READ_FORMAT_BATCHES &&
		request.MaxRecords == 0 && request.MaxBytes == 0 && request.UntilTime == 0 && request.Filter == nil
	reader, err := d.node.Read(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), request)
	if err != nil {
		return rpc.StatusOf(ctx, err)
	}
	defer reader.Close()
	s := &readStream{
		logService: d, stream: stream, files: files, log: q.GetLog(), id: reader.Log(), reader: reader, next: reader.First(),
		selected: request.Filter != nil, follow: request.Follow, heartbeat: defaultHeartbeat, sent: make(chan struct{}, 1),
	}
	if q.GetHeartbeat() != nil {
		s.heartbeat = max(q.GetHeartbeat().AsDuration(), minHeartbeat)
	}
	s.send = s.sendBatches
	if q.GetFormat() != strandlinev1.ReadFormat_READ_FORMAT_BATCHES {
		frames := &recordFrames{stream: s, most: frameBytes}
		if rpc.IsLocal(ctx) {
			frames.most = localFrameBytes
		}
		s.send = frames.send
	}
	return rpc.StatusOf(ctx, s.run(ctx))
}

func (s *readStream) run(ctx context.Context) error {
	if s.follow {
		if err := s.sendHeartbeat(); err != nil {
			return err
		}
	}
	for {
		chunk, err := s.wait(ctx)
		switch {
		case err == nil:
			bytes := chunk.Bytes
			stop := s.server.WatchReader(ctx, s, s.log)
			err = s.send(chunk)
			stop()
			s.server.SentToReader(bytes)
			s.next = chunk.Through()
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errIdle):
			err = s.sendHeartbeat()
		}
		if err != nil {
			return err
		}
	}
}

// errIdle means that there was nothing to send for the time of a heartbeat.
var errIdle = errors.New("nothing to read now")

func (s *readStream) wait(ctx context.Context) (reading.Chunk, error) {
	if !s.follow {
		return s.reader.Next(ctx)
	}
	idle, cancel := context.WithTimeout(ctx, s.heartbeat)
	defer cancel()
	chunk, err := s.reader.Next(idle)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = errIdle
	}
	return chunk, err
}

func (s *readStream) sendBatches(c reading.Chunk) error {
	if len(c.Stored.Batches) > 0 {
		return s.sendStored(c)
	}
	if !wire.Counted(c.Parts) {
		parts := [][]byte{slices.Concat(c.Parts...)}
		c.Release()
		c.Parts, c.Release = parts, func() {}
	}
	frame := s.frameOf(c)
	frame.Parts, frame.Sent = c.Parts, func() {
		c.Release()
		s.sent <- struct{}{}
	}
	err := s.stream.SendMsg(frame)
	if err != nil || !wire.Counted(c.Parts) {
		return err // too little to wait for
	}
	select {
	case <-s.sent:
		return nil
	case <-s.stream.Context().Done():
		return s.stream.Context().Err()
	case <-s.server.Stopping().Done():
		return rpc.ErrStopping
	}
}

func (s *readStream) frameOf(c reading.Chunk) *wire.ReadFrame {
	return &wire.ReadFrame{
		LogID: s.id, First: int64(c.First), Count: int32(c.Count), Start: int64(c.Start), End: int64(c.End),
		Age: c.Age, HasAge: c.Age != reading.UnknownAge,
		Next: int64(c.Next), HasNext: c.Selected, Failed: failedRecords(c.Failed),
	}
}

// sendStored lets the kernel send batches from their file. If the file cannot be read, its bytes
// count as unverified again. The client, which verifies the batches, continues at its position, and
// the server verifies the file again.
func (s *readStream) sendStored(c reading.Chunk) error {
	defer c.Release()
	s.taken.Store(time.Now().UnixNano())
	defer s.taken.Store(0)
	head, tail := s.frameOf(c).Around(c.Bytes)
	err := s.files.SendFrom(head, c.Bytes, func(send lean.SendFile) error {
		for _, b := range c.Stored.Batches {
			for position, left := b.Position, b.Size; left > 0; {
				n, err := send(c.Stored.File, position, left)
				s.taken.Store(time.Now().UnixNano())
				if err != nil {
					if rpc.FileFailed(err) {
						c.Stored.Distrust()
					}
					return err
				}
				position, left = position+int64(n), left-n
			}
		}
		return nil
	}, tail)
	if err == nil {
		s.server.SentFromFile(c.Bytes)
	}
	return err
}

func (s *readStream) sendHeartbeat() error {
	info, err := s.node.KnownInfo(knowing(s.stream.Context(), s.id), s.log)
	if err != nil {
		return err
	}
	return s.stream.SendMsg(&wire.ReadFrame{
		LogID: s.id, First: int64(s.next), Start: int64(info.Start), End: int64(info.End), Age: info.Age, HasAge: info.Age != reading.UnknownAge,
		Next: int64(s.next), HasNext: s.selected,
	})
}

// decodeRead turns a request into the node's terms.
func decodeRead(q *strandlinev1.ReadRequest) (reading.Request, *record.Refusal) {
	r := reading.Request{
		MaxRecords: q.GetMaxRecords(),
		MaxBytes:   q.GetMaxBytes(),
		Until:      reading.NoOffset,
		Follow:     q.GetFollow(),
	}
	if q.UntilOffset != nil {
		r.Until = record.Offset(q.GetUntilOffset())
		if r.Until < 0 {
			return r, record.Refuse(record.Invalid, "until_offset %d is below 0", r.Until)
		}
	}
	if t := q.GetUntilTime(); t != nil {
		if err := t.CheckValid(); err != nil {
			return r, record.Refuse(record.Invalid, "until time: %v", err)
		}
		r.UntilTime = max(t.AsTime().UnixMilli(), 1) // 0 would mean no limit
	}
	switch from := q.GetFrom().(type) {
	case *strandlinev1.ReadRequest_Offset:
		r.From = reading.From{Kind: reading.FromOffset, Offset: record.Offset(from.Offset)}
	case *strandlinev1.ReadRequest_Time:
		if err := from.Time.CheckValid(); err != nil {
			return r, record.Refuse(record.Invalid, "from time: %v", err)
		}
		r.From = reading.From{Kind: reading.FromTime, Time: from.Time.AsTime().UnixMilli()}
	case *strandlinev1.ReadRequest_Position:
		if from.Position == strandlinev1.ReadPosition_READ_POSITION_TAIL {
			r.From.Kind = reading.FromTail
		}
	}
	if refusal := decodeConsistency(q, &r); refusal != nil {
		return r, refusal
	}
	r.Filter = decodeFilter(q)
	h := q.GetHeartbeat()
	switch {
	case r.MaxRecords < 0 || r.MaxBytes < 0:
		return r, record.Refuse(record.Invalid, "max_records or max_bytes is below 0")
	case r.From.Kind == reading.FromOffset && r.From.Offset < 0:
		return r, record.Refuse(record.Invalid, "offset %d is below 0", r.From.Offset)
	case h != nil && h.CheckValid() != nil:
		return r, record.Refuse(record.Invalid, "heartbeat: %v", h.CheckValid())
	case !known(strandlinev1.ReadFormat_name, q.GetFormat()) || !known(strandlinev1.ReadPosition_name, q.GetPosition()):
		return r, record.Refuse(record.Unsupported, "unknown format %v or position %v", q.GetFormat(), q.GetPosition())
	}
	return r, nil
}

// decodeConsistency converts the requested consistency. A client that requests none gets
// linearizable reads, which are the hardest to misunderstand.
func decodeConsistency(q *strandlinev1.ReadRequest, r *reading.Request) *record.Refusal {
	r.Consistency = reading.ConsistencyLinearizable
	switch c := q.GetConsistency().(type) {
	case *strandlinev1.ReadRequest_Level:
		switch c.Level {
		case strandlinev1.ReadConsistency_READ_CONSISTENCY_ANY:
			r.Consistency = reading.ConsistencyAny
		case strandlinev1.ReadConsistency_READ_CONSISTENCY_UNSPECIFIED, strandlinev1.ReadConsistency_READ_CONSISTENCY_LINEARIZABLE:
		default:
			return record.Refuse(record.Unsupported, "unknown consistency %v", c.Level)
		}
	case *strandlinev1.ReadRequest_AtLeastOffset:
		r.Consistency, r.AtLeast = reading.ConsistencyAtLeast, record.Offset(c.AtLeastOffset)
		if r.AtLeast < 0 {
			return record.Refuse(record.Invalid, "at_least_offset %d is below 0", r.AtLeast)
		}
	case *strandlinev1.ReadRequest_MaxAge:
		if err := c.MaxAge.CheckValid(); err != nil {
			return record.Refuse(record.Invalid, "max_age: %v", err)
		}
		r.Consistency, r.MaxAge = reading.ConsistencyBounded, c.MaxAge.AsDuration()
		if r.MaxAge <= 0 {
			return record.Refuse(record.Invalid, "max_age must be above 0, not %v; use a linearizable read instead", r.MaxAge)
		}
	}
	return nil
}

// known reports whether an enum value has a name: proto3 accepts others.
func known[E ~int32](names map[int32]string, value E) bool {
	_, ok := names[int32(value)]
	return ok
}

// decodeFilter returns what the client wants of the records; nil: all of all. The node
// checks it when it knows that the client may read.
func decodeFilter(q *strandlinev1.ReadRequest) *filter.Spec {
	if q.Filter == nil && q.Projection == nil {
		return nil
	}
	f, p := q.GetFilter(), q.GetProjection()
	spec := &filter.Spec{
		Keys: f.GetKeys(), Prefixes: f.GetKeyPrefixes(), Where: f.GetWhere(), SkipFailed: f.GetSkipFailed(),
		Projection: filter.Projection{
			DropKey: p.GetDropKey(), DropValue: p.GetDropValue(), DropHeaders: p.GetDropHeaders(),
			ValueBytes: p.GetValueBytes(), JSONFields: p.GetJsonFields(),
		},
	}
	for _, h := range f.GetHeaders() {
		spec.Headers = append(spec.Headers, record.Header{Key: h.GetKey(), Value: h.Value})
	}
	return spec
}

func failedRecords(all []reading.Failed) []*strandlinev1.FailedRecord {
	if len(all) == 0 {
		return nil
	}
	named := make([]*strandlinev1.FailedRecord, len(all))
	for i, f := range all {
		named[i] = &strandlinev1.FailedRecord{Offset: int64(f.Offset), Message: f.Message}
	}
	return named
}
