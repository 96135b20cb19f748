package peer

import (
	"sync"
	"time"
)

// tooLarge holds, for each log, the time when a message that is too large was last logged, so
// that a message that is sent repeatedly does not fill the log file.
type tooLarge struct {
	mu   sync.Mutex
	last map[uint64]time.Time
}

// due reports whether a line about a log may be written now.
func (t *tooLarge) due(log uint64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ever := t.last[log]; ever && now.Sub(last) < tooLargeEvery {
		return false
	}
	if t.last == nil || len(t.last) >= maxTooLarge {
		t.last = map[uint64]time.Time{}
	}
	t.last[log] = now
	return true
}

// dropTooLarge counts and logs a message that is too large for every lane.
func (l *link) dropTooLarge(h header, bytes int, why string) {
	l.mesh.options.countTooLarge()
	if l.large.due(h.log, time.Now()) {
		l.log().Error("a message for a node is too large and is dropped each time it is sent", "log", h.log, "replica", h.replica, "bytes", bytes, "reason", why)
	}
}

// countTooLarge counts a message, call or answer that is not sent because of its size.
func (o *Options) countTooLarge() {
	if f := o.TooLarge; f != nil {
		f()
	}
}
