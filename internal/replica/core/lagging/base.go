package lagging

// Base is the snapshot at the start of the stored log, which a follower gets that
// lacks the oldest entries. Raft asks for it on the loop, where a disk must not be
// read: so it hears that there is none at the moment, the snapshot is read aside,
// and Raft is nudged to ask again.
type Base struct {
	Index, Term uint64
	Data        []byte // nil: it is not in memory
	taken       int    // bytes of the one that was taken last
	wanted      bool   // goes out with the next Output
	Reading     bool
	Unused      int // ticks since somebody took it
}

// Take returns the snapshot of an entry, if it is in memory; else it is wanted.
func (b *Base) Take(index uint64) (data []byte, term uint64, ok bool) {
	b.Unused = 0
	if b.Data == nil || b.Index != index {
		b.wanted = true
		return nil, 0, false
	}
	b.taken = len(b.Data)
	return b.Data, b.Term, true
}

// leastRate is what a link carries at least of a snapshot, in bytes per tick: 4 MiB/s.
const leastRate = 4 << 20 / FeedTicks

// Patience is how many ticks the snapshot that was taken last may be on its way, besides what one
// without a size takes: one that is sent again too early costs the leader a read of it.
func (b *Base) Patience() int { return b.taken / leastRate }

// Begin reports whether the snapshot has to be read now.
func (b *Base) Begin() bool {
	begin := b.wanted && !b.Reading
	b.wanted, b.Reading = false, b.Reading || begin
	return begin
}

// Tick releases what nobody takes any more.
func (b *Base) Tick() {
	if b.Unused++; b.Unused > FeedTicks {
		b.Data = nil
	}
}

// A leader that has lost the snapshot at the start of its log, and nothing else,
// can do everything but bring a follower up that lacks the oldest entries. It
// lets another lead, who has that snapshot.

// BaselessEvery is the least time between two such handovers, in ticks: a
// minute. Where nobody has the snapshot, leadership does not go round.
const BaselessEvery = 1200

// Baseless is set while a follower needs the snapshot that is not here.
type Baseless struct {
	Wanted bool
	Ticks  int // until the next handover for it
}

// Tick reports whether it is time to hand over.
func (b *Baseless) Tick() bool {
	b.Ticks = max(0, b.Ticks-1)
	wanted := b.Wanted && b.Ticks == 0
	b.Wanted = false
	return wanted
}
