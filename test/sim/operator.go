package sim

import "strandline.dev/internal/cluster"

// An operator moves replicas between nodes, and makes them more or fewer,
// without a look at how the log is.
func (w *world) operate() {
	w.catalog.place(func(p *cluster.Placement, next uint64) bool {
		free := w.free(p)
		switch {
		case len(free) == 0 || w.chance(6) && len(p.Replicas) > 3:
			return w.fewer(p)
		case w.chance(4) && len(p.Replicas) < 5:
			p.Add(free[w.random.IntN(len(free))].id, next)
			w.counts.Added++
			return true
		}
		from := p.Replicas[w.random.IntN(len(p.Replicas))].Node
		w.counts.Moved++
		return p.Move(from, free[w.random.IntN(len(free))].id, next)
	})
}

// free are the nodes without a replica of the log.
func (w *world) free(p *cluster.Placement) (free []*node) {
	for _, n := range w.nodes {
		if _, here := p.On(n.id); !here {
			free = append(free, n)
		}
	}
	return free
}

// fewer removes a replica; three stay.
func (w *world) fewer(p *cluster.Placement) bool {
	if len(p.Replicas) <= 3 {
		return false
	}
	w.counts.Removed++
	return p.Remove(p.Replicas[w.random.IntN(len(p.Replicas))].Node)
}
