package verbs

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// Sessions opens, keeps, closes and resolves append sessions, and grants writer terms.
type Sessions struct {
	catalog *catalog.Shared
	self    *peers.Self
	finder  *Finder
	IDs     SessionIDs
}

// NewSessions returns the verbs of sessions and writers. It reserves no session ids.
func NewSessions(catalog *catalog.Shared, self *peers.Self, finder *Finder) *Sessions {
	return &Sessions{catalog: catalog, self: self, finder: finder, IDs: SessionIDs{Turn: make(chan struct{}, 1)}}
}

// maxProducers bounds what Producers returns, maxListedSessions what ListSessions does at a time.
const (
	maxProducers      = 10_000
	maxListedSessions = 1_000
)

// Leases of sessions.
const (
	DefaultLease = time.Minute
	MinLease     = time.Second
	MaxLease     = 24 * time.Hour
)

// SessionIDs assigns ids from a block reserved in the catalog. Unused ids are lost when the node
// stops; there are enough.
type SessionIDs struct {
	Turn       chan struct{}    // holds one value while a caller takes an id or reserves more
	from, till record.SessionID // half-open
}

const (
	// sessionBlock is how many ids one change of the catalog reserves.
	sessionBlock = 1000

	// ReserveTimeout is the longest time that a caller waits for an id, including the wait for
	// other callers. It is longer than most changes of leader; after that an error with the reason
	// is more useful.
	ReserveTimeout = 5 * time.Second
)

// Next returns an id that no other session has or will ever get. A refusal means that nothing has
// happened: ids that may have been reserved are lost.
func (s *SessionIDs) Next(ctx context.Context, c *catalog.Catalog) (record.SessionID, error) {
	deadline := time.Now().Add(ReserveTimeout)
	// A caller that no longer waits must not take the turn of those that do.
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case s.Turn <- struct{}{}:
	case <-waiting.Done():
		return 0, noSessionID()
	}
	defer func() { <-s.Turn }()
	if s.from == s.till {
		from, err := c.ReserveSessions(ctx, sessionBlock, time.Until(deadline))
		var r *record.Refusal
		switch {
		case errors.As(err, &r) && (r.Reason == record.Busy || r.Reason == record.OutcomeUnknown):
			return 0, noSessionID()
		case r != nil && r.Reason.Outcome() != record.NotDone:
			return 0, record.Refuse(record.Busy, "nothing was done: this node cannot reserve session ids: %s", r.Detail)
		case err != nil:
			return 0, err
		}
		s.from, s.till = from, from+sessionBlock
	}
	id := s.from
	s.from++
	return id, nil
}

func noSessionID() *record.Refusal {
	return record.Refuse(record.Busy, "nothing was done: session ids cannot be reserved while the catalog has no majority of nodes, or its leader is unreachable; try again")
}

// OpenSession begins an append session on a log. lease 0 means DefaultLease.
func (ss *Sessions) OpenSession(ctx context.Context, caller Caller, log string, lease time.Duration) (Session, error) {
	h, refusal := ss.finder.userLog(caller, log)
	if refusal != nil {
		return Session{}, refusal
	}
	if lease == 0 {
		lease = DefaultLease
	}
	if lease < MinLease || lease > MaxLease {
		return Session{}, record.Refuse(record.Invalid, "a lease must be between %v and %v, not %v", MinLease, MaxLease, lease)
	}
	// First, because it needs no other node: the catalog, which provides the id, may have lost its
	// majority together with the log.
	if refusal := ss.finder.leading(h); refusal != nil {
		return Session{}, refusal
	}
	id, err := ss.IDs.Next(ctx, ss.catalog.Load())
	if err != nil {
		return Session{}, err
	}
	id = id.WithPrincipal(caller.PrincipalNumber)
	c := record.Command{Kind: record.OpenSession, Session: id, Lease: uint32(lease.Milliseconds())}
	if _, err := h.Command(ctx, c); err != nil {
		return Session{}, err
	}
	return Session{ID: id, Lease: lease, Log: h.ID}, nil
}

// KeepSession renews a session's lease, as every append does.
func (ss *Sessions) KeepSession(ctx context.Context, caller Caller, log string, id record.SessionID) error {
	h, refusal := ss.finder.userLog(caller, log)
	if refusal != nil {
		return refusal
	}
	return h.Keep(ctx, func(c *core.Core, done func(sequence.Answer)) { c.Reads.KeepSession(id, done) })
}

// CloseSession ends a session: its appends are refused from then on.
func (ss *Sessions) CloseSession(ctx context.Context, caller Caller, log string, id record.SessionID) error {
	h, refusal := ss.finder.userLog(caller, log)
	if refusal != nil {
		return refusal
	}
	_, err := h.Command(ctx, record.Command{Kind: record.CloseSession, Session: id})
	return err
}

// Resolve returns the outcome of one record of a session, and the session's epoch. With final it
// ends the epoch first, so that a record that is not in the log will never be.
func (ss *Sessions) Resolve(ctx context.Context, caller Caller, log string, id record.SessionID, epoch record.Epoch, number record.Sequence, final bool) (sequence.Outcome, record.Epoch, error) {
	h, refusal := ss.finder.userLog(caller, log)
	if refusal != nil {
		return sequence.Outcome{}, 0, refusal
	}
	found, err := h.Resolve(ctx, id, epoch, number)
	settled := found.State != sequence.Pending && found.State != sequence.NotNow
	if err != nil || !final || settled {
		return found.Outcome, found.Epoch, err
	}
	// Appends in flight are ordered before the end of the epoch.
	if _, err := h.Command(ctx, record.Command{Kind: record.EndEpoch, Session: id, Epoch: epoch}); err != nil {
		return sequence.Outcome{}, 0, err
	}
	found, err = h.Resolve(ctx, id, epoch, number)
	return found.Outcome, found.Epoch, err
}

// Producers returns Kafka's producers in the state of a log on this node, by id, at most some
// thousands.
func (ss *Sessions) Producers(ctx context.Context, c Caller, log string) ([]sequence.Producer, error) {
	h, refusal := ss.finder.serving(c, log)
	if refusal != nil {
		return nil, refusal
	}
	if IsSystem(log) {
		return nil, record.Refuse(record.Invalid, "log %q belongs to the system", log)
	}
	found := make(chan []sequence.Producer, 1)
	if r := h.Replica.Do(func(c *core.Core) { found <- c.Group.Producers(maxProducers) }); r != nil {
		return nil, r
	}
	select {
	case all := <-found:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ListSessions returns open sessions of a log that this node leads, with ids above a given one, by
// id, and reports whether there are more.
func (ss *Sessions) ListSessions(ctx context.Context, caller Caller, log string, after record.SessionID) (open []sequence.OpenSession, more bool, err error) {
	h, refusal := ss.finder.userLog(caller, log)
	if refusal == nil {
		refusal = ss.finder.leading(h)
	}
	if refusal != nil {
		return nil, false, refusal
	}
	found := make(chan struct{})
	if r := h.Replica.Do(func(c *core.Core) {
		open, more = c.Reads.OpenSessions(after, maxListedSessions)
		close(found)
	}); r != nil {
		return nil, false, r
	}
	select {
	case <-found:
		return open, more, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// AcquireWriter raises the log's writer term and returns it with the end of the log at that moment.
// All appends of older writers in the log are below that end, and no more will be added.
func (ss *Sessions) AcquireWriter(ctx context.Context, caller Caller, log string) (record.WriterTerm, record.Offset, error) {
	h, refusal := ss.finder.userLog(caller, log)
	if refusal == nil {
		refusal = h.RoomForTerm()
	}
	if refusal != nil {
		return 0, 0, refusal
	}
	a, err := h.Command(ctx, record.Command{Kind: record.AcquireWriter})
	if err != nil {
		return 0, 0, err
	}
	return a.WriterTerm, a.End, nil
}

// ReserveSession returns a session id that no other session has or will ever get. It does not open
// a session: the first append of a Kafka producer does.
func (ss *Sessions) ReserveSession(ctx context.Context, caller Caller) (record.SessionID, error) {
	c := ss.catalog.Load()
	if c == nil {
		return 0, ss.self.NotMember()
	}
	id, err := ss.IDs.Next(ctx, c)
	return id.WithPrincipal(caller.PrincipalNumber), err
}
