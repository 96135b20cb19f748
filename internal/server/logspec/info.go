package logspecserver

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/api/logspec"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
)

// Discard trims the log. Beyond the tail it moves the log forward.
func (d *service) Discard(ctx context.Context, q *logspec.DiscardRequest) (*logspec.DiscardReply, error) {
	err := d.ensureLog(ctx)
	if first := q.GetFirstIndex(); err == nil && first > 1 {
		// An index too large for an offset turns negative, which is refused.
		_, _, err = d.node.Trim(ctx, guard.CallerOf(ctx), d.log, record.Offset(first-1), true)
	}
	if r := redirect(err); r != nil {
		return &logspec.DiscardReply{Reply: &logspec.DiscardReply_Redirect{Redirect: r}}, nil
	}
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	return &logspec.DiscardReply{Reply: &logspec.DiscardReply_Ok{Ok: new(logspec.DiscardReply_OK)}}, nil
}

// Info returns the first and last index.
func (d *service) Info(ctx context.Context, q *logspec.InfoRequest) (*logspec.InfoReply, error) {
	info, err := d.info(ctx, q.GetAllowStale())
	if r := redirect(err); r != nil {
		return &logspec.InfoReply{Reply: &logspec.InfoReply_Redirect{Redirect: r}}, nil
	}
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	return encodeInfo(info), nil
}

// infoInterval is how far apart the replies of InfoStream are at least.
const infoInterval = time.Second

// InfoStream sends what Info returns, at once and after changes.
func (d *service) InfoStream(q *logspec.InfoRequest, stream grpc.ServerStreamingServer[logspec.InfoReply]) error {
	ctx, cancel := d.server.UntilStop(stream.Context())
	defer cancel()
	pause := time.NewTicker(infoInterval)
	defer pause.Stop()
	info, err := d.info(ctx, q.GetAllowStale())
	for err == nil {
		if err = stream.Send(encodeInfo(info)); err != nil {
			break
		}
		select {
		case <-pause.C:
			info, err = d.node.WatchInfo(ctx, guard.CallerOf(ctx), d.log, info)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if r := redirect(err); r != nil {
		return stream.Send(&logspec.InfoReply{Reply: &logspec.InfoReply_Redirect{Redirect: r}})
	}
	return statusOf(ctx, err)
}

func (d *service) info(ctx context.Context, stale bool) (verbs.Info, error) {
	if err := d.ensureLog(ctx); err != nil {
		return verbs.Info{}, err
	}
	if stale {
		return d.node.KnownInfo(guard.CallerOf(ctx), d.log)
	}
	return d.node.Info(ctx, guard.CallerOf(ctx), d.log)
}

// encodeInfo describes the log as if it had the disk for itself: it is full when it has used all
// space that others leave.
func encodeInfo(i verbs.Info) *logspec.InfoReply {
	return &logspec.InfoReply{Reply: &logspec.InfoReply_Ok{Ok: &logspec.InfoReply_OK{
		FirstIndex: indexOf(i.Start),
		LastIndex:  uint64(i.End),
		BytesUsed:  uint64(i.BytesUsed),
		BytesTotal: uint64(i.BytesUsed + i.BytesFree),
	}}}
}
