package sim

// network is what lies between the nodes, and between them and their clients.
type network struct {
	*world
	cut map[way]bool // what is sent this way is lost
	// Of so many messages one is lost, repeated, late; 0: none.
	loss, repeat, late int
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
	w.after(w.latency(), deliver)
	if w.repeat > 0 && w.chance(w.repeat) {
		w.after(w.latency(), deliver)
	}
}

// parted reports whether nothing gets from one node to another: the way is cut, or one of
// them refuses the other.
func (w *network) parted(from, to *node) bool {
	return w.cut[way{from.id, to.id}] || from.refuses(to.levels) || to.refuses(from.levels)
}

func (w *network) lost() bool { return w.loss > 0 && w.chance(w.loss) }

// latency of a message. Messages overtake each other.
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
	life := from.life
	w.after(w.latency(), func() {
		to.act(to.life, func() {
			question(func(answer func()) {
				if !w.parted(to, from) && !w.lost() {
					w.after(w.latency(), func() { from.act(life, answer) })
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
	w.after(w.latency(), func() {
		n.act(n.life, func() {
			question(n, func(answer func()) {
				if !w.lost() {
					w.after(w.latency(), answer)
				}
			})
		})
	})
}
