package cluster

// The leader of a log adapts the log's Raft configuration to the replicas in the catalog, one
// step at a time (core: Membership.Reshape). It checks every 200 ms, and whenever the placement
// or the term has changed; makes sure that the state is the newest; and takes a step towards
// Placement.Wanted (CatalogMembers for the catalog itself). When no step is left and the
// configuration is durable, it records Settle, or Retire for the catalog.

// Settle returns the change to record once Raft's configuration of a log is exactly the replicas
// that it should have. It is empty if the log was deleted, or its placement is not the one on
// which the caller acted: then the leader checks again.
func Settle(s *State, acted *Log) (c Change) {
	l, ok := s.Logs[acted.Name]
	if !ok || l.ID != acted.ID || !l.Same(&acted.Placement) || l.Settled() {
		return c
	}
	l.Settle()
	c.Put = []Log{l}
	return c
}

// Retire returns the change to record once Raft's configuration of the catalog is CatalogMembers:
// leaving nodes that hold nothing are no longer members.
func Retire(s *State) Change { return Change{Gone: retired(s)} }

// Leaving reports whether a node is leaving.
func (s *State) Leaving() bool {
	for _, n := range s.Nodes {
		if n.Leaving {
			return true
		}
	}
	return false
}
