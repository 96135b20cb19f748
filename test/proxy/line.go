package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// blockBytes is the size of the buffers that sockets are read into.
	blockBytes = 256 << 10
	// minReadBytes is the least room that is worth a read; with less a block
	// is full.
	minReadBytes = 64 << 10
	// maxWriteBytes is about how much is taken out of a line for one write.
	maxWriteBytes = 1 << 20
)

// maxHeld is how many bytes a line holds before it stops reading, and the
// sender feels it as a full window: 1 MiB, and what 1 GiB/s brings within the
// delay, at most 256 MiB. So a line carries up to 1 GiB/s at delays up to
// 250 ms, and less over longer ones.
func maxHeld(delay time.Duration) int {
	return 1<<20 + int(min(delay.Seconds()*(1<<30), 256<<20))
}

// errGone says that the side written to is no more.
var errGone = errors.New("the other side is gone")

// errClosed says that the line was closed.
var errClosed = errors.New("line closed")

// line is one direction of a connection: bytes in the order they came, each
// with the time before which it must not leave.
type line struct {
	forwarded chan struct{} // closed when forward has returned

	mu      sync.Mutex
	changed sync.Cond
	wake    *time.Timer // broadcasts changed
	waiting []chunk
	held    int // bytes in waiting
	end     error
	endDue  time.Time
	delay   time.Duration
	stalled bool
	closed  bool
}

// chunk is what one read brought.
type chunk struct {
	bytes []byte
	due   time.Time         // zero: at once
	block *[blockBytes]byte // to be given back after this chunk, or nil
}

var blocks = sync.Pool{New: func() any { return new([blockBytes]byte) }}

func newLine() *line {
	l := &line{forwarded: make(chan struct{})}
	l.changed.L = &l.mu
	l.wake = time.AfterFunc(time.Hour, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	return l
}

// fill reads from into the line until that ends; the end travels behind the
// bytes, as late as they.
func (l *line) fill(from io.Reader, seen func([]byte)) {
	block, filled := blocks.Get().(*[blockBytes]byte), 0
	for l.awaitRoom() {
		n, err := from.Read(block[filled:])
		if n > 0 {
			c := chunk{bytes: block[filled : filled+n]}
			seen(c.bytes)
			if filled += n; blockBytes-filled < minReadBytes {
				c.block = block
				block, filled = blocks.Get().(*[blockBytes]byte), 0
			}
			l.add(c)
		}
		if err != nil {
			l.finish(err)
			return
		}
	}
}

// forward writes to what is due, until it has reached the end of the stream,
// which it returns: io.EOF or what ended reading; or errGone if nobody takes
// the bytes, and errClosed.
func (l *line) forward(to *net.TCPConn, seen func([]byte)) error {
	defer close(l.forwarded)
	var batch []chunk
	for {
		var end error
		if batch, end = l.take(batch[:0]); end != nil {
			return end
		}
		for _, c := range batch {
			seen(c.bytes)
		}
		if writeAll(to, batch) != nil {
			return errGone
		}
		for _, c := range batch {
			if c.block != nil {
				blocks.Put(c.block)
			}
		}
	}
}

func writeAll(to *net.TCPConn, batch []chunk) error {
	if len(batch) == 1 {
		_, err := to.Write(batch[0].bytes)
		return err
	}
	buffers := make(net.Buffers, 0, len(batch))
	for _, c := range batch {
		buffers = append(buffers, c.bytes)
	}
	_, err := buffers.WriteTo(to)
	return err
}

// awaitRoom waits until another read may be made; false: never.
func (l *line) awaitRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held >= maxHeld(l.delay) && !l.closed {
		l.changed.Wait()
	}
	return !l.closed
}

func (l *line) add(c chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.due = l.due()
	l.waiting = append(l.waiting, c)
	l.held += len(c.bytes)
	l.changed.Broadcast()
}

func (l *line) finish(end error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end, l.endDue = end, l.due()
	l.changed.Broadcast()
}

// due needs mu.
func (l *line) due() time.Time {
	if l.delay == 0 {
		return time.Time{}
	}
	return time.Now().Add(l.delay)
}

// take waits for chunks that may leave and appends them to batch; or returns
// the end of the stream when that may be passed on.
func (l *line) take(batch []chunk) ([]chunk, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.closed:
			return batch, errClosed
		case l.stalled:
		case len(l.waiting) > 0:
			if l.isDue(l.waiting[0].due) {
				return l.takeDue(batch), nil
			}
		case l.end != nil && l.isDue(l.endDue):
			return batch, l.end
		}
		l.changed.Wait()
	}
}

// takeDue needs mu, and a first chunk that is due.
func (l *line) takeDue(batch []chunk) []chunk {
	now, n, size := time.Now(), 0, 0
	for n < len(l.waiting) && size < maxWriteBytes && !l.waiting[n].due.After(now) {
		size += len(l.waiting[n].bytes)
		n++
	}
	batch = append(batch, l.waiting[:n]...)
	clear(l.waiting[:n])
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	l.held -= size
	l.changed.Broadcast()
	return batch
}

// isDue needs mu. It sees to it that changed is notified when t comes.
func (l *line) isDue(t time.Time) bool {
	if t.IsZero() {
		return true
	}
	wait := time.Until(t)
	if wait > 0 {
		l.wake.Reset(wait)
	}
	return wait <= 0
}

func (l *line) setDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
	l.changed.Broadcast()
}

func (l *line) setStalled(stalled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = stalled
	l.changed.Broadcast()
}

// close ends fill and forward; what the line holds is forgotten.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Stop()
	l.changed.Broadcast()
}
