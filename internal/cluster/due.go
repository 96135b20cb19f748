package cluster

import (
	"fmt"
)

// View is what the deciding node knows about the reachability of nodes.
type View struct {
	// Alive reports whether a node can be reached.
	Alive func(node uint64) bool
	// Lost reports whether a node has been unreachable for so long that it counts as permanently
	// gone.
	Lost func(node uint64) bool
}

// Kind is the kind of an Action.
type Kind string

const (
	// GiveVote and TakeVote change whether Node votes on the catalog.
	GiveVote Kind = "give-vote"
	TakeVote Kind = "take-vote"
	// AddReplica adds a voter of a log on the node To, AddReadReplica a read replica. RemoveReplica
	// removes the replica on Node, MoveReplica moves it from Node to To.
	AddReplica     Kind = "add-replica"
	AddReadReplica Kind = "add-read-replica"
	RemoveReplica  Kind = "remove-replica"
	MoveReplica    Kind = "move-replica"
	// StopSpreading records that replicas are spread evenly.
	StopSpreading Kind = "stop-spreading"
)

// Action is one change that is due.
type Action struct {
	Kind     Kind
	Log      string
	Node, To uint64
}

func (a Action) String() string {
	return fmt.Sprintf("%s log=%q node=%d to=%d", a.Kind, a.Log, a.Node, a.To)
}

// Due returns the actions that the leader of the catalog has to take now. There are none if the
// cluster is as it should be, or has to wait for nodes or for earlier actions.
func Due(s *State, v View) []Action {
	return append(votesDue(s, v), replicasDue(s, v)...)
}

// Enact returns the change that carries out actions. There is at most one action for each log and
// for each node's vote.
func Enact(s *State, actions []Action) (c Change) {
	next := s.NextReplica
	for _, a := range actions {
		l, n := s.Logs[a.Log], s.Nodes[a.Node]
		switch a.Kind {
		case GiveVote, TakeVote:
			n.Votes = a.Kind == GiveVote
			c.Node = append(c.Node, n)
			continue
		case StopSpreading:
			c.Spread = new(false)
			continue
		case AddReplica, AddReadReplica:
			l.Add(a.To, next, a.Kind == AddReadReplica)
			next++
		case RemoveReplica:
			l.Remove(a.Node)
		case MoveReplica:
			l.Move(a.Node, a.To, next)
			next++
		}
		c.Put = append(c.Put, l)
	}
	return c
}
