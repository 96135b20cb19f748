package sequence

import "strandline.dev/internal/record"

// proposalMemory is memory of earlier proposals to be reused.
type proposalMemory struct {
	proposals []*proposal
	buffers   []buffer
	// lent are the buffers behind the Data that the last Seal handed out.
	lent []buffer
	used bool // since the last tick
}

type buffer struct {
	bytes []byte // of length room
	room  int
}

const (
	// maxSpareBuffers is one buffer for the open proposal and some for those that were sealed
	// together.
	maxSpareBuffers = 4
	// maxSpareBytes permits the buffer of an ordinary entry to be reused, and releases an unusually
	// large one.
	maxSpareBytes = 2 * record.EntryTargetBytes
)

func (m *proposalMemory) take() *proposal {
	m.used = true
	var d *proposal
	if n := len(m.proposals); n > 0 {
		d, m.proposals = m.proposals[n-1], m.proposals[:n-1]
	} else {
		d = new(proposal)
	}
	b := buffer{room: firstRoomBytes}
	if n := len(m.buffers); n > 0 {
		b, m.buffers = m.buffers[n-1], m.buffers[:n-1]
	} else {
		b.bytes = make([]byte, firstRoomBytes, 2*firstRoomBytes)
	}
	d.buffer, d.room = b.bytes, b.room
	return d
}

func (m *proposalMemory) giveBack(d *proposal) {
	if d.buffer != nil {
		m.keep(d.takeBuffer())
	}
	clear(d.changes)
	*d = proposal{metas: d.metas[:0], changes: d.changes[:0], hashed: d.hashed[:0]}
	m.proposals = append(m.proposals, d)
}

// lend takes the buffer of a sealed proposal, to be reused after reclaim.
func (m *proposalMemory) lend(d *proposal) { m.lent = append(m.lent, d.takeBuffer()) }

// reclaim ends the validity of the bytes that the last Seal returned.
func (m *proposalMemory) reclaim() {
	for i, b := range m.lent {
		m.keep(b)
		m.lent[i] = buffer{}
	}
	m.lent = m.lent[:0]
}

func (m *proposalMemory) keep(b buffer) {
	if len(m.buffers) < maxSpareBuffers && cap(b.bytes) <= maxSpareBytes {
		m.buffers = append(m.buffers, b)
	}
}

func (d *proposal) takeBuffer() buffer {
	b := buffer{bytes: d.buffer[:d.room], room: d.room}
	d.buffer = nil
	return b
}
