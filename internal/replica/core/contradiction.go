package core

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
)

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
