package runtime

import (
	"fmt"
	"slices"
	"time"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
)

// Stepped is a replica without goroutines or a clock of its own: the caller sets the time, and
// decides when a round of its loop runs and when its disk writes. Between these calls nothing
// happens, so a simulation controls the order of everything. Otherwise it is a Replica. It must
// be used by one goroutine, which must not call methods that wait: HandOver, AwaitLeaderReady,
// AwaitReplay, Close.
type Stepped struct {
	*Replica
	core  *core.Core
	feeds []core.Feed
	hash  core.HashRange
	base  bool // the snapshot at the start of the log is requested
	now   time.Duration
}

// OpenStepped recovers a replica from its log.
func OpenStepped(o Options) (*Stepped, error) {
	r, c, err := recovered(o)
	if err != nil {
		return nil, err
	}
	r.stepped = true
	r.maintain(nil)
	s := &Stepped{Replica: r, core: c}
	r.disk.stall.now = func() time.Duration { return s.now }
	return s, nil
}

// Round processes all inputs and acts on the output, until no input is left. Messages are sent
// with Options.Send, and answers are delivered. It panics if an invariant does not hold
// afterwards.
func (s *Stepped) Round(now core.Now) {
	s.now = time.Duration(now.Monotonic) * time.Millisecond
	for again := true; again; again = len(s.inputs) > 0 {
		inputs := s.takeAll(nil)
		s.core.SetNow(now)
		for i := range inputs {
			s.take(s.core, &inputs[i])
		}
		out := s.core.Advance()
		s.damagedBy(s.core, out.Damaged)
		s.publish(s.core)
		s.core.Waiters.Wake()
		s.feeds = append(s.feeds, out.Feeds...)
		out.Feeds = out.Feeds[:0]
		s.base, out.Base = s.base || out.Base, false
		if out.Hash.Until > 0 {
			s.hash, out.Hash = out.Hash, core.HashRange{}
		}
		s.perform(out)
		out.Clear()
		if err := s.core.CheckInvariants(); err != nil {
			panic(fmt.Sprintf("replica %d: an invariant does not hold: %v", s.options.ID, err))
		}
	}
	if stored, ok := s.log.(interface{ CheckInvariants() error }); ok {
		if err := stored.CheckInvariants(); err != nil {
			panic(fmt.Sprintf("replica %d: an invariant of its log does not hold: %v", s.options.ID, err))
		}
	}
}

// Tick must be called every TickMillis. It reports whether the core had something due.
func (s *Stepped) Tick(now core.Now) bool {
	if s.due.Load() > now.Monotonic {
		return false
	}
	s.tick()
	return true
}

// Candidacy returns the candidacy of the replica.
func (s *Stepped) Candidacy() core.Candidacy { return s.core.Candidacy() }

// Unwritten reports whether something waits for a queued write.
func (s *Stepped) Unwritten() bool {
	return slices.ContainsFunc(s.disk.queue, func(w core.Write) bool { return w.Waits() })
}

// Write writes everything that is queued, as one group. The next Round acts on the result. It
// returns false if the disk has failed: the replica ends with that round.
func (s *Stepped) Write() bool { return s.disk.flush() }

// Unkept reports whether there is upkeep to do.
func (s *Stepped) Unkept() bool { return s.upkeep.pending() }

// Keep does one step of the upkeep. It may run while a write is in progress.
func (s *Stepped) Keep() {
	if _, err := s.upkeep.step(func() bool { return true }); err != nil {
		s.upkeepFailed(err)
	}
}

// Mark writes a sync mark, as when the log becomes idle. It returns false if the disk has failed.
func (s *Stepped) Mark() bool { return s.disk.flush() && s.disk.mark() }

// Unread reports whether a lagging follower waits for entries from disk.
func (s *Stepped) Unread() bool { return len(s.feeds) > 0 || s.base }

// Feed reads what such followers wait for. The next Round sends it.
func (s *Stepped) Feed() {
	feeds := s.feeds
	s.feeds = nil
	if s.base {
		s.base = false
		s.loadBase()
	}
	for _, f := range feeds {
		frames, err := s.log.Entries(f.Lo, f.Hi, f.Bytes)
		if err != nil {
			s.logger.Warn("could not read entries for a follower", "from", f.Lo, "error", err)
			s.damaged(err)
		}
		s.post(input{do: func(c *core.Core) { c.Supply.Fed(f.Lo, tail.EntriesOf(frames)) }})
	}
}

// Unhashed reports whether there are batches to be hashed for the digest.
func (s *Stepped) Unhashed() bool { return s.hash.Until > 0 }

// Hash hashes a piece of them. It is proposed with the next entry.
func (s *Stepped) Hash() {
	h := s.hash
	s.hash = core.HashRange{}
	s.hasher.hash(h)
}

// BeginHandOver hands leadership to another replica, if one can take it.
func (s *Stepped) BeginHandOver() {
	s.post(input{do: func(c *core.Core) { c.Handover.HandOver(0) }})
}

// Certain returns the index up to which the stored entries are committed and never change, like
// Final.
func (s *Stepped) Certain() uint64 { return s.core.Applier.Final() }

// Committed returns the index up to which the log is known to be committed here, and is durable
// here.
func (s *Stepped) Committed() uint64 {
	_, commit, durable := s.core.Group.Positions()
	return min(commit, durable)
}

// Folded returns the encoded table after the entries up to an index. It is identical on two
// replicas with the same index. It does not contain the configuration, which in a snapshot from a
// leader is newer than its index.
func (s *Stepped) Folded() (index uint64, table []byte) {
	return s.core.Group.Folded()
}

// Applied returns the index of the newest folded entry.
func (s *Stepped) Applied() uint64 {
	applied, _, _ := s.core.Group.Positions()
	return applied
}
