package client

import "time"

// Bounds of the automatic window. Few small requests at a time make callers
// that wait for each append meet in one; many large ones fill a long link.
const (
	automaticRequests = 64
	automaticSmall    = 4
	automaticLarge    = 64 << 10 // bytes that make a request large
	automaticBytes    = 16 << 20
	// On a link on which every answer takes farAway the bytes in flight may grow to
	// this: 450 MiB/s over a round trip of 140 ms.
	automaticFarBytes = 64 << 20
	farAway           = 20 * time.Millisecond
)

// window holds the requests in flight: those that were, or are just being, put
// on a stream and have no answer. A request enters before its first byte
// reaches the socket, and leaves when its answer has come.
type window struct {
	maxRequests int
	maxSmall    int // requests beyond these must be large
	maxBytes    int
	mostBytes   int // what maxBytes may grow to

	least time.Duration // that an answer has taken; 0: none has come
	grown time.Time     // maxBytes, the last time

	flight []*request // oldest first
	sent   int        // of flight, on the stream that is open now
	held   bool       // nothing more is put on that stream
	bytes  int
}

func newWindow(requests, bytes int) window {
	w := window{maxRequests: requests, maxSmall: requests, maxBytes: bytes, mostBytes: bytes}
	if requests == 0 {
		w.maxRequests, w.maxSmall = automaticRequests, automaticSmall
	}
	if bytes == 0 {
		w.maxBytes, w.mostBytes = automaticBytes, automaticFarBytes
	}
	return w
}

// answered doubles the bytes that may be in flight, at most once in the time that an
// answer takes, where the link is long and nearly as many are. A log that is slow for
// another reason has been fast before.
func (w *window) answered(took time.Duration, now time.Time) {
	if w.least == 0 || took < w.least {
		w.least = took
	}
	if w.least >= farAway && w.maxBytes < w.mostBytes && w.bytes >= w.maxBytes/4*3 && now.Sub(w.grown) >= took {
		w.maxBytes, w.grown = min(2*w.maxBytes, w.mostBytes), now
	}
}

// admits reports whether a request of that size may be sent now.
func (w *window) admits(size int) bool {
	n := len(w.flight)
	switch {
	case w.held:
		return false
	case n == 0:
		return true
	case n >= w.maxRequests || w.bytes+size > w.maxBytes:
		return false
	}
	return n < w.maxSmall || size >= automaticLarge
}

func (w *window) push(r *request) {
	w.flight = append(w.flight, r)
	w.bytes += r.size
}

// unsent is the next request that has to be sent on this stream, or nil.
func (w *window) unsent() *request {
	if w.sent == len(w.flight) || w.held {
		return nil
	}
	return w.flight[w.sent]
}

// oldest is the request that the next answer is for, or nil.
func (w *window) oldest() *request {
	if w.sent == 0 {
		return nil
	}
	return w.flight[0]
}

// pop takes out the oldest request and returns it.
func (w *window) pop() *request {
	oldest := w.flight[0]
	w.bytes -= oldest.size
	n := copy(w.flight, w.flight[1:])
	w.flight[n] = nil
	w.flight = w.flight[:n]
	w.sent = max(0, w.sent-1)
	return oldest
}

// reset is for a stream that has ended: all requests have to be sent again,
// but for those that failed already and only waited for their refusals.
func (w *window) reset() {
	kept := w.flight[:0]
	w.bytes = 0
	for _, r := range w.flight {
		if r.state != failed {
			kept = append(kept, r)
			w.bytes += r.size
		}
	}
	clear(w.flight[len(kept):])
	w.flight, w.sent, w.held = kept, 0, false
}

// fail takes out what is not on the stream, marks the rest, and returns all that
// had not failed before.
func (w *window) fail() []*request {
	var ended []*request
	for _, r := range w.flight {
		if r.state != failed {
			ended = append(ended, r)
		}
	}
	for _, r := range w.flight[:w.sent] {
		r.state = failed
	}
	for _, r := range w.flight[w.sent:] {
		w.bytes -= r.size
	}
	clear(w.flight[w.sent:])
	w.flight = w.flight[:w.sent]
	return ended
}

// lowWater is the sequence below which all answers are there. It is asked for
// when there is a request to be sent.
func (w *window) lowWater() uint64 {
	for _, r := range w.flight {
		if r.state != failed {
			return r.first
		}
	}
	return 0
}

// ambiguous reports whether a request in flight may be in the log by an earlier
// sending.
func (w *window) ambiguous() bool {
	for _, r := range w.flight {
		if r.outcome != NotDone && r.state != failed {
			return true
		}
	}
	return false
}

func (w *window) records() int {
	n := 0
	for _, r := range w.flight {
		n += r.count
	}
	return n
}
