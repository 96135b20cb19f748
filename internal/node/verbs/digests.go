package verbs

import (
	"context"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
)

// DigestRequest asks for the digest of a log.
type DigestRequest struct {
	// At is the offset below which records are digested; a negative value means the end.
	At record.Offset
	// Stale accepts the state of this node's replica without asking its leader.
	Stale bool
}

// Digest is the digest of the records from From on, in batches that end at or before At.
type Digest struct {
	Log        uint64 // id
	At         record.Offset
	From       record.Offset // above 0 where the log has records of before there were digests
	Covered    record.Offset // behind the last record covered: At, unless that lies within a batch
	Batches    uint64
	Root       digest.Hash
	Start, End record.Offset // bounds of the log when At was determined
}

// Digest returns the digest of a log. It is the same on every replica.
func (rd *Reads) Digest(ctx context.Context, c Caller, log string, q DigestRequest) (Digest, error) {
	h, d, err := rd.digestPlace(ctx, c, log, q)
	if err != nil {
		return Digest{}, err
	}
	tree, err := h.Replica.Digest(ctx, d.At)
	return d.of(h, tree, err)
}

// Prove returns a proof that the record at an offset is in a log, and the digest for the proof.
func (rd *Reads) Prove(ctx context.Context, c Caller, log string, offset record.Offset, q DigestRequest) (digest.Proof, Digest, error) {
	h, d, err := rd.digestPlace(ctx, c, log, q)
	if err != nil {
		return digest.Proof{}, Digest{}, err
	}
	if offset < d.Start {
		return digest.Proof{}, Digest{}, tail.RefuseTrimmed(h.Replica.Tail(), offset, d.Start)
	}
	p, tree, err := h.Replica.Prove(ctx, offset, d.At)
	d, err = d.of(h, tree, err)
	return p, d, err
}

// digestPlace finds the log, and the offset as of which a digest is wanted.
func (rd *Reads) digestPlace(ctx context.Context, c Caller, log string, q DigestRequest) (h *hosted.Log, d Digest, err error) {
	h, refusal := rd.finder.serving(c, log)
	if refusal != nil {
		return nil, d, refusal
	}
	if !q.Stale {
		if err := rd.makeSure(ctx, h, &reading.Request{Consistency: reading.ConsistencyLinearizable}); err != nil {
			return nil, d, err
		}
	}
	d.Log = h.ID
	if d.Start, d.End, err = h.Replica.Tail().Bounds(); err != nil {
		return nil, d, err
	}
	switch d.At = q.At; {
	case d.At < 0:
		d.At = d.End
	case d.At < d.Start:
		return nil, d, tail.RefuseTrimmed(h.Replica.Tail(), d.At, d.Start)
	case d.At > d.End:
		r := record.Refuse(record.OffsetBeyondEnd, "offset %d is beyond the end of the log, which is %d", d.At, d.End)
		r.End = d.End
		return nil, d, r
	}
	return h, d, nil
}

// of completes a digest with its tree.
func (d Digest) of(h *hosted.Log, t digest.Tree, err error) (Digest, error) {
	switch {
	case err != nil:
		return Digest{}, h.RefuseDamaged(err)
	case !t.Begun && d.At > 0:
		return Digest{}, record.Refuse(record.Precondition,
			"log %q has no digest at offset %d: it begins with the first append once the cluster is at feature level %d", h.Name, d.At, cluster.DigestLevel)
	}
	d.From, d.Covered, d.Batches, d.Root = t.From, min(t.End, d.At), t.Batches, t.Root()
	return d, nil
}
