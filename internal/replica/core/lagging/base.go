package lagging

// Base is the snapshot at the start of the stored log, for a follower that lacks the oldest
// entries. Raft asks for it on the loop, where the disk must not be read. So Raft gets the answer that it
// is temporarily unavailable, the snapshot is read elsewhere, and then Raft is made to ask again.
type Base struct {
	Index, Term uint64
	Data        []byte // nil if it is not in memory
	taken       int    // size in bytes of the snapshot taken last
	wanted      bool   // requested with the next Output
	Reading     bool
	Unused      int // ticks since the last Take
}

// Take returns the snapshot of an entry if it is in memory, and requests it otherwise.
func (b *Base) Take(index uint64) (data []byte, term uint64, ok bool) {
	b.Unused = 0
	if b.Data == nil || b.Index != index {
		b.wanted = true
		return nil, 0, false
	}
	b.taken = len(b.Data)
	return b.Data, b.Term, true
}

// leastRate is the minimum rate assumed for sending a snapshot, in bytes per tick: 4 MiB/s.
const leastRate = 4 << 20 / FeedTicks

// Patience returns how many ticks sending the last snapshot may take beyond the time for an empty
// one. A snapshot that is sent again too early costs the leader a read.
func (b *Base) Patience() int { return b.taken / leastRate }

// Begin reports whether the snapshot must be read now.
func (b *Base) Begin() bool {
	begin := b.wanted && !b.Reading
	b.wanted, b.Reading = false, b.Reading || begin
	return begin
}

// Tick releases a snapshot that is no longer taken.
func (b *Base) Tick() {
	if b.Unused++; b.Unused > FeedTicks {
		b.Data = nil
	}
}

// A leader that has lost only the snapshot at the start of its log can do everything except
// supply a follower that lacks the oldest entries. It hands over to a replica that has the
// snapshot.

// BaselessEvery is the minimum time between two such handovers, in ticks: one minute. It keeps
// leadership from rotating if no replica has the snapshot.
const BaselessEvery = 1200

// Baseless records that a follower needs a snapshot that is not here.
type Baseless struct {
	Wanted bool
	Ticks  int // until the next handover for this reason
}

// Tick reports whether to hand over now.
func (b *Baseless) Tick() bool {
	b.Ticks = max(0, b.Ticks-1)
	wanted := b.Wanted && b.Ticks == 0
	b.Wanted = false
	return wanted
}
