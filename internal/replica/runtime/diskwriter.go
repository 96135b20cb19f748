package runtime

import (
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

const (
	// markAfter is how long a log must be idle before its writer adds a sync mark, which lets
	// recovery distinguish a torn tail from corruption.
	markAfter = 100 * time.Millisecond
	// markLatest is that time for a log that was written to again soon after its last marks.
	markLatest = time.Second
)

// marking decides how long a log must be idle before it gets a sync mark. With the mark the
// durable watermark is written and synced. So if the writes of a log come a little more than
// markAfter apart, as those of each of a thousand busy logs do, almost each of them would cost two
// syncs instead of one.
type marking struct {
	pause  time.Duration
	marked time.Duration // when the last mark was made, plus 1; 0: there was a write since
}

// wrote returns how long the log must be idle after a write at now.
func (m *marking) wrote(now time.Duration) time.Duration {
	switch {
	case m.pause == 0 || m.marked > 0 && now-m.marked >= markLatest:
		m.pause = markAfter
	case m.marked > 0:
		m.pause = min(2*m.pause, markLatest)
	}
	m.marked = 0
	return m.pause
}

// mark records a mark.
func (m *marking) mark(now time.Duration) { m.marked = now + 1 }

// diskWriter makes the core's writes durable, in order. All writes that are queued while one is
// in progress share the next write and its sync: group commit.
type diskWriter struct {
	log segment.Log
	// done is called with each group once it is durable. It may keep the group.
	done func(group []core.Write, rolled []uint64, took time.Duration)
	// failed is called at most once; no write follows.
	failed func(error)
	stall  stall
	inFile time.Duration // stall.now when the current group was in the file
	filed  func()        // sets inFile

	mu     sync.Mutex
	queue  []core.Write
	marked bool // nothing was written since the last mark
	wake   chan struct{}
	quit   chan struct{}
}

func newDiskWriter(log segment.Log) *diskWriter {
	w := &diskWriter{log: log, marked: true, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	w.filed = func() { w.inFile = w.stall.now() }
	return w
}

// enqueue queues writes. Writes for which nothing waits are written with the next one, or with
// the mark.
func (w *diskWriter) enqueue(writes []core.Write) {
	urgent := false
	for i := range writes {
		urgent = urgent || writes[i].Waits()
	}
	w.mu.Lock()
	w.queue = append(w.queue, writes...)
	urgent = urgent || w.marked
	w.mu.Unlock()
	if urgent {
		w.nudge()
	}
}

func (w *diskWriter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes until stopped. Everything queued by then is written first.
func (w *diskWriter) run() {
	var marking marking
	var left time.Duration // of the pause, after markAfter
	idle := time.NewTimer(markAfter)
	defer idle.Stop()
	for {
		select {
		case <-w.wake:
		case <-idle.C:
			if left > 0 {
				w.log.Rest()
				idle.Reset(left)
				left = 0
				continue
			}
			if !w.flush() || !w.mark() {
				return
			}
			marking.mark(w.stall.now())
			continue
		case <-w.quit:
			w.flush()
			return
		}
		if !w.flush() {
			return
		}
		left = marking.wrote(w.stall.now()) - markAfter
		idle.Reset(markAfter)
	}
}

// flush writes everything that is queued as one group.
func (w *diskWriter) flush() bool {
	w.mu.Lock()
	group := w.queue
	w.queue = nil
	if len(group) > 0 {
		w.marked = false
	}
	w.mu.Unlock()
	return len(group) == 0 || w.write(group)
}

func (w *diskWriter) write(group []core.Write) bool {
	begun := w.stall.begin()
	defer w.stall.end()
	writes := make([]segment.Write, 0, len(group)+1)
	var rolled []uint64
	for i := range group {
		if s := group[i].Install; s != nil {
			// Earlier writes are below the snapshot and are discarded.
			writes, rolled = writes[:0], nil
			if err := w.log.Reset(s.Index, s.Term, s.Start, s.Hard, s.Encode()); err != nil {
				w.failed(err)
				return false
			}
		}
		writes = append(writes, group[i].Write)
	}
	writes = append(writes, segment.Write{Written: w.filed}) // only records the time
	result, err := w.log.Write(writes)
	if err != nil {
		w.failed(err)
		return false
	}
	for i := range group {
		group[i].Begun, group[i].InFile = int64(begun), int64(w.inFile)
	}
	w.done(group, append(rolled, result.Rolled...), w.stall.now()-begun)
	return true
}

func (w *diskWriter) mark() bool {
	w.mu.Lock()
	marked := w.marked
	w.marked = true
	w.mu.Unlock()
	if marked {
		return true
	}
	w.stall.begin()
	defer w.stall.end()
	if err := w.log.Mark(); err != nil {
		w.failed(err)
		return false
	}
	return true
}

// DefaultStall is how long one disk operation may take before the disk counts as stalled. It is
// far longer than on a busy disk, and a kernel gives up a request only after 30 s or more.
const DefaultStall = 10 * time.Second

// stall records since when the writer has waited for the disk. A disk that hangs returns no
// error, and the wait has no limit.
type stall struct {
	limit time.Duration
	now   func() time.Duration // never decreases
	since atomic.Int64         // now in nanoseconds, plus 1, when the current operation began; 0: there is none
}

// begin records the start of an operation and returns now.
func (s *stall) begin() time.Duration {
	now := s.now()
	s.since.Store(int64(now) + 1)
	return now
}

func (s *stall) end() { s.since.Store(0) }

// stalled returns how long the current operation has taken, if that is more than the limit, and 0
// otherwise.
func (s *stall) stalled() time.Duration {
	since := s.since.Load()
	if since == 0 {
		return 0
	}
	if took := s.now() + 1 - time.Duration(since); took >= s.limit {
		return took
	}
	return 0
}
