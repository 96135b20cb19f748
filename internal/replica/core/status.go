package core

import (
	"slices"

	"strandline.dev/internal/record"
)

// Status is the state of a replica besides the readable range.
type Status struct {
	Leader       uint64 // replica id; 0: unknown
	Term         uint64
	Leading      bool // accepts appends
	WriterTerm   record.WriterTerm
	Writer       string // name of the program that has the writer lease; "": none has
	Waiting      int    // programs in line for the writer lease, while Leading
	OpenSessions int
	Sealed       bool
	Fenced       bool          // appends without a writer term are refused once one has been granted
	Holds        []record.Hold // by name; never changed in place
	Failed       *record.Refusal
	// Known is the latest time, in terms of Replica.Elapsed, at which everything committed is known
	// to have been known here; 0: never.
	Known     int64
	SoleVoter bool // it is the only voter, and the log has been replayed
	// Short is set if the stored log begins behind the start of the log as far as that is known: a
	// trim has not been applied again since a restart, or the oldest records are lost here, see
	// ErrStartMissing. Clients must not be told that these records were trimmed.
	Short bool
	// Members are never changed in place.
	Members
}

// Same reports whether two statuses are equal.
func (s *Status) Same(o *Status) bool {
	return s.Leader == o.Leader && s.Term == o.Term && s.Leading == o.Leading && s.WriterTerm == o.WriterTerm && s.Writer == o.Writer && s.Waiting == o.Waiting &&
		s.SoleVoter == o.SoleVoter && s.Short == o.Short && s.OpenSessions == o.OpenSessions && s.Sealed == o.Sealed && s.Fenced == o.Fenced && sameHolds(s.Holds, o.Holds) && s.Failed == o.Failed && s.Known == o.Known &&
		slices.Equal(s.Voters, o.Voters) && slices.Equal(s.Learners, o.Learners) && slices.Equal(s.Outgoing, o.Outgoing)
}

// sameHolds reports whether two lists of holds are the same list. Each change makes another list.
func sameHolds(a, b []record.Hold) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Status returns the current status.
func (c *Core) Status() Status {
	return Status{
		Leader: c.Group.leader, Term: c.Group.term, Leading: c.Group.role == leaderReady, WriterTerm: c.Group.storage.table.WriterTerm(),
		Writer: c.Group.storage.table.HolderName(), Waiting: len(c.proposer.line.waiting),
		OpenSessions: c.Group.storage.table.OpenSessions(), Sealed: c.Group.storage.table.Sealed(), Fenced: c.Group.storage.table.Fenced(), Holds: c.Group.storage.table.Holds(), Failed: c.Group.failed,
		Known: c.confirm.known, SoleVoter: c.Group.soleVoter() && c.Group.storage.applied >= c.Waiters.opened, Short: c.short.state != complete, Members: c.Group.members(),
	}
}

// Candidacy decides whether a replica can be elected, and for which replicas it votes. It is the
// state at the end of the last round, which is all that others can have seen.
type Candidacy struct {
	Term uint64
	// Last is the index of the newest entry, and LastTerm its term.
	Last, LastTerm uint64
	// Applied is the index of the newest applied entry.
	Applied uint64
	// Leads is set if it is the leader, ready or not.
	Leads bool
	// Voters and Outgoing are the applied configuration. They are shared and never changed.
	Voters, Outgoing []uint64
}

// Candidacy returns the candidacy of this replica.
func (c *Core) Candidacy() Candidacy {
	g, conf := c.Group, c.Group.members()
	return Candidacy{
		Term: g.term, Last: g.storage.last, LastTerm: g.storage.lastTerm, Applied: g.storage.applied, Leads: g.Leads(),
		Voters: conf.Voters, Outgoing: conf.Outgoing,
	}
}
