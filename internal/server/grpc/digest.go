package grpcserver

import (
	"context"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

type digests interface {
	Digest(ctx context.Context, c verbs.Caller, log string, q verbs.DigestRequest) (verbs.Digest, error)
	Prove(ctx context.Context, c verbs.Caller, log string, offset record.Offset, q verbs.DigestRequest) (digest.Proof, verbs.Digest, error)
}

func (d *logService) Digest(ctx context.Context, q *strandlinev1.DigestRequest) (*strandlinev1.DigestResponse, error) {
	request, refusal := decodeDigest(q.At, q.GetAllowStale())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	found, err := d.node.Digest(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), request)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return encodeDigest(found), nil
}

func (d *logService) Prove(ctx context.Context, q *strandlinev1.ProveRequest) (*strandlinev1.ProveResponse, error) {
	request, refusal := decodeDigest(q.At, q.GetAllowStale())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	proof, of, err := d.node.Prove(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.Offset(q.GetOffset()), request)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	answer := &strandlinev1.ProveResponse{Digest: encodeDigest(of), Batch: proof.Batch, Number: proof.Number}
	for _, h := range proof.Path {
		answer.Path = append(answer.Path, h[:])
	}
	return answer, nil
}

func decodeDigest(at *int64, stale bool) (verbs.DigestRequest, *record.Refusal) {
	switch {
	case at == nil:
		return verbs.DigestRequest{At: -1, Stale: stale}, nil
	case *at < 0:
		return verbs.DigestRequest{}, record.Refuse(record.Invalid, "offset %d is below 0", *at)
	}
	return verbs.DigestRequest{At: record.Offset(*at), Stale: stale}, nil
}

func encodeDigest(d verbs.Digest) *strandlinev1.DigestResponse {
	return &strandlinev1.DigestResponse{
		LogId: d.Log, At: int64(d.At), From: int64(d.From), Covered: int64(d.Covered), Batches: d.Batches, Digest: d.Root[:],
		StartOffset: int64(d.Start), EndOffset: int64(d.End),
	}
}
