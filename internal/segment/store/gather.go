package store

// gather collects the bytes of one write. Short pieces are copied into one
// buffer; a long payload is taken by reference, and the write becomes a
// vector of buffers. The buffer is reused by the next write.
type gather struct {
	buffer  []byte
	begun   int      // where the part of buffer that is not in vectors yet begins
	vectors [][]byte // parts of buffer and long payloads, in order
	size    int64
}

// referenceFrom is the payload size from which a vector is cheaper than a
// copy, see BenchmarkGather.
const referenceFrom = 16 << 10

// keepBuffer bounds the memory that a log keeps between its writes.
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

// shrink is called when the log has fallen idle, with nothing gathered.
func (g *gather) shrink() {
	if cap(g.buffer) > keepIdle {
		g.buffer = nil
	}
	g.vectors = nil
}

// extend adds n bytes for the caller to fill before the next call.
func (g *gather) extend(n int) []byte {
	at := len(g.buffer)
	if cap(g.buffer)-at < n {
		// What is in vectors keeps the old buffer; the rest moves.
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

// close moves what is in buffer to vectors.
func (g *gather) close() {
	if len(g.buffer) > g.begun {
		g.vectors = append(g.vectors, g.buffer[g.begun:])
		g.begun = len(g.buffer)
	}
}
