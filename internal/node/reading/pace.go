package reading

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// Pace holds reads of old records back while this machine's cores are short and
// the log takes appends: who boots from the start of a log can use all there is
// of both, and an append, which waits for a core at each of its steps, pays for
// that many times over.
//
// Readers pause now and then, and how late a pause ends reports whether cores are
// to be had. Late once, and all pause twice as long; each time that was not late
// makes pauses a little shorter again, until about one in easing is late.
type Pace struct {
	pause atomic.Int64 // ns for each MiB; at least shortestPause once it is used
}

const (
	// A pause of shortestPause for each MiB holds nobody back: 1 GiB/s.
	shortestPause = time.Millisecond
	// longestPause leaves each reader 5 MiB/s, whatever else there is to do, and
	// one that would fall behind catchUp times what its log takes.
	longestPause = 200 * time.Millisecond
	catchUp      = 4
	// latePause is more than timers are late where a core is idle.
	latePause = 300 * time.Microsecond
	// easing is the part by which a pause that was not late shortens the next.
	easing = 32
	// pacedChunkBytes is read at once: what waits for the core that works on it
	// does so for less than half a millisecond.
	pacedChunkBytes = 256 << 10
	// PacedTime after an append the reads of its log are not paced any more.
	PacedTime = time.Second
)

// pacer is one reader's part in a pace.
type pacer struct {
	pace   *Pace
	intake *Intake       // of the reader's log
	most   time.Duration // the longest pause for each MiB; 0: longestPause
	owed   time.Duration // less than shortestPause
}

// hold pauses for what so many bytes owe, unless ctx ends. What is less than
// shortestPause is owed until later.
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

// longest is the longest pause for each MiB with which this reader does not fall
// behind its log.
func (p *pacer) longest(now time.Time) time.Duration {
	most := cmp.Or(p.most, longestPause)
	rate := float64(p.intake.Rate(now)) * catchUp
	if rate <= float64(1<<20)/most.Seconds() {
		return most
	}
	return time.Duration(float64(1<<20) / rate * float64(time.Second))
}

// learn sets the next pause from how late one was. Of two readers that learn at
// the same time one may be forgotten.
func (p *Pace) learn(pause, late time.Duration) {
	if late > latePause {
		pause = min(2*pause, longestPause)
	} else {
		pause = max(pause-pause/easing, shortestPause)
	}
	p.pause.Store(int64(pause))
}

// Intake is how much a log takes a second. The log keeps it and not its readers,
// so that one who has just come knows it.
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

// Rate is bytes a second: those of the last whole second, or what this one has
// brought if that is more. A look beside a write may be a write off.
func (i *Intake) Rate(now time.Time) int64 {
	switch now.Unix() - i.second.Load() {
	case 0:
		return max(i.bytes.Load(), i.bytesBefore.Load())
	case 1:
		return i.bytes.Load()
	}
	return 0
}
