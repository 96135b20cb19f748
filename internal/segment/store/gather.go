package store

// gather collects the bytes of one write. Short parts are copied into one buffer; a long payload
// is referenced, and the write becomes a vector of buffers. The next write reuses the buffer.
type gather struct {
	buffer  []byte
	begun   int      // start of the part of buffer that is not in vectors yet
	vectors [][]byte // parts of buffer and long payloads, in order
	size    int64
}

// referenceFrom is the payload size in bytes from which a vector is cheaper than a copy, see
// BenchmarkGather.
const referenceFrom = 16 << 10

// keepBuffer bounds the memory that a log keeps between writes.
const keepBuffer = 1 << 20

// keepIdle bounds it while the log is idle.
const keepIdle = 16 << 10

func (g *gather) reset() {
	if cap(g.buffer) > keepBuffer {
		g.buffer = nil
	}
	clear(g.vectors) // releases the payloads
	g.buffer, g.vectors, g.begun, g.size = g.buffer[:0], g.vectors[:0], 0, 0
}

// shrink is called when the log becomes idle, with nothing gathered.
func (g *gather) shrink() {
	if cap(g.buffer) > keepIdle {
		g.buffer = nil
	}
	g.vectors = nil
}

// extend adds n bytes, which the caller fills before the next call.
func (g *gather) extend(n int) []byte {
	at := len(g.buffer)
	if cap(g.buffer)-at < n {
		// Bytes in vectors stay in the old buffer; the rest is copied.
		grown := make([]byte, len(g.buffer)-g.begun, max(2*cap(g.buffer), len(g.buffer)-g.begun+n, 4<<10))
		copy(grown, g.buffer[g.begun:])
		g.buffer, g.begun, at = grown, 0, len(grown)
	}
	g.buffer = g.buffer[:at+n]
	g.size += int64(n)
	return g.buffer[at:]
}

// add adds b, which must not change until the write is done.
func (g *gather) add(b []byte) {
	if len(b) < referenceFrom {
		copy(g.extend(len(b)), b)
		return
	}
	g.close()
	g.vectors = append(g.vectors, b)
	g.size += int64(len(b))
}

// close moves the bytes in buffer to vectors.
func (g *gather) close() {
	if len(g.buffer) > g.begun {
		g.vectors = append(g.vectors, g.buffer[g.begun:])
		g.begun = len(g.buffer)
	}
}
