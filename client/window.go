package client

import "time"

// Bounds of the automatic window. If few small requests are in flight, callers that wait for each
// append share a request; many large requests fill a long link.
const (
	automaticRequests = 64
	automaticSmall    = 4
	automaticLarge    = 64 << 10 // a request of at least this many bytes is large
	automaticBytes    = 16 << 20
	// If every answer takes at least farAway, the limit of the bytes in flight may grow to this:
	// 450 MiB/s over a round trip of 140 ms.
	automaticFarBytes = 64 << 20
	farAway           = 20 * time.Millisecond
)

// window holds the requests in flight: those that were put on a stream, or are being put on it,
// and have no answer. A request enters before its first byte reaches the socket, and leaves when
// its answer arrives.
type window struct {
	maxRequests int
	maxSmall    int // requests beyond these must be large
	maxBytes    int
	mostBytes   int // limit of maxBytes

	least time.Duration // shortest time of an answer; 0: none has arrived
	grown time.Time     // when maxBytes last grew

	flight []*request // oldest first
	sent   int        // number of requests of flight on the open stream
	held   bool       // no request may be put on that stream
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

// answered doubles the limit of the bytes in flight if the link is long and at least three
// quarters of the limit are in use, at most once in the time of an answer. Only the shortest time
// of an answer counts as the length of the link: a log that is slow for another reason has
// answered faster before.
func (w *window) answered(took time.Duration, now time.Time) {
	if w.least == 0 || took < w.least {
		w.least = took
	}
	if w.least >= farAway && w.maxBytes < w.mostBytes && w.bytes >= w.maxBytes/4*3 && now.Sub(w.grown) >= took {
		w.maxBytes, w.grown = min(2*w.maxBytes, w.mostBytes), now
	}
}

// admits reports whether a request of size bytes may be sent now.
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

// unsent returns the next request to send on this stream, or nil.
func (w *window) unsent() *request {
	if w.sent == len(w.flight) || w.held {
		return nil
	}
	return w.flight[w.sent]
}

// oldest returns the request that the next answer belongs to, or nil.
func (w *window) oldest() *request {
	if w.sent == 0 {
		return nil
	}
	return w.flight[0]
}

// pop removes the oldest request and returns it.
func (w *window) pop() *request {
	oldest := w.flight[0]
	w.bytes -= oldest.size
	n := copy(w.flight, w.flight[1:])
	w.flight[n] = nil
	w.flight = w.flight[:n]
	w.sent = max(0, w.sent-1)
	return oldest
}

// reset prepares the window for a new stream. All requests must be sent again, except failed
// ones, which only waited for their refusals.
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

// fail removes the requests that are not on the stream, marks those on it as failed, and returns
// all requests that had not failed before.
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

// lowWater returns the sequence number below which every request is answered. It is called only
// when there is a request to send.
func (w *window) lowWater() uint64 {
	for _, r := range w.flight {
		if r.state != failed {
			return r.first
		}
	}
	return 0
}

// ambiguous reports whether an earlier send of a request in flight may have reached the log.
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
