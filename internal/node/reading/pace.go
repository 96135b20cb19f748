package reading

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// Pace slows down reads of old records while this machine's processors are short and the log
// receives appends. A client that reads a log from its start can use all processors and the whole
// disk, and an append, which waits for a processor at each of its steps, is delayed several times.
//
// Readers pause now and then. A pause that ends late shows that processors are short, and doubles
// the pauses of all readers. Each pause that ends in time shortens the next one a little, until
// about one in easing is late.
type Pace struct {
	pause atomic.Int64 // ns for each MiB; at least shortestPause once it is used
}

const (
	// A pause of shortestPause for each MiB does not slow down a reader: 1 GiB/s.
	shortestPause = time.Millisecond
	// longestPause lets each reader read at least 5 MiB/s. A reader also reads at least catchUp
	// times the rate at which its log grows.
	longestPause = 200 * time.Millisecond
	catchUp      = 4
	// latePause is longer than timers are late on an idle processor.
	latePause = 300 * time.Microsecond
	// easing is the part by which a pause that was not late shortens the next.
	easing = 32
	// pacedChunkBytes is the read size of paced readers: whoever waits for this processor waits for
	// less than half a millisecond.
	pacedChunkBytes = 256 << 10
	// PacedTime is how long reads of a log are paced after an append.
	PacedTime = time.Second
)

// pacer is the state of one reader in a pace.
type pacer struct {
	pace   *Pace
	intake *Intake       // of the reader's log
	most   time.Duration // the longest pause for each MiB; 0: longestPause
	owed   time.Duration // less than shortestPause
}

// hold pauses for the given number of bytes, unless ctx ends. Debt below shortestPause is carried
// over.
func (p *pacer) hold(ctx context.Context, bytes int) error {
	wanted := max(time.Duration(p.pace.pause.Load()), shortestPause)
	pause := min(wanted, p.longest(time.Now()))
	if p.owed += pause * time.Duration(bytes) >> 20; p.owed < shortestPause {
		return nil
	}
	begun := time.Now()
	timer := time.NewTimer(p.owed)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
		return ctx.Err()
	}
	p.pace.learn(wanted, time.Since(begun)-p.owed)
	p.owed = 0
	return nil
}

// longest returns the longest pause for each MiB with which this reader does not fall behind its
// log.
func (p *pacer) longest(now time.Time) time.Duration {
	most := cmp.Or(p.most, longestPause)
	rate := float64(p.intake.Rate(now)) * catchUp
	if rate <= float64(1<<20)/most.Seconds() {
		return most
	}
	return time.Duration(float64(1<<20) / rate * float64(time.Second))
}

// learn sets the next pause from the lateness of the last one. Of two concurrent calls, one may be
// lost.
func (p *Pace) learn(pause, late time.Duration) {
	if late > latePause {
		pause = min(2*pause, longestPause)
	} else {
		pause = max(pause-pause/easing, shortestPause)
	}
	p.pause.Store(int64(pause))
}

// Intake measures the rate at which a log grows. It belongs to the log, so that a new reader knows
// the rate immediately.
type Intake struct {
	second      atomic.Int64 // unix, of the newest write
	bytes       atomic.Int64 // in that second
	bytesBefore atomic.Int64 // in the second before
}

// Took counts bytes. Only the log's writer calls it.
func (i *Intake) Took(bytes int, now time.Time) {
	second := now.Unix()
	if last := i.second.Load(); second != last {
		before := int64(0)
		if second == last+1 {
			before = i.bytes.Load()
		}
		i.bytesBefore.Store(before)
		i.bytes.Store(0)
		i.second.Store(second)
	}
	i.bytes.Add(int64(bytes))
}

// Rate returns bytes per second: of the last whole second, or of the current one if it has more.
// Called during a write, it may be one write behind.
func (i *Intake) Rate(now time.Time) int64 {
	switch now.Unix() - i.second.Load() {
	case 0:
		return max(i.bytes.Load(), i.bytesBefore.Load())
	case 1:
		return i.bytes.Load()
	}
	return 0
}
