package core

// A leader that has lost the snapshot at the start of its log, and nothing else,
// can do everything but bring a follower up that lacks the oldest entries. It
// lets another lead, who has that snapshot.

// baselessEvery is the least time between two such handovers, in ticks: a
// minute. Where nobody has the snapshot, leadership does not go round.
const baselessEvery = 1200

// baseless is set while a follower needs the snapshot that is not here.
type baseless struct {
	wanted bool
	ticks  int // until the next handover for it
}

// tick reports whether it is time to hand over.
func (b *baseless) tick() bool {
	b.ticks = max(0, b.ticks-1)
	wanted := b.wanted && b.ticks == 0
	b.wanted = false
	return wanted
}
