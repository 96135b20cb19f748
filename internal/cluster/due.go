package cluster

// View is what the node that decides sees of the others.
type View struct {
	// Alive reports whether a node can be reached.
	Alive func(node uint64) bool
	// Lost reports whether a node could not be reached for so long that it counts
	// as gone for good.
	Lost func(node uint64) bool
}

// Kind of an Action.
type Kind string

const (
	// GiveVote and TakeVote say who votes on the catalog.
	GiveVote Kind = "give a vote on the catalog"
	TakeVote Kind = "take the vote on the catalog"
)

// Action is one thing that is due.
type Action struct {
	Kind Kind
	Node uint64
}

// Due is what the node that leads the catalog has to decide now. It is empty once
// the cluster is as it should be.
func (s *State) Due(v View) []Action {
	return s.votesDue(v)
}

// Enact is the change that carries actions out.
func (s *State) Enact(actions []Action) (c Change) {
	for _, a := range actions {
		n := s.Nodes[a.Node]
		n.Votes = a.Kind == GiveVote
		c.Node = append(c.Node, n)
	}
	return c
}
