package cluster

// The leader of a log takes the log's Raft configuration to the replicas that the
// catalog wants, one step at a time (core: Membership.Reshape). To drive it: look every 200 ms,
// and whenever the placement or the term has changed; make sure that the state is
// the newest; take a step towards Placement.Wanted (CatalogMembers for the catalog
// itself). When there is none left and the configuration would outlast a power cut,
// record Settle, or Retire for the catalog.

// Settle is the change after Raft's configuration of a log has become exactly the
// replicas that it should have. It is empty if the log has gone, or its placement is
// not the one that the caller acted on: then the leader looks again.
func Settle(s *State, acted *Log) (c Change) {
	l, ok := s.Logs[acted.Name]
	if !ok || l.ID != acted.ID || !l.Same(&acted.Placement) || l.Settled() {
		return c
	}
	l.Settle()
	c.Put = []Log{l}
	return c
}

// Retire is the change after Raft's configuration of the catalog has become
// CatalogMembers: the nodes on their way out that hold nothing are members no more.
func Retire(s *State) Change { return Change{Gone: retired(s)} }

// Leaving reports whether a node is on its way out.
func (s *State) Leaving() bool {
	for _, n := range s.Nodes {
		if n.Leaving {
			return true
		}
	}
	return false
}
