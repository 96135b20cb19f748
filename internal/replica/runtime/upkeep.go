package runtime

import (
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
)

// upkeep is the work on a log that no append waits for: saving snapshots and
// removing trimmed segments. It runs beside the writer, in small steps with
// pauses between them, so that the disk stays free for appends.
type upkeep struct {
	log  segment.Log
	tail *tail.Tail

	mu        sync.Mutex
	snapshots []core.Snapshot // to be saved, oldest first; at most maxSnapshots
	trim      bool            // segments below the start of the log may be there
	running   bool            // a goroutine works on it
}

const (
	// maxSnapshots bounds the memory that snapshots take on a disk that does not
	// keep up: what changed of the table from each to the next. The oldest is dropped: the log can then not begin at its segment,
	// and trimming waits for the next one.
	maxSnapshots = 8

	// Between two steps upkeep pauses for restFactor times as long as the step
	// took, so it uses at most a fifth of the disk's time.
	restFactor = 4
	minRest    = time.Millisecond
	maxRest    = time.Second
)

// add notes work and reports whether the caller has to start a goroutine for
// it.
func (u *upkeep) add(snapshots []core.Snapshot) (start bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.snapshots = append(u.snapshots, snapshots...)
	if n := len(u.snapshots) - maxSnapshots; n > 0 {
		u.snapshots = slices.Delete(u.snapshots, 0, n)
	}
	u.trim = true
	start = !u.running
	u.running = true
	return start
}

// pending reports whether there is work.
func (u *upkeep) pending() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.snapshots) > 0 || u.trim
}

// step does one piece of the work. Without more there is nothing left, and the
// goroutine that called it has to end. An error is no danger: segments stay
// until the next time.
func (u *upkeep) step() (more bool, err error) {
	u.mu.Lock()
	var s core.Snapshot
	save := len(u.snapshots) > 0
	switch {
	case save:
		s = u.snapshots[0]
		u.snapshots = slices.Delete(u.snapshots, 0, 1)
	case u.trim:
		u.trim = false
	default:
		u.running = false
		u.mu.Unlock()
		return false, nil
	}
	u.mu.Unlock()
	if save {
		return true, u.log.SaveSnapshot(s.Index, s.Term, s.Encode())
	}
	again, err := u.trimStep()
	if again {
		u.mu.Lock()
		u.trim = true
		u.mu.Unlock()
	}
	return true, err
}

// trimStep gives back some of the segments below the start of the log.
func (u *upkeep) trimStep() (more bool, err error) {
	start, _, err := u.tail.Bounds()
	if err != nil || start <= u.log.StartOffset() {
		return false, nil // a replica that has ended trims nothing
	}
	below, err := u.startIndex()
	if err != nil {
		return false, err
	}
	return u.log.Trim(below)
}

// startIndex is the index of the first entry that the trims of the log have left.
func (u *upkeep) startIndex() (uint64, error) {
	start, _, err := u.tail.Bounds()
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

// StartIndex is the index of the first entry that the trims applied here have left.
func (r *Replica) StartIndex() (uint64, error) { return r.upkeep.startIndex() }

// run works until nothing is left. After quit it only saves the snapshots that
// wait.
func (u *upkeep) run(quit <-chan struct{}, failed func(error)) {
	for {
		select {
		case <-quit:
			u.mu.Lock()
			u.trim = false
			u.mu.Unlock()
		default:
		}
		begin := time.Now()
		more, err := u.step()
		if err != nil {
			failed(err)
		}
		if !more {
			return
		}
		rest := time.NewTimer(min(max(restFactor*time.Since(begin), minRest), maxRest))
		select {
		case <-rest.C:
		case <-quit:
			rest.Stop()
		}
	}
}
