package logspecserver

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/api/logspec"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// replyBytes is the size at which a reply of entries ends. A client accepts 4 MiB by default; only
// a single larger entry makes a larger reply.
const replyBytes = 1 << 20

// signOfLife is sent often enough that a client notices within seconds that its
// connection is gone.
const signOfLife = 5 * time.Second

// Read sends the entries from an index on and follows the tail. It waits for an index beyond the
// next one, with heartbeats. Indexes that a fast-forward skipped are below the start, where a read
// is truncated, so no entry is ever marked to be skipped.
func (d *service) Read(q *logspec.ReadRequest, stream grpc.ServerStreamingServer[logspec.ReadReply]) error {
	ctx, cancel := d.server.UntilStop(stream.Context())
	defer cancel()
	err := d.read(ctx, q.GetNextIndex(), stream)
	switch {
	case redirect(err) != nil:
		return stream.Send(&logspec.ReadReply{Reply: &logspec.ReadReply_Redirect{Redirect: redirect(err)}})
	case is(err, record.OffsetTrimmed), is(err, record.DataLost):
		return stream.Send(&logspec.ReadReply{Reply: &logspec.ReadReply_Truncated{Truncated: true}})
	}
	return statusOf(ctx, err)
}

func (d *service) read(ctx context.Context, index uint64, stream grpc.ServerStreamingServer[logspec.ReadReply]) error {
	if index == 0 || index > math.MaxInt64 {
		return record.Refuse(record.Invalid, "index %d is below 1, the first index", index)
	}
	if err := d.ensureLog(ctx); err != nil {
		return err
	}
	replies := &replies{server: d.server, stream: stream}
	reader, err := d.begin(ctx, record.Offset(index-1), replies)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		idle, cancel := context.WithTimeout(ctx, d.signOfLife)
		chunk, err := reader.Next(idle)
		cancel()
		switch {
		case err == nil:
			stop := d.server.WatchReader(ctx, reader, d.log)
			err = replies.send(chunk)
			stop()
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			err = replies.flush()
		}
		if err != nil {
			return err
		}
	}
}

// begin begins to read at an offset, once the log reaches it.
func (d *service) begin(ctx context.Context, offset record.Offset, replies *replies) (guard.Reader, error) {
	q := reading.Request{
		From:   reading.From{Kind: reading.FromOffset, Offset: offset},
		Until:  reading.NoOffset,
		Follow: true,
		// Whoever was answered of an append by another node sees it here.
		Consistency: reading.ConsistencyLinearizable,
		Metered:     true,
	}
	for {
		reader, err := d.node.Read(ctx, guard.CallerOf(ctx), d.log, q)
		if !is(err, record.OffsetBeyondEnd) {
			return reader, err
		}
		known, err := d.node.KnownInfo(guard.CallerOf(ctx), d.log)
		for err == nil && known.End < offset {
			idle, cancel := context.WithTimeout(ctx, d.signOfLife)
			var changed verbs.Info
			changed, err = d.node.WatchInfo(idle, guard.CallerOf(ctx), d.log, known)
			cancel()
			switch {
			case err == nil:
				known = changed
			case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
				err = replies.flush()
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// replies turns chunks into replies of entries.
type replies struct {
	server *rpc.Server
	stream grpc.ServerStreamingServer[logspec.ReadReply]
	chunk  reading.Chunk
	ok     logspec.ReadReply_OK
	size   int
	spare  []*logspec.Entry
}

func (f *replies) send(c reading.Chunk) error {
	f.chunk = c
	defer func() {
		f.chunk = reading.Chunk{}
		c.Release()
	}()
	for r, err := range f.chunk.Records(f.stream.Context()) {
		if err != nil {
			return err
		}
		if err := f.add(r); err != nil {
			return err
		}
	}
	return f.flush()
}

func (f *replies) add(r record.Record) error {
	const framing = 16
	if f.size > 0 && f.size+len(r.Value)+framing > replyBytes {
		if err := f.flush(); err != nil {
			return err
		}
	}
	e := new(logspec.Entry)
	if n := len(f.spare); n > 0 {
		e, f.spare = f.spare[n-1], f.spare[:n-1]
	}
	e.Index, e.Data = indexOf(r.Offset), r.Value
	f.ok.Entries = append(f.ok.Entries, e)
	f.size += len(r.Value) + framing
	return nil
}

// flush sends the entries so far; none are a sign of life.
func (f *replies) flush() error {
	err := f.server.SendToReader(f.stream, &logspec.ReadReply{Reply: &logspec.ReadReply_Ok{Ok: &f.ok}})
	for _, e := range f.ok.Entries {
		e.Data = nil
	}
	f.spare = append(f.spare, f.ok.Entries...)
	f.ok.Entries, f.size = f.ok.Entries[:0], 0
	f.chunk.Taken()
	return err
}
