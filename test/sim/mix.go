package sim

// mix is how often each kind of fault comes in a run, beside the others. Seeds
// differ in it, as an even mix of everything hides what only a long peace, or one
// thing again and again, brings out.
type mix struct {
	weights []int // of kinds
	total   int
}

// even is a shape of a mix.
const even = 7

// drawMix draws the mix of a run, and how busy the faults are.
func (w *faults) drawMix() {
	w.network.loss, w.network.repeat, w.network.late = w.dice(0, 20, 100, 500), w.dice(0, 50, 200), w.dice(0, 10, 50)
	w.damage, w.changes = w.dice(0, 2, 4), !w.chance(3)
	if w.aged {
		w.damage = 1
	}
	w.every = int64(w.dice(200, 700, 2000)) * millisecond
	w.ambush = w.dice(0, 0, 2)

	m := mix{weights: make([]int, len(kinds))}
	for i, k := range kinds {
		m.weights[i] = k.weight
	}
	shape := w.random.IntN(10)
	if w.aged {
		shape = even
	}
	switch shape {
	case 0:
		// Faults are rare, and nothing is lost on the way.
		w.counts.Calm++
		w.every = 6 * second
		w.network.loss, w.network.repeat, w.network.late = 0, 0, 0
	case 1:
		// They come before what the last one began has ended.
		w.counts.Storms++
		w.every = w.between(40, 120) * millisecond
	case 2, 3:
		// One kind comes as often as all others.
		w.counts.Heavy++
		heavy := w.anyKind()
		for i := range kinds {
			if i != heavy {
				m.weights[heavy] += m.weights[i]
			}
		}
	case 4, 5:
		// There are but one to three kinds.
		w.counts.Few++
		clear(m.weights)
		for range w.dice(1, 2, 3) {
			m.weights[w.anyKind()]++
		}
	case 6:
		w.counts.Uneven++
		for i := range m.weights {
			m.weights[i] *= w.random.IntN(4)
		}
	case even, 8, 9:
		w.counts.Even++
	}
	if w.raft != nil {
		w.damage, w.changes = 0, false
		m.weights = untraced(m.weights)
	}
	for _, weight := range m.weights {
		m.total += weight
	}
	w.mix = m
}

// anyKind draws one of the kinds, all alike.
func (w *faults) anyKind() int {
	for {
		if i := w.random.IntN(len(kinds)); kinds[i].weight > 0 {
			return i
		}
	}
}

// draw picks a kind.
func (m *mix) draw(w *world) *kind {
	at := w.random.IntN(max(m.total, 1))
	for i := range kinds {
		if at -= m.weights[i]; at < 0 {
			return &kinds[i]
		}
	}
	return &kinds[0] // all weights happened to be 0
}
