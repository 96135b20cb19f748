package sim

import "strandline.dev/internal/cluster"

// operator is who moves the log.
type operator struct{ *world }

// An operator moves replicas between nodes, and has the log get more or fewer, three to
// five, without a look at how the log is, but that it can bear the damage there has been.
// Which nodes get or lose them then is due, see control.
func (w *operator) operate() {
	if w.readReplicas && w.chance(2) {
		w.operateReaders()
		return
	}
	w.catalog.place(func(l *cluster.Log, next uint64) bool {
		free := w.free(&l.Placement)
		if len(free) == 0 || w.chance(2) {
			before := l.Config.Replicas
			l.Config.Replicas = max(3+w.random.IntN(min(len(w.nodes), 5)-2), 2*w.losses+1)
			return l.Config.Replicas != before
		}
		from := l.Replicas[w.random.IntN(len(l.Replicas))].Node
		w.counts.Moved++
		return l.Move(from, free[w.random.IntN(len(free))].id, next)
	})
}

// operateReaders has read replicas come and go, and move away from a node that is drained.
func (w *operator) operateReaders() {
	w.catalog.change(func(s *cluster.State) (change cluster.Change) {
		l := s.Logs[logName]
		if len(l.Readers) > 0 && w.chance(2) {
			for id := len(w.nodes) - farNodes + 1; id <= len(w.nodes); id++ {
				n := s.Nodes[uint64(id)]
				n.Drained = n.ID == l.Readers[0].Node
				change.Node = append(change.Node, n)
			}
			return change
		}
		l.Config.Rule = withReaders(w.random.IntN(farNodes + 1))
		change.Put = []cluster.Log{l}
		return change
	})
}

// free are the nodes without a replica of the log.
func (w *operator) free(p *cluster.Placement) (free []*node) {
	for _, n := range w.nodes {
		if _, here := p.On(n.id); !here && !n.gone {
			free = append(free, n)
		}
	}
	return free
}
