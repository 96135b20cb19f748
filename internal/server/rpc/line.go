package rpc

import (
	"sync"

	"strandline.dev/internal/budget"
)

// Line brings the answers of a stream into the order of its requests. The only receiving goroutine
// adds a place for each request. Any goroutine may record an answer, without waiting. The sending
// goroutine takes the answers in order, and sleeps while the first place has none.
//
// With SendBy, a Flusher sends the answers that need no waiting, and the sending goroutine only
// sends the others.
type Line[T any] struct {
	limit   int
	answers *budget.Shares // nil: as many as limit

	mu    sync.Mutex
	ready sync.Cond // the sender waits for an answer of the first
	room  sync.Cond // the receiver waits for length to be below limit
	first *Place[T]
	last  *Place[T]
	// length counts the places from first to last; it is at most limit because
	// the receiver awaits room before it joins one.
	length int
	// counted is how many places were taken of answers, in steps.
	counted int
	// closed: no request may join. broken: no answers are returned.
	closed, broken bool

	flusher *Flusher // nil: the sender sends all
	try     func(T) bool
	// flushing: the line is with the flusher, and the sender keeps off.
	flushing bool
	// left is an answer that the flusher could not send. While there is one, or the
	// sender has not sent all that was ready since, the flusher keeps off.
	left   *Place[T]
	behind bool
}

// Place is one request's place in a Line. It lives in the request, so that a
// request costs the line no memory.
type Place[T any] struct {
	Value    T // what Next returns
	next     *Place[T]
	answered bool
}

const (
	// placeBytes is the memory of a place and its request after the request has its answer. Before,
	// it is part of the cost of the request.
	placeBytes = 192
	// freePlaces is the number of places of each line that are always available and not counted: a
	// fast client needs no more. Further places are counted in steps of placesStep.
	freePlaces = 32
	placesStep = 64
)

// NewLine returns a line with a limit on requests without an answer.
func NewLine[T any](limit int) *Line[T] {
	l := &Line[T]{limit: limit}
	l.ready.L, l.room.L = &l.mu, &l.mu
	return l
}

// SendBy sends answers through f, with try, which reports whether it has sent an answer without
// waiting. Next returns each answer that was not sent. SendBy must be called before the first Join.
func (l *Line[T]) SendBy(f *Flusher, try func(T) bool) { l.flusher, l.try = f, try }

// Within makes the line share the memory for answers with other lines: when that is used up, the
// line accepts requests only up to its share. It must be called before the first Join.
func (l *Line[T]) Within(answers *budget.Shares) { l.answers = answers }

// full reports whether no request may join for lack of room. The caller holds mu.
func (l *Line[T]) full() bool {
	if l.closed || l.length < min(freePlaces, l.limit) {
		return false
	}
	return l.length >= l.limit || l.answers != nil && l.length >= int(l.answers.Share(int64(l.limit)*placeBytes)/placeBytes)
}

// count sets the number of counted places. The caller holds mu.
func (l *Line[T]) count(places int) {
	l.answers.Changed(int64(l.counted)*placeBytes, int64(places)*placeBytes)
	l.counted = places
}

// AwaitRoom waits until one more request may join. It returns false if the line was closed instead.
// A receiver waits here before it receives, so that unread answers of the client never delay a
// received request.
func (l *Line[T]) AwaitRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.full() {
		l.room.Wait()
	}
	return !l.closed
}

// Full reports whether AwaitRoom would wait.
func (l *Line[T]) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full()
}

// Join adds p to the end of the line. It returns false if the line is closed.
func (l *Line[T]) Join(p *Place[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	p.next, p.answered = nil, false
	if l.first == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.length++
	if l.length > freePlaces+l.counted && l.answers != nil {
		l.count(l.counted + placesStep)
	}
	return true
}

// Answer records that p, which has joined, has its answer.
func (l *Line[T]) Answer(p *Place[T]) {
	l.mu.Lock()
	p.answered = true
	flush := p == l.first && l.flusher != nil && !l.flushing && !l.behind
	switch {
	case flush:
		l.flushing = true
	case p == l.first && !l.flushing:
		l.ready.Signal()
	}
	l.mu.Unlock()
	if flush {
		l.flusher.add(l)
	}
}

// flush sends what is ready, on the flusher's goroutine.
func (l *Line[T]) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := l.first; p != nil && p.answered && !l.broken; p = l.first {
		l.takeFirst()
		try := l.try
		l.mu.Unlock()
		sent := try(p.Value)
		l.mu.Lock()
		if !sent {
			l.left, l.behind = p, true
			break
		}
	}
	l.flushing = false
	if l.behind || l.closed {
		l.ready.Signal()
	}
}

func (l *Line[T]) takeFirst() {
	l.first = l.first.next
	l.length--
	switch {
	case l.counted == 0:
	case l.length == 0:
		l.count(0)
	case l.length+2*placesStep <= freePlaces+l.counted:
		l.count(l.counted - placesStep)
	}
	l.room.Signal()
}

// Next waits until the first place has its answer and removes it. It returns false when the line is
// closed and empty, or broken.
func (l *Line[T]) Next() (value T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; ; l.ready.Wait() {
		p := l.first
		switch {
		case l.flushing:
		case l.broken:
			return value, false
		case l.left != nil:
			value, l.left = l.left.Value, nil
			return value, true
		case p == nil && l.closed:
			return value, false
		case p != nil && p.answered:
			l.takeFirst()
			return p.Value, true
		default:
			l.behind = false
		}
	}
}

// Ready reports whether Next would return an answer without waiting for one.
func (l *Line[T]) Ready() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.broken && l.first != nil && l.first.answered
}

// Close ends joining: Next returns the remaining places, and then false.
func (l *Line[T]) Close() {
	l.mu.Lock()
	l.closed = true
	l.ready.Signal()
	l.room.Signal()
	l.mu.Unlock()
}

// Break ends the line at once, because the stream has ended. Later answers are dropped.
func (l *Line[T]) Break() {
	l.mu.Lock()
	l.broken, l.closed = true, true
	l.try = nil // it holds the stream, and requests that wait for their answers hold the line
	if l.counted > 0 {
		l.count(0)
	}
	l.ready.Signal()
	l.room.Signal()
	l.mu.Unlock()
}

// Rest removes and returns the remaining places of a broken line, answered or not.
func (l *Line[T]) Rest() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []T
	if l.left != nil {
		rest, l.left = append(rest, l.left.Value), nil
	}
	for ; l.first != nil; l.first = l.first.next {
		rest = append(rest, l.first.Value)
	}
	l.last, l.length = nil, 0
	return rest
}

// Flusher sends the answers of many lines in one goroutine. A group commit answers requests of many
// connections at once; waking the goroutine of each would cost more than sending. The goroutine
// runs only while there are answers to send.
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
