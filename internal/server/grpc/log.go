package grpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

type logs interface {
	Trim(ctx context.Context, c verbs.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error)
	Seal(ctx context.Context, c verbs.Caller, log string) (start, end record.Offset, err error)
	AcquireWriter(ctx context.Context, c verbs.Caller, log string) (record.WriterTerm, record.Offset, error)
	Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error)
	KnownInfo(c verbs.Caller, log string) (verbs.Info, error)
	WatchInfo(ctx context.Context, c verbs.Caller, log string, since verbs.Info) (verbs.Info, error)
}

type logService struct {
	strandlinev1.UnimplementedLogServiceServer
	server *rpc.Server
	node   Node
}

func (d *logService) Trim(ctx context.Context, q *strandlinev1.TrimRequest) (*strandlinev1.TrimResponse, error) {
	start, end, err := d.node.Trim(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.Offset(q.GetBefore()), q.GetFastForward())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.TrimResponse{StartOffset: int64(start), EndOffset: int64(end)}, nil
}

func (d *logService) Seal(ctx context.Context, q *strandlinev1.SealRequest) (*strandlinev1.SealResponse, error) {
	start, end, err := d.node.Seal(ctx, knowing(ctx, q.GetLogId()), q.GetLog())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.SealResponse{StartOffset: int64(start), EndOffset: int64(end)}, nil
}

func (d *logService) AcquireWriter(ctx context.Context, q *strandlinev1.AcquireWriterRequest) (*strandlinev1.AcquireWriterResponse, error) {
	term, end, err := d.node.AcquireWriter(ctx, knowing(ctx, q.GetLogId()), q.GetLog())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.AcquireWriterResponse{WriterTerm: uint64(term), EndOffset: int64(end)}, nil
}

func (d *logService) GetInfo(ctx context.Context, q *strandlinev1.GetInfoRequest) (*strandlinev1.GetInfoResponse, error) {
	var info verbs.Info
	var err error
	if q.GetAllowStale() {
		info, err = d.node.KnownInfo(knowing(ctx, q.GetLogId()), q.GetLog())
	} else {
		info, err = d.node.Info(ctx, knowing(ctx, q.GetLogId()), q.GetLog())
	}
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	holds, err := d.node.KnownHolds(knowing(ctx, info.ID), q.GetLog())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	answer := encodeInfo(info)
	answer.Holds = encodeHolds(holds)
	return &strandlinev1.GetInfoResponse{Info: answer}, nil
}

const (
	defaultWatchInterval = time.Second
	minWatchInterval     = 10 * time.Millisecond
)

// WatchInfo sends the state of the log at once and after changes. Changes within the interval are
// sent together.
func (d *logService) WatchInfo(q *strandlinev1.WatchInfoRequest, stream grpc.ServerStreamingServer[strandlinev1.WatchInfoResponse]) error {
	ctx, cancel := d.server.UntilStop(stream.Context())
	defer cancel()
	interval := defaultWatchInterval
	if i := q.GetMinInterval(); i != nil {
		if err := i.CheckValid(); err != nil {
			return rpc.StatusOf(ctx, record.Refuse(record.Invalid, "minimum interval: %v", err))
		}
		interval = max(i.AsDuration(), minWatchInterval)
	}
	info, err := d.node.Info(ctx, knowing(ctx, q.GetLogId()), q.GetLog())
	pause := time.NewTicker(interval)
	defer pause.Stop()
	for err == nil {
		if err = stream.Send(&strandlinev1.WatchInfoResponse{Info: encodeInfo(info)}); err != nil {
			break
		}
		select {
		case <-pause.C:
			info, err = d.node.WatchInfo(ctx, knowing(ctx, info.ID), q.GetLog(), info)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return rpc.StatusOf(ctx, err)
}
