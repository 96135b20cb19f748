package grpcserver

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

type writers interface {
	LeaseWriter(ctx context.Context, c verbs.Caller, log string, w record.Writer, wait time.Duration) (verbs.WriterGrant, error)
	KeepWriter(ctx context.Context, c verbs.Caller, log string, term record.WriterTerm) error
	ReleaseWriter(ctx context.Context, c verbs.Caller, log string, term record.WriterTerm, to string) error
	WatchWriter(ctx context.Context, c verbs.Caller, log string, seen *verbs.WriterState, after time.Duration) (verbs.WriterState, error)
}

func (d *logService) LeaseWriter(ctx context.Context, q *strandlinev1.LeaseWriterRequest) (*strandlinev1.LeaseWriterResponse, error) {
	lease, refusal := milliseconds("lease", q.GetLease(), math.MaxUint32)
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	wait, refusal := milliseconds("wait", q.GetWait(), verbs.MaxWriterWait.Milliseconds())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	// A node that stops answers those who wait: they call the next leader.
	ctx, cancel := d.server.UntilStop(ctx)
	defer cancel()
	w := record.Writer{Name: q.GetName(), Payload: q.GetPayload(), Lease: uint32(lease)}
	grant, err := d.node.LeaseWriter(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), w, time.Duration(wait)*time.Millisecond)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.LeaseWriterResponse{
		WriterTerm: uint64(grant.Term), EndOffset: int64(grant.End), LogId: grant.Log, State: encodeWriter(grant.State),
	}, nil
}

func (d *logService) KeepWriter(ctx context.Context, q *strandlinev1.KeepWriterRequest) (*strandlinev1.KeepWriterResponse, error) {
	if err := d.node.KeepWriter(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.WriterTerm(q.GetWriterTerm())); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.KeepWriterResponse{}, nil
}

func (d *logService) ReleaseWriter(ctx context.Context, q *strandlinev1.ReleaseWriterRequest) (*strandlinev1.ReleaseWriterResponse, error) {
	if err := d.node.ReleaseWriter(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.WriterTerm(q.GetWriterTerm()), q.GetTo()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.ReleaseWriterResponse{}, nil
}

const (
	defaultWriterInterval = time.Second
	minWriterInterval     = 100 * time.Millisecond
)

// WatchWriter sends the holder of the writer lease at once, after changes and every interval. It ends
// when this node no longer leads the log.
func (d *logService) WatchWriter(q *strandlinev1.WatchWriterRequest, stream grpc.ServerStreamingServer[strandlinev1.WatchWriterResponse]) error {
	ctx, cancel := d.server.UntilStop(stream.Context())
	defer cancel()
	interval := defaultWriterInterval
	if i := q.GetInterval(); i != nil {
		if err := i.CheckValid(); err != nil {
			return rpc.StatusOf(ctx, record.Refuse(record.Invalid, "interval: %v", err))
		}
		interval = max(i.AsDuration(), minWriterInterval)
	}
	state, err := d.node.WatchWriter(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), nil, 0)
	for err == nil {
		if err = stream.Send(&strandlinev1.WatchWriterResponse{State: encodeWriter(state)}); err != nil {
			break
		}
		state, err = d.node.WatchWriter(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), &state, interval)
	}
	return rpc.StatusOf(ctx, err)
}

func encodeWriter(s verbs.WriterState) *strandlinev1.WriterState {
	w := &strandlinev1.WriterState{WriterTerm: uint64(s.Holder.Term), Name: s.Holder.Name, Waiting: int32(s.Waiting)}
	if w.Name == "" {
		return w
	}
	w.Payload = s.Holder.Payload
	w.Lease = durationpb.New(time.Duration(s.Holder.Lease) * time.Millisecond)
	w.Left = durationpb.New(time.Duration(s.Left) * time.Millisecond)
	w.Since = new(timestamppb.Timestamp)
	w.Since.Seconds, w.Since.Nanos = splitMillis(s.Holder.Leased)
	return w
}
