package node

import (
	"context"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica"
	"strandline.dev/internal/sequence"
)

// Leases of sessions.
const (
	DefaultLease = time.Minute
	MinLease     = time.Second
	MaxLease     = 24 * time.Hour
)

// OpenSession begins an append session on a log. lease 0 means DefaultLease.
func (n *Node) OpenSession(ctx context.Context, _ Caller, log string, lease time.Duration) (Session, error) {
	h, refusal := n.userLog(log)
	if refusal != nil {
		return Session{}, refusal
	}
	if lease == 0 {
		lease = DefaultLease
	}
	if lease < MinLease || lease > MaxLease {
		return Session{}, record.Refuse(record.Invalid, "a lease of %v is not between %v and %v", lease, MinLease, MaxLease)
	}
	id, err := n.sessions.next(ctx, n.catalog.Load())
	if err != nil {
		return Session{}, err
	}
	c := record.Command{Kind: record.OpenSession, Session: id, Lease: uint32(lease.Milliseconds())}
	if _, err := h.command(ctx, c); err != nil {
		return Session{}, err
	}
	return Session{ID: id, Lease: lease}, nil
}

// KeepSession renews a session's lease, as every append does.
func (n *Node) KeepSession(ctx context.Context, _ Caller, log string, id record.SessionID) error {
	h, refusal := n.userLog(log)
	if refusal != nil {
		return refusal
	}
	_, err := h.await(ctx, func(done func(sequence.Answer)) {
		if r := h.replica.Do(func(c *replica.Core) { c.KeepSession(id, done) }); r != nil {
			done(sequence.Answer{Refusal: r})
		}
	})
	return err
}

// CloseSession ends a session: its appends are refused from then on.
func (n *Node) CloseSession(ctx context.Context, _ Caller, log string, id record.SessionID) error {
	h, refusal := n.userLog(log)
	if refusal != nil {
		return refusal
	}
	_, err := h.command(ctx, record.Command{Kind: record.CloseSession, Session: id})
	return err
}

// Resolve tells what became of one record of a session, and the session's
// epoch. With final a record that is not in the log never will be: the epoch
// is ended first.
func (n *Node) Resolve(ctx context.Context, _ Caller, log string, id record.SessionID, epoch record.Epoch, number record.Sequence, final bool) (sequence.Outcome, record.Epoch, error) {
	h, refusal := n.userLog(log)
	if refusal != nil {
		return sequence.Outcome{}, 0, refusal
	}
	found, err := h.resolve(ctx, id, epoch, number)
	settled := found.State != sequence.Pending && found.State != sequence.NotNow
	if err != nil || !final || settled {
		return found.Outcome, found.Epoch, err
	}
	// What is in flight is ordered before the end of the epoch.
	if _, err := h.command(ctx, record.Command{Kind: record.EndEpoch, Session: id, Epoch: epoch}); err != nil {
		return sequence.Outcome{}, 0, err
	}
	found, err = h.resolve(ctx, id, epoch, number)
	return found.Outcome, found.Epoch, err
}

func (h *hosted) resolve(ctx context.Context, id record.SessionID, epoch record.Epoch, number record.Sequence) (replica.Resolution, error) {
	var found replica.Resolution // belongs to the log's loop until the answer is there
	_, err := h.await(ctx, func(done func(sequence.Answer)) {
		settle := func(f replica.Resolution, r *record.Refusal) {
			found = f
			done(sequence.Answer{Refusal: r})
		}
		if r := h.replica.Do(func(c *replica.Core) { c.Resolve(id, epoch, number, settle) }); r != nil {
			settle(replica.Resolution{}, r)
		}
	})
	if err != nil {
		return replica.Resolution{}, err
	}
	return found, nil
}

// sessionIDs hands out ids from a block reserved in the catalog. Ids left over
// when the node stops are lost; there are enough.
type sessionIDs struct {
	turn       chan struct{}    // holds one while somebody takes an id, or reserves more
	from, till record.SessionID // half-open
}

// sessionBlock is how many ids one change of the catalog reserves.
const sessionBlock = 1000

func (s *sessionIDs) next(ctx context.Context, c *catalog) (record.SessionID, error) {
	// Reserving takes long while the catalog has no majority: who does not wait
	// any longer must not take its turn in that.
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, record.Refuse(record.Busy, "no session id could be reserved in time: the catalog may have no majority of nodes")
	}
	defer func() { <-s.turn }()
	if s.from == s.till {
		from, err := c.reserveSessions(ctx, sessionBlock)
		if err != nil {
			return 0, err
		}
		s.from, s.till = from, from+sessionBlock
	}
	id := s.from
	s.from++
	return id, nil
}
