package runtime

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
)

// upkeep is the work on a log for which no append waits: saving snapshots, removing trimmed
// segments, and building key summaries of complete ones. It runs concurrently with the writer, in
// small steps with pauses between them, so that the disk stays free for appends.
type upkeep struct {
	log  segment.Log
	tail *tail.Tail
	// reads is the memory for reads, part of which is used while a key summary is built.
	reads *budget.Pool
	// covered is the offset up to which the digest covers the log. Segments behind it are not
	// removed.
	covered *atomic.Int64

	mu        sync.Mutex
	snapshots []core.Snapshot // to be saved, oldest first; at most maxSnapshots
	trim      bool            // there may be segments below the start of the log
	summarize bool            // there may be complete segments without a key summary
	byKey     time.Time       // time of the last read by key; zero: none yet
	running   bool            // a goroutine works on it
}

// summaryInterest is how long after a read by key summaries are built for newly complete segments.
// Logs that are never read by key have no cost.
const summaryInterest = 24 * time.Hour

// readByKey records a read by key, and reports whether the caller must call add.
func (u *upkeep) readByKey(unknown bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byKey = time.Now()
	start := unknown && !u.summarize
	u.summarize = u.summarize || unknown
	return start
}

const (
	// maxSnapshots bounds the memory of snapshots on a disk that does not keep up: the changes of
	// the table from each to the next. The oldest is dropped: the log can then not begin at its
	// segment, and trimming waits for the next one.
	maxSnapshots = 8

	// Between two steps upkeep pauses restFactor times as long as the step took, so it uses at most
	// a fifth of the disk's time.
	restFactor = 4
	minRest    = time.Millisecond
	maxRest    = time.Second
)

// add adds work and reports whether the caller must start a goroutine for it.
func (u *upkeep) add(snapshots []core.Snapshot) (start bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.snapshots = append(u.snapshots, snapshots...)
	if n := len(u.snapshots) - maxSnapshots; n > 0 {
		u.snapshots = slices.Delete(u.snapshots, 0, n)
	}
	u.trim = true
	u.summarize = u.summarize || time.Since(u.byKey) < summaryInterest
	start = !u.running
	u.running = true
	return start
}

// pending reports whether there is work.
func (u *upkeep) pending() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.snapshots) > 0 || u.trim || u.summarize
}

// step does one piece of the work. If more is false nothing is left, and the calling goroutine
// must end. An error is harmless: segments stay until the next time.
func (u *upkeep) step(rest func() bool) (more bool, err error) {
	u.mu.Lock()
	var s core.Snapshot
	var again *bool
	work := func() (bool, error) { return false, u.log.SaveSnapshot(s.Index, s.Term, s.Encode()) }
	switch {
	case len(u.snapshots) > 0:
		s = u.snapshots[0]
		u.snapshots = slices.Delete(u.snapshots, 0, 1)
	case u.trim:
		u.trim, again, work = false, &u.trim, u.trimStep
	case u.summarize:
		u.summarize, again, work = false, &u.summarize, func() (bool, error) { return u.summaryStep(rest) }
	default:
		u.running = false
		u.mu.Unlock()
		return false, nil
	}
	u.mu.Unlock()
	left, err := work()
	if left {
		u.mu.Lock()
		*again = true
		u.mu.Unlock()
	}
	return true, err
}

// summaryStep builds the key summary of one segment if there is memory for it. Otherwise it is
// tried again with the next segment or read by key.
func (u *upkeep) summaryStep(rest func() bool) (more bool, err error) {
	room := min(segment.SummaryRoom, u.reads.Size()/2)
	if !u.reads.TryAcquire(room) {
		return false, nil
	}
	defer u.reads.Release(room)
	return u.log.Summarize(rest)
}

// trimStep removes some of the segments below the start of the log.
func (u *upkeep) trimStep() (more bool, err error) {
	start, err := u.disposable()
	if err != nil || start <= u.log.StartOffset() {
		return false, nil // a replica that has ended does not trim
	}
	below, err := u.startIndex()
	if err != nil {
		return false, err
	}
	return u.log.Trim(below)
}

// disposable returns the offset below which segments may be removed.
func (u *upkeep) disposable() (record.Offset, error) {
	start, _, err := u.tail.Bounds()
	return min(start, record.Offset(u.covered.Load())), err
}

// startIndex returns the index of the first entry that trims have kept or that the digest does
// not cover.
func (u *upkeep) startIndex() (uint64, error) {
	start, err := u.disposable()
	if err != nil {
		return 0, err
	}
	if start <= u.log.StartOffset() {
		return u.log.FirstIndex(), nil
	}
	cursor, err := u.log.NewCursor(start)
	if err != nil {
		return 0, err
	}
	defer cursor.Close()
	frames, err := cursor.Next(start+1, 1)
	if err != nil {
		return 0, err
	}
	if len(frames) == 0 {
		return u.log.LastIndex(), nil
	}
	return frames[0].Index, nil
}

// Disposable returns the offset below which segments may be removed, according to the trims
// applied here.
func (r *Replica) Disposable() (record.Offset, error) { return r.upkeep.disposable() }

// StartIndex returns the index of the first entry that the trims applied here have kept.
func (r *Replica) StartIndex() (uint64, error) { return r.upkeep.startIndex() }

// run works until nothing is left. After quit it only saves the waiting snapshots.
func (u *upkeep) run(quit <-chan struct{}, failed func(error)) {
	begin := time.Now()
	rest := func() bool {
		timer := time.NewTimer(min(max(restFactor*time.Since(begin), minRest), maxRest))
		defer timer.Stop()
		select {
		case <-timer.C:
			begin = time.Now()
			return true
		case <-quit:
			return false
		}
	}
	for {
		select {
		case <-quit:
			u.mu.Lock()
			u.trim, u.summarize = false, false
			u.mu.Unlock()
		default:
		}
		begin = time.Now()
		more, err := u.step(rest)
		if err != nil {
			failed(err)
		}
		if !more {
			return
		}
		rest()
	}
}

// maintain starts the upkeep unless it is running.
func (l *loop) maintain(snapshots []core.Snapshot) {
	if l.upkeep.add(snapshots) && !l.stepped {
		l.running.Go(func() { l.upkeep.run(l.disk.quit, l.upkeepFailed) })
	}
}

// readByKey records a read by key. unknown reports whether the segment has no key summary.
func (l *loop) readByKey(unknown bool) {
	if l.upkeep.readByKey(unknown) {
		l.post(input{do: func(*core.Core) { l.maintain(nil) }})
	}
}

func (l *loop) upkeepFailed(err error) {
	l.logger.Error("could not save a snapshot, remove trimmed segments or summarize keys; trying again with the next segment or trim", "error", err)
	l.damaged(err)
}
