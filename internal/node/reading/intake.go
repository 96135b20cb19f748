package reading

import (
	"sync/atomic"
	"time"
)

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
