package core

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
)

// phase is the progress of a core towards its end.
type phase uint8

const (
	// open means that it accepts appends.
	open phase = iota
	// closing means that it accepts no more appends, and that a caller waits for those in progress;
	// see AllAnswered.
	closing
	// stopping means that the loop ends after this round.
	stopping
)

// lifecycle is how a core ends: on request, or because something fails.
type lifecycle struct {
	proposer *proposer
	group    *group
	round    *round
	phase    phase
}

// Stop ends the core.
func (e *lifecycle) Stop() {
	e.phase = stopping
	e.group.storage.tail.Fail(record.Refuse(record.ShuttingDown, "the log is being closed on this node"))
	if e.group.failed == nil {
		gone := record.Refuse(record.ShuttingDown, "the log is being closed on this node")
		unknown := record.Refuse(record.OutcomeUnknown, "the log was closed before the append was committed; it may be in the log")
		e.group.failed = gone
		e.proposer.endLeadership(gone, unknown)
	}
}

// Stopping reports whether the loop must end after this round.
func (e *lifecycle) Stopping() bool { return e.phase == stopping }

// Fail ends the replica (fail-stop), because a write or a fold failed. All waiting and later
// requests are answered with the reason.
func (e *lifecycle) Fail(reason *record.Refusal) {
	if e.group.failed != nil {
		return
	}
	e.group.failed = reason
	e.group.storage.tail.Fail(reason)
	unknown := reason
	if unknown.Reason.Outcome() != record.MaybeDone {
		unknown = record.Refuse(record.OutcomeUnknown, "this replica stopped before the append was committed; it may be in the log: %v", reason)
	}
	e.proposer.endLeadership(reason, unknown)
	e.group.leader = 0
}

// Failed returns why the replica ended, or nil.
func (e *lifecycle) Failed() *record.Refusal { return e.group.failed }

// guard runs f, which calls Raft. Raft panics if its log cannot be read: a failed disk ends this
// replica, and not the process with all the others. Raft also panics on a message that
// contradicts what has committed here, and cannot continue. Other panics are passed on. Raft is
// not called again after a failure.
func (e *lifecycle) guard(f func()) {
	if e.group.failed != nil {
		return
	}
	defer func() {
		if e.group.storage.broken != nil {
			_ = recover()
			e.round.out.Damaged = e.group.storage.broken
			e.Fail(record.Refuse(record.StorageFailed, "the log cannot be read: %v", e.group.storage.broken))
			return
		}
		switch reason := recover().(type) {
		case nil:
		case contradiction:
			e.Fail(record.Refuse(record.Corrupt, "the replicas of this log contradict each other: %s", reason))
		default:
			panic(reason)
		}
	}()
	f()
}

// failBroken ends a replica with a violated invariant, since continuing could damage the log.
func (e *lifecycle) failBroken(err error) {
	if err != nil && e.group.failed == nil {
		e.round.out.Writes, e.round.out.Messages = nil, nil // no other replica must rely on a wrong state
		e.group.logger.Error("an invariant does not hold; this replica stops here", "invariant", err)
		e.Fail(record.Refuse(record.Corrupt, "an invariant of this replica does not hold, which is a bug: %v", err))
	}
}

// raftLogger passes Raft's messages to slog. They name replicas by number and help only to debug
// elections; the node logs what operators need to know about leaders, with names. See
// Options.LeaderChanged.
type raftLogger struct{ to *slog.Logger }

func (l raftLogger) Debug(v ...any)                 { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any) { l.to.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Info(v ...any)                  { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)  { l.to.Debug(fmt.Sprintf(format, v...)) }

func (l raftLogger) Warning(v ...any)                 { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.to.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Error(v ...any)                   { l.to.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.to.Error(fmt.Sprintf(format, v...)) }

// contradiction is Raft's message about a violated invariant. Continuing could damage the log.
// See lifecycle.guard.
type contradiction string

func (l raftLogger) Fatal(v ...any)                 { panic(contradiction(fmt.Sprint(v...))) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(contradiction(fmt.Sprintf(format, v...))) }
func (l raftLogger) Panic(v ...any)                 { panic(contradiction(fmt.Sprint(v...))) }
func (l raftLogger) Panicf(format string, v ...any) { panic(contradiction(fmt.Sprintf(format, v...))) }

// contradicted fails the replica if a leader has a different entry at the commit index of this
// replica: acknowledged records were lost, by more damage than a majority survives or by a server
// that did not sync. Raft would reject the message, receive the same entries again and reject
// them, endlessly and more often with each heartbeat. It reports whether the replica has failed.
func (e *lifecycle) contradicted(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || m.GetTerm() < e.group.term || m.GetIndex() != e.group.storage.commit {
		return false
	}
	e.guard(func() {
		if term, err := e.group.storage.term(e.group.storage.commit); err == nil && term != m.GetLogTerm() {
			panic(contradiction(fmt.Sprintf("entry %d was committed here in term %d, and the leader of term %d has it in term %d",
				e.group.storage.commit, term, m.GetTerm(), m.GetLogTerm())))
		}
	})
	return e.group.failed != nil
}
