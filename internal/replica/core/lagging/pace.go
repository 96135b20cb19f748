package lagging

import "time"

// Pace decides how fast a node reads old entries for followers who lag. Each of them
// reads, sends and makes durable what others write and sync at the same time on the same disks,
// so the pace follows what appends take: it rises while they take no longer than before,
// and is halved when they do. It is never below what lets a follower catch up.
//
// A follower that lacks little gets that at once (leastBurst), and so does one without which
// nothing commits (Now).
type Pace struct {
	rate  float64 // bytes a second of all followers together; 0: LeastRate
	usual float64 // what an append takes where nothing harms it, in seconds; 0: not known yet

	seen    Appends // as of the last look
	looked  time.Duration
	granted float64 // bytes since then

	followers map[Follower]*allowance
	spare     float64 // bytes for those that have just come, of nodeBurst
	spareAt   time.Duration
}

// Follower is a replica of a log that lags.
type Follower struct{ Log, Replica uint64 }

// Need is what depends on a follower who lags.
type Need uint8

const (
	// Now: without it no majority keeps up, so that appends wait for it.
	Now Need = iota
	// Soon: it votes, or is to vote. The log survives less until it has caught up.
	Soon
	// Someday: it is a read replica, which nothing counts on.
	Someday
)

// Appends are those that a node has acknowledged since it began, and the time they took.
type Appends struct {
	Count   uint64
	Seconds float64
}

// allowance is what a follower may have at a moment; less than 0: it has had that much more.
type allowance struct {
	bytes float64
	at    time.Duration // of bytes
	first float64       // what it may have of Pace.spare still
	until time.Duration // it counts as one that catches up
}

const (
	// LeastRate is what all followers who catch up on a node get together at least, in bytes a
	// second, each besides what its log takes; one that is to vote gets soonFactor times its part.
	LeastRate  = 8 << 20
	soonFactor = 4
	// mostRate is more than disks take.
	mostRate = 4 << 30
	// leastBurst and burstTime of what its log takes are given to a follower at once: it was away
	// for a moment. All together get nodeBurst of that at once, and LeastRate of it later: a node
	// that comes back lacks a little of each of its logs.
	leastBurst = 8 << 20
	nodeBurst  = 64 << 20
	burstTime  = 2.0
	// leastPiece is read at once at the least, and what pieceTime brings: an append
	// waits for one such piece to be written.
	leastPiece = 128 << 10
	pieceTime  = 0.016
	// activeTime after its last piece a follower does not count any more; after forgetTime it is
	// one that has just come.
	activeTime = time.Second
	forgetTime = 10 * time.Second
	// lookEvery lies between two looks at what appends take.
	lookEvery = 250 * time.Millisecond
	// idleTime without a look says that nobody has caught up. It is more than what passes until a
	// follower that is held back is looked at again.
	idleTime = 2500 * time.Millisecond
	// fewAppends in that time say nothing.
	fewAppends = 5
	// An append that takes harmFactor times as long as it should, and harmSeconds more, is harmed.
	harmFactor  = 1.5
	harmSeconds = 200e-6
	rise        = 1.25
	// usualDrift is the part by which what appends take at the least rate changes what they
	// should take: the load may be another one.
	usualDrift = 1.0 / 512
)

// Due reports whether it is time for a Look.
func (p *Pace) Due(now time.Duration) bool { return p.looked == 0 || now-p.looked >= lookEvery }

// Look takes what appends have taken, when it is due. It is called before Hold.
func (p *Pace) Look(now time.Duration, seen Appends) {
	since := now - p.looked
	count, took := seen.Count-p.seen.Count, seen.Seconds-p.seen.Seconds
	idle := p.looked == 0 || since > idleTime
	granted := p.granted / since.Seconds()
	p.seen, p.looked, p.granted = seen, now, 0
	mean := took / max(float64(count), 1)
	switch {
	case idle: // nobody has caught up meanwhile, or much less than may
		p.rate, p.usual = LeastRate, 0
		if count >= fewAppends {
			p.usual = mean
		}
	case count < fewAppends:
		p.raise(granted)
	case p.usual == 0 || mean < p.usual:
		p.usual = mean
		p.raise(granted)
	case mean > p.usual*harmFactor+harmSeconds:
		if p.rate <= LeastRate {
			p.usual += (mean - p.usual) * usualDrift
		}
		p.rate = max(p.rate/2, LeastRate)
	default:
		p.raise(granted)
	}
}

// raise does so if what there was has been used.
func (p *Pace) raise(granted float64) {
	if granted >= p.rate/2 {
		p.rate = min(p.rate*rise, mostRate)
	}
}

// Rate is what all followers may have together, in bytes a second, besides what their logs take.
func (p *Pace) Rate() float64 { return max(p.rate, LeastRate) }

// Hold returns how many bytes may be read next for a follower, no more than those asked for, and
// when. Intake is what its log takes, in bytes a second.
func (p *Pace) Hold(now time.Duration, f Follower, need Need, bytes int, intake int64) (piece int, wait time.Duration) {
	a, rate := p.follower(now, f, need, intake)
	if need == Now {
		a.bytes = max(a.bytes, 0) // what appends waited for is no debt
		return bytes, 0
	}
	if a.bytes < 0 {
		wait = time.Duration(-a.bytes / rate * float64(time.Second))
	}
	a.until = now + wait + activeTime
	return min(bytes, max(leastPiece, int(rate*pieceTime))), wait
}

// Took counts what was read for a follower after Hold.
func (p *Pace) Took(f Follower, bytes int) {
	p.granted += float64(bytes)
	if a := p.followers[f]; a != nil {
		a.bytes -= float64(bytes)
		given := min(max(-a.bytes, 0), a.first, p.spare)
		a.bytes, a.first, p.spare = a.bytes+given, a.first-given, p.spare-given
	}
}

// follower returns what a follower may have now, and its rate.
func (p *Pace) follower(now time.Duration, f Follower, need Need, intake int64) (*allowance, float64) {
	if p.followers == nil {
		p.followers, p.spare = map[Follower]*allowance{}, nodeBurst
	}
	p.spare = min(nodeBurst, p.spare+LeastRate*(now-p.spareAt).Seconds())
	p.spareAt = now
	active := 1
	for other, a := range p.followers {
		switch {
		case now > a.until+forgetTime:
			delete(p.followers, other)
		case other != f && now <= a.until:
			active++
		}
	}
	rate := p.Rate() / float64(active)
	if need == Soon {
		rate *= soonFactor
	}
	rate += float64(intake)
	a := p.followers[f]
	if a == nil {
		a = &allowance{bytes: burstTime * float64(intake), first: leastBurst, at: now}
		p.followers[f] = a
	}
	a.bytes = min(leastBurst-a.first+burstTime*float64(intake), a.bytes+rate*(now-a.at).Seconds())
	a.at, a.until = now, max(a.until, now+activeTime)
	return a, rate
}
