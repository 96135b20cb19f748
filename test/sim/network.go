package sim

import "strandline.dev/internal/cluster"

// network is what lies between the nodes, and between them and their clients.
type network struct {
	*world
	cut map[way]bool // what is sent this way is lost
	// Of so many messages one is lost, repeated, late; 0: none.
	loss, repeat, late int
	// apart is how long a message takes at least between nodes in different datacenters, and
	// stretch what elections make of it; 0: all are in one.
	apart   map[way]int64
	stretch int
	// came is when the latest message of a way arrives; nil: messages overtake each other, which is more than
	// the transport between nodes allows. Where messages are so small that Raft has hundreds in flight, it would
	// send them all again for each that another has overtaken, and those again.
	came map[way]int64
}

// orderedBelow is the size of messages, in bytes, up to which their order is kept.
const orderedBelow = 4 << 10

// spread puts a distance between the nodes of different datacenters.
func (w *network) spread() {
	w.apart = map[way]int64{}
	trips, all := cluster.RoundTrips{}, []uint64{}
	for i, a := range w.nodes {
		trips[a.id], all = map[uint64]int{}, append(all, a.id)
		for k, b := range w.nodes[:i] {
			if i%3 != k%3 {
				d := w.between(5*millisecond, 150*millisecond)
				w.apart[way{a.id, b.id}], w.apart[way{b.id, a.id}] = d, d
				trips[a.id][b.id] = int(2 * d / millisecond)
			}
		}
	}
	w.stretch = trips.StretchFor(all)
}

// way is from one node to another.
type way struct{ from, to uint64 }

// send brings a message of one node to a replica on another.
func (w *network) send(from, to *node, replica uint64, message []byte) {
	if w.parted(from, to) || w.lost() {
		return
	}
	deliver := func() {
		to.act(to.life, func() { to.hear(from.id, replica, message) })
	}
	apart := w.apart[way{from.id, to.id}]
	w.after(w.inOrder(way{from.id, to.id}, apart+w.latency()), deliver)
	if w.repeat > 0 && w.chance(w.repeat) {
		w.after(apart+w.latency(), deliver)
	}
}

// inOrder returns how long a message of a way takes that would take so long alone.
func (w *network) inOrder(of way, alone int64) int64 {
	if w.came == nil {
		return alone
	}
	w.came[of] = max(w.came[of], w.now+alone)
	return w.came[of] - w.now
}

// parted reports whether nothing gets from one node to another: the way is cut, or one of
// them refuses the other.
func (w *network) parted(from, to *node) bool {
	return w.cut[way{from.id, to.id}] || from.refuses(to.levels) || to.refuses(from.levels)
}

func (w *network) lost() bool { return w.loss > 0 && w.chance(w.loss) }

// latency of a message.
func (w *network) latency() int64 {
	if w.late > 0 && w.chance(w.late) {
		return w.between(10*millisecond, 300*millisecond)
	}
	return w.between(100, 1500)
}

// question brings a node's question to another one, whose answer is brought back.
func (w *network) question(from, to *node, question func(reply func(func()))) {
	if w.parted(from, to) || w.lost() {
		return
	}
	life, apart := from.life, w.apart[way{from.id, to.id}]
	w.after(apart+w.latency(), func() {
		to.act(to.life, func() {
			question(func(answer func()) {
				if !w.parted(to, from) && !w.lost() {
					w.after(apart+w.latency(), func() { from.act(life, answer) })
				}
			})
		})
	})
}

// ask brings a client's question to a node, whose answer is brought back:
// reply may be called later, and once. Either may be lost.
func (w *network) ask(n *node, question func(n *node, reply func(func()))) {
	if w.lost() {
		return
	}
	era := w.era
	w.after(w.latency(), w.ofEra(era, func() {
		n.act(n.life, w.ofEra(era, func() {
			question(n, func(answer func()) {
				if !w.lost() {
					w.after(w.latency(), w.ofEra(era, answer))
				}
			})
		}))
	}))
}
