package rpc

import "sync"

// Flusher sends the answers of many lines by one goroutine. A group commit answers a
// request of each of many connections at once; to wake the goroutine of each of them
// would cost more than what it does then. The goroutine lives while there is something to
// send.
type Flusher struct {
	mu      sync.Mutex
	lines   []flushed
	running bool
}

// flushed is a Line.
type flushed interface{ flush() }

func (f *Flusher) add(l flushed) {
	f.mu.Lock()
	f.lines = append(f.lines, l)
	start := !f.running
	f.running = true
	f.mu.Unlock()
	if start {
		go f.run()
	}
}

func (f *Flusher) run() {
	var lines []flushed
	for {
		f.mu.Lock()
		clear(lines)
		lines, f.lines = f.lines, lines[:0]
		f.running = len(lines) > 0
		f.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		for _, l := range lines {
			l.flush()
		}
	}
}
