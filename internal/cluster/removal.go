package cluster

import (
	"maps"
	"slices"
	"strings"

	"strandline.dev/internal/record"
)

// RemoveNode removes a node from the cluster, or withdraws the announcement of one that has not
// joined. It is refused while the node holds voters; read replicas are moved or removed before
// the node is.
func RemoveNode(s *State, name string) (Change, *record.Refusal) {
	node, member := s.Named(name)
	if _, announced := s.Announced[name]; announced && !member {
		return Change{Withdraw: []string{name}}, nil
	}
	if !member {
		return Change{}, s.NoNode(name)
	}
	for _, log := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[log]
		if r, here := l.On(node.ID); here && !r.Reader {
			return Change{}, record.Refuse(record.Precondition,
				"node %q holds a replica of log %q: move it with `strandline cluster replace-node %s --with OTHER` first", name, log, name)
		}
	}
	if s.staying(node.ID) == 0 {
		return Change{}, record.Refuse(record.Precondition, "node %q is the last one in the cluster", name)
	}
	node.Leaving = true
	return Change{Node: []Node{node}}, nil
}

// ReplaceNode moves all replicas of a node to another one, and removes the node once they are
// there. If the other node already holds a log, or must not hold it by the log's rule, the
// replica moves to a third node, or is removed if the log does not need it.
func ReplaceNode(s *State, name, with string, alive func(node uint64) bool) (Change, *record.Refusal) {
	from, ok := s.Named(name)
	if !ok {
		return Change{}, s.NoNode(name)
	}
	to, ok := s.Named(with)
	if !ok {
		return Change{}, s.NoNode(with)
	}
	if to.Leaving || to.ID == from.ID {
		return Change{}, record.Refuse(record.NoNode, "replicas cannot be moved from node %q to %q, which is being removed; other nodes: %s", name, with, s.names())
	}
	again := from.Leaving
	from.Leaving = true
	change, load, next := Change{Node: []Node{from}}, s.load(), s.NextReplica
	then := s.Clone() // without the node, a rule may be met differently
	then.Nodes[from.ID] = from
	for _, log := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[log]
		if !slices.ContainsFunc(l.Replicas, func(r Replica) bool { return r.Node == from.ID }) {
			continue
		}
		_, taken := l.On(to.ID)
		target := leastLoaded(&then, &l, from.ID, load, View{Alive: func(node uint64) bool { return node == to.ID }})
		if target == 0 {
			target = leastLoaded(&then, &l, from.ID, load, View{Alive: alive})
		}
		switch {
		case target != 0:
			l.Move(from.ID, target, next)
			load[target]++
			next++
		case len(l.Replicas) > wantedOf(s, &l, s.staying(from.ID)):
			l.Remove(from.ID)
		case !taken:
			return Change{}, record.Refuse(record.Precondition,
				"no node that can be reached may take the replica of log %q that node %q holds (%v): add a node, or change the rule with `strandline log configure %s`", log, name, s.RuleOf(&l), log)
		default:
			return Change{}, record.Refuse(record.Precondition,
				"node %q holds a replica of log %q already, perhaps a read replica; no other node can take the one of %q, and the log wants as many as it has: add a node, or lower the number with `strandline log configure %s --replicas` or `--read-replicas`", with, log, name, log)
		}
		change.Put = append(change.Put, l)
	}
	if other := replacing(s, from.ID, to.ID); again && len(change.Put) == 0 && other != "" {
		return Change{}, record.Refuse(record.Precondition,
			"the replicas of node %q are on their way to node %q already: `strandline cluster status` shows how far they are", name, other)
	}
	return change, nil
}

// replacing returns the name of a node to which replicas of the node from are moving, or "" if
// some are moving to the node to.
func replacing(s *State, from, to uint64) (other string) {
	for _, l := range s.Logs {
		if !slices.ContainsFunc(l.Leaving, func(r Replica) bool { return r.Node == from }) {
			continue
		}
		for _, r := range l.Replicas {
			switch {
			case r.New && r.Node == to:
				return ""
			case r.New:
				other = s.Nodes[r.Node].Name
			}
		}
	}
	return other
}

// staying returns the number of nodes that are not leaving, without the given one.
func (s *State) staying(without uint64) (nodes int) {
	for _, n := range s.Nodes {
		if !n.Leaving && n.ID != without {
			nodes++
		}
	}
	return nodes
}

// NoNode returns the refusal for a name of no node.
func (s *State) NoNode(name string) *record.Refusal {
	return record.Refuse(record.NoNode, "node %q does not exist; nodes: %s", name, s.names())
}

// names returns the names of the nodes that are not leaving, sorted, for an error.
func (s *State) names() string {
	var names []string
	for _, n := range s.Members() {
		if !n.Leaving {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
