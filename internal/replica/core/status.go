package core

import (
	"slices"

	"strandline.dev/internal/record"
)

// Status is what a replica knows of its log besides the readable range.
type Status struct {
	Leader       uint64 // replica id, 0: unknown
	Term         uint64
	Leading      bool // takes appends
	WriterTerm   record.WriterTerm
	OpenSessions int
	Sealed       bool
	Fenced       bool          // appends without a writer term are refused, once one has been granted
	Holds        []record.Hold // by name; never changed in place
	Failed       *record.Refusal
	// Known is when, in Replica.Elapsed, it was asked for the newest time
	// that turned out to be known here completely; 0: never.
	Known     int64
	SoleVoter bool // the only voter; true only once the log has been replayed
	// Short: what is stored here begins behind the start of the log as far as
	// that is known. After a trim that is so until it has been applied again;
	// or else the oldest records are gone from here, see ErrStartMissing. Readers must
	// not get the answer that those are trimmed.
	Short bool
	// Members are never changed in place.
	Members
}

func (s *Status) Same(o *Status) bool {
	return s.Leader == o.Leader && s.Term == o.Term && s.Leading == o.Leading && s.WriterTerm == o.WriterTerm &&
		s.SoleVoter == o.SoleVoter && s.Short == o.Short && s.OpenSessions == o.OpenSessions && s.Sealed == o.Sealed && s.Fenced == o.Fenced && sameHolds(s.Holds, o.Holds) && s.Failed == o.Failed && s.Known == o.Known &&
		slices.Equal(s.Voters, o.Voters) && slices.Equal(s.Learners, o.Learners) && slices.Equal(s.Outgoing, o.Outgoing)
}

// sameHolds reports whether the holds have not been changed, as each change makes another
// list.
func sameHolds(a, b []record.Hold) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Status is what the core knows now.
func (c *Core) Status() Status {
	return Status{
		Leader: c.Group.leader, Term: c.Group.term, Leading: c.Group.role == leaderReady, WriterTerm: c.Group.storage.table.WriterTerm(),
		OpenSessions: c.Group.storage.table.OpenSessions(), Sealed: c.Group.storage.table.Sealed(), Fenced: c.Group.storage.table.Fenced(), Holds: c.Group.storage.table.Holds(), Failed: c.Group.failed,
		Known: c.confirm.known, SoleVoter: c.Group.soleVoter() && c.Group.storage.applied >= c.Waiters.opened, Short: c.short.state != complete, Members: c.Group.members(),
	}
}

// Candidacy is what decides whether a replica can be elected, and whom it votes for: as of the end of
// the last round, which is all that others can have seen.
type Candidacy struct {
	Term uint64
	// Last is the index of the newest entry, and LastTerm the term of that.
	Last, LastTerm uint64
	// Applied is the index of the newest entry that has been applied.
	Applied uint64
	// Leads: it is the leader, ready or not.
	Leads bool
	// Voters and Outgoing are the configuration as it has been applied. They are shared and never changed.
	Voters, Outgoing []uint64
}

// Candidacy is that of this replica.
func (c *Core) Candidacy() Candidacy {
	g, conf := c.Group, c.Group.members()
	return Candidacy{
		Term: g.term, Last: g.storage.last, LastTerm: g.storage.lastTerm, Applied: g.storage.applied, Leads: g.Leads(),
		Voters: conf.Voters, Outgoing: conf.Outgoing,
	}
}
