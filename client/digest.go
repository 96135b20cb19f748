package client

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/digest"
)

// Digest is one hash of all records of a log below an offset. It is equal on every replica, and
// in a copy that has the same batches at the same offsets. docs/formats.md describes what is
// hashed.
type Digest struct {
	Hash [32]byte
	// At is the offset of the digest. It covers the records of [From, Covered), in whole batches.
	// From is above 0 if the log has records from before it had a digest.
	At, From, Covered int64
	Batches           int64
	// Start and End are those of the log, as the answering node knew it.
	Start, End int64
}

func (d Digest) String() string { return hex.EncodeToString(d.Hash[:]) }

// ParseDigest parses the result of Digest.String, for Prove. at is the offset of the digest.
func ParseDigest(text string, at int64) (Digest, error) {
	h, err := digest.ParseHash(text)
	if err != nil {
		return Digest{}, &Error{Reason: ErrInvalid.Reason, Message: err.Error()}
	}
	return Digest{Hash: h, At: at}, nil
}

// DigestAtEnd stands for the end of the log in calls of Client.Digest.
const DigestAtEnd int64 = -1

// Digest returns the digest at an offset within [Start, End], or at DigestAtEnd. The error is
// ErrPrecondition if the log had none there.
func (c *Client) Digest(ctx context.Context, log string, at int64) (Digest, error) {
	d := digests{c.Admin(), log}
	return d.ask(ctx, d.leader(), at, false)
}

// KnownDigest is like Digest for the records that one replica knows to be committed, which may be
// fewer than others know: that of the first address given to Dial that answers. It needs no
// leader.
func (c *Client) KnownDigest(ctx context.Context, log string, at int64) (Digest, error) {
	d := digests{c.Admin(), log}
	return d.ask(ctx, d.dialled(), at, true)
}

// Prove returns a record after checking a proof that it is in the log with the Hash and At of
// trusted. The error is ErrUnproven if the proof does not hold.
func (c *Client) Prove(ctx context.Context, log string, offset int64, trusted Digest) (Record, error) {
	d := digests{c.Admin(), log}
	return d.prove(ctx, d.leader(), offset, trusted, false)
}

// ProveKnown is like Prove, with a proof from the replica that KnownDigest uses.
func (c *Client) ProveKnown(ctx context.Context, log string, offset int64, trusted Digest) (Record, error) {
	d := digests{c.Admin(), log}
	return d.prove(ctx, d.dialled(), offset, trusted, true)
}

// digests computes digests of a log.
type digests struct {
	admin *Admin
	log   string
}

// leader returns the route to the leader: a follower would answer for its own replica.
func (a digests) leader() route { return readLeader{toLeader{a.admin.client.peers, a.log}} }

func (a digests) dialled() route { return &toDialled{peers: a.admin.client.peers} }

func (a digests) ask(ctx context.Context, on route, at int64, stale bool) (d Digest, err error) {
	q := &strandlinev1.DigestRequest{Log: a.log, AllowStale: stale}
	if at != DigestAtEnd {
		q.At = &at
	}
	err = a.admin.callOn(ctx, on, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).Digest(ctx, q)
		if err == nil {
			d, err = fromDigest(answer)
		}
		return err
	})
	return d, err
}

func fromDigest(w *strandlinev1.DigestResponse) (Digest, error) {
	d := Digest{
		At: w.GetAt(), From: w.GetFrom(), Covered: w.GetCovered(), Batches: int64(w.GetBatches()), Start: w.GetStartOffset(), End: w.GetEndOffset(),
	}
	if copy(d.Hash[:], w.GetDigest()) != len(d.Hash) || len(w.GetDigest()) != len(d.Hash) {
		return Digest{}, &Error{Reason: ErrCorrupt.Reason, Message: "the server answered with a digest of the wrong length"}
	}
	return d, nil
}

func (a digests) prove(ctx context.Context, on route, offset int64, trusted Digest, stale bool) (r Record, err error) {
	q := &strandlinev1.ProveRequest{Log: a.log, Offset: offset, At: &trusted.At, AllowStale: stale}
	var answer *strandlinev1.ProveResponse
	err = a.admin.callOn(ctx, on, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		answer, err = strandlinev1.NewLogServiceClient(conn).Prove(ctx, q)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	proof := digest.Proof{Batch: answer.GetBatch(), Number: answer.GetNumber(), Batches: answer.GetDigest().GetBatches()}
	for _, h := range answer.GetPath() {
		if len(h) != digest.HashSize {
			return Record{}, unproven(errors.New("a hash has the wrong length"))
		}
		proof.Path = append(proof.Path, digest.Hash(h))
	}
	if err := proof.Check(trusted.Hash); err != nil {
		return Record{}, unproven(err)
	}
	for one, err := range proof.Batch.Records {
		if err != nil {
			return Record{}, unproven(err)
		}
		if int64(one.Offset) == offset {
			return Record{Offset: offset, Timestamp: time.UnixMilli(one.Timestamp), Key: one.Key, Value: one.Value, Headers: one.Headers}.Clone(), nil
		}
	}
	return Record{}, unproven(errors.New("the server proved a different batch"))
}

func unproven(why error) *Error {
	return &Error{Reason: ErrUnproven.Reason, Message: why.Error(), cause: why}
}
