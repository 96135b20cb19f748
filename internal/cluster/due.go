package cluster

import (
	"fmt"
)

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
	// GiveVote and TakeVote say which Node votes on the catalog.
	GiveVote Kind = "give-vote"
	TakeVote Kind = "take-vote"
	// AddReplica puts a log on the node To as well, with a voter, and AddReader with a read
	// replica; RemoveReplica takes it from Node, MoveReplica takes it from there to To.
	AddReplica    Kind = "add-replica"
	AddReader     Kind = "add-read-replica"
	RemoveReplica Kind = "remove-replica"
	MoveReplica   Kind = "move-replica"
	// StopSpreading: replicas are spread evenly.
	StopSpreading Kind = "stop-spreading"
)

// Action is one thing that is due.
type Action struct {
	Kind     Kind
	Log      string
	Node, To uint64
}

func (a Action) String() string {
	return fmt.Sprintf("%s log=%q node=%d to=%d", a.Kind, a.Log, a.Node, a.To)
}

// Due is what the node that leads the catalog has to decide now. It is empty once
// the cluster is as it should be, or has to wait for nodes or for what was decided
// before.
func Due(s *State, v View) []Action {
	return append(votesDue(s, v), replicasDue(s, v)...)
}

// Enact is the change that carries actions out. There is at most one for each log
// and each node's vote.
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
		case AddReplica, AddReader:
			l.Add(a.To, next, a.Kind == AddReader)
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
