package runtime

import (
	"time"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
)

// Supply paces reads for lagging followers, see lagging.Pace. It may be called from any
// goroutine.
type Supply interface {
	// Hold returns how many bytes to read, and how long to wait before. It is called again if the
	// wait is long.
	Hold(f core.Feed) (bytes int, wait time.Duration)
	// Took counts bytes that were read.
	Took(f core.Feed, bytes int)
}

// holdTime is the time after which a delayed range is checked again: by then appends may wait for
// its follower.
const holdTime = time.Second

// feed reads a range for a lagging follower, when it is due.
func (l *loop) feed(f core.Feed) {
	l.running.Go(func() {
		bytes, wait := f.Bytes, time.Duration(0)
		if l.options.Supply != nil {
			bytes, wait = l.options.Supply.Hold(f)
		}
		if wait > 0 {
			timer := time.NewTimer(min(wait, holdTime))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-l.disk.quit:
				return
			}
		}
		if wait > holdTime {
			l.post(input{do: func(c *core.Core) {
				if c.Supply.HeldBack(&f) {
					l.feed(f)
				}
			}})
			return
		}
		frames, err := l.log.Entries(f.Lo, f.Hi, bytes)
		if l.options.Supply != nil {
			read := 0
			for i := range frames {
				read += len(frames[i].Payload)
			}
			l.options.Supply.Took(f, read)
		}
		if err != nil {
			l.logger.Warn("could not read entries for a follower", "from", f.Lo, "error", err)
			l.damaged(err)
		}
		entries := tail.EntriesOf(frames)
		l.post(input{do: func(c *core.Core) { c.Supply.Fed(f.Lo, entries) }})
	})
}

// loadBase reads the snapshot at the start of the log for a follower.
func (l *loop) loadBase() {
	index, term, data, err := l.log.LoadBase()
	l.post(input{do: func(c *core.Core) { c.Supply.BaseLoaded(index, term, data, err) }})
}
