package core

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3/raftpb"
)

// raftLogger gives Raft's own words to slog. They number replicas in hexadecimal
// and are of interest to those who debug elections only; what an operator has to
// know of leaders is logged by the node, with names. See Options.LeaderChanged.
type raftLogger struct{ to *slog.Logger }

func (l raftLogger) Debug(v ...any)                 { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any) { l.to.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Info(v ...any)                  { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)  { l.to.Debug(fmt.Sprintf(format, v...)) }

func (l raftLogger) Warning(v ...any)                 { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.to.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Error(v ...any)                   { l.to.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.to.Error(fmt.Sprintf(format, v...)) }

// contradiction is what Raft says when an invariant is broken: going on could
// harm the log. See Core.protect.
type contradiction string

func (l raftLogger) Fatal(v ...any)                 { panic(contradiction(fmt.Sprint(v...))) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(contradiction(fmt.Sprintf(format, v...))) }
func (l raftLogger) Panic(v ...any)                 { panic(contradiction(fmt.Sprint(v...))) }
func (l raftLogger) Panicf(format string, v ...any) { panic(contradiction(fmt.Sprintf(format, v...))) }

// contradicted fails the replica when a leader has another entry at the commit
// index of this replica: acknowledged records were lost, by more damage than a
// majority survives or by a server that did not sync. Raft would reject the
// message, be sent the same entries, and reject them, without end and once more
// for each heartbeat. It reports whether the replica has failed.
func (c *Core) contradicted(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || m.GetTerm() < c.term || m.GetIndex() != c.storage.commit {
		return false
	}
	c.guard(func() {
		if term, err := c.storage.term(c.storage.commit); err == nil && term != m.GetLogTerm() {
			panic(contradiction(fmt.Sprintf("entry %d was committed here in term %d, and the leader of term %d has it in term %d",
				c.storage.commit, term, m.GetTerm(), m.GetLogTerm())))
		}
	})
	return c.failed != nil
}
