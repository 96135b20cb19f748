package lagging

import "time"

// Pace limits the rate at which a node reads old entries for lagging followers. A follower reads,
// sends and syncs data while appends write and sync on the same disks. So the rate depends on the
// latency of appends: it rises while the latency does not, and is halved when it does. It never
// falls below a rate at which a follower can catch up.
//
// A follower with a small lag gets the missing entries immediately (leastBurst), and so does a
// follower that is needed for a majority (Now).
type Pace struct {
	rate  float64 // bytes per second for all followers together; 0: LeastRate
	usual float64 // undisturbed duration of an append in seconds; 0: not known yet

	seen    Appends // as of the last Look
	looked  time.Duration
	granted float64 // bytes since then

	followers map[Follower]*allowance
	spare     float64 // bytes left of nodeBurst for new followers
	spareAt   time.Duration
}

// Follower is a lagging replica of a log.
type Follower struct{ Log, Replica uint64 }

// Need is how urgently a lagging follower is needed.
type Need uint8

const (
	// Now means that without it no majority keeps up, so appends wait for it.
	Now Need = iota
	// Soon means that it votes or will vote. Until it has caught up, the log tolerates fewer
	// failures.
	Soon
	// Someday means that it is a read replica, on which nothing depends.
	Someday
)

// Appends is the number of appends that a node has acknowledged since it started, and their total
// duration.
type Appends struct {
	Count   uint64
	Seconds float64
}

// allowance is the number of bytes that a follower may read at a given time. It is negative if the
// follower has read more.
type allowance struct {
	bytes float64
	at    time.Duration // time at which bytes was computed
	first float64       // bytes that it may still use of Pace.spare
	until time.Duration // until then it counts as catching up
}

const (
	// LeastRate is the minimum rate of all followers of a node together, in bytes per second. Each
	// gets its log's intake in addition; one that will vote gets soonFactor times its part.
	LeastRate  = 8 << 20
	soonFactor = 4
	// mostRate is more than disks can do.
	mostRate = 4 << 30
	// A follower may read leastBurst bytes and burstTime of its log's intake at once, in case it was
	// away for a moment. All followers together may read nodeBurst of that at once, and LeastRate of
	// it later, since a node that returns lacks a little of each of its logs.
	leastBurst = 8 << 20
	nodeBurst  = 64 << 20
	burstTime  = 2.0
	// A read has at least leastPiece bytes, and otherwise what is due in pieceTime: an append may
	// have to wait until one such piece is written.
	leastPiece = 128 << 10
	pieceTime  = 0.016
	// A follower no longer counts as active activeTime after its last piece; after forgetTime it
	// counts as new.
	activeTime = time.Second
	forgetTime = 10 * time.Second
	// lookEvery is the time between two calls of Look.
	lookEvery = 250 * time.Millisecond
	// idleTime without a call of Look means that no follower was catching up. It is longer than a
	// follower can be held back.
	idleTime = 2500 * time.Millisecond
	// With fewer than fewAppends in that time, their duration is not significant.
	fewAppends = 5
	// An append is disturbed if it takes harmFactor times the usual duration plus harmSeconds.
	harmFactor  = 1.5
	harmSeconds = 200e-6
	rise        = 1.25
	// usualDrift is the weight with which the duration at the minimum rate changes the usual
	// duration, since the load may have changed.
	usualDrift = 1.0 / 512
)

// Due reports whether Look is due.
func (p *Pace) Due(now time.Duration) bool { return p.looked == 0 || now-p.looked >= lookEvery }

// Look takes the appends seen so far and adjusts the rate. It must be called when it is due,
// before Hold.
func (p *Pace) Look(now time.Duration, seen Appends) {
	since := now - p.looked
	count, took := seen.Count-p.seen.Count, seen.Seconds-p.seen.Seconds
	idle := p.looked == 0 || since > idleTime
	granted := p.granted / since.Seconds()
	p.seen, p.looked, p.granted = seen, now, 0
	mean := took / max(float64(count), 1)
	switch {
	case idle: // no follower was catching up, or much less than it could
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

// raise raises the rate if the current one has been used.
func (p *Pace) raise(granted float64) {
	if granted >= p.rate/2 {
		p.rate = min(p.rate*rise, mostRate)
	}
}

// Rate returns the rate of all followers together, in bytes per second, without the intake of
// their logs.
func (p *Pace) Rate() float64 { return max(p.rate, LeastRate) }

// Hold returns how many bytes may be read next for a follower, at most bytes, and how long to
// wait before. intake is the intake of its log, in bytes per second.
func (p *Pace) Hold(now time.Duration, f Follower, need Need, bytes int, intake int64) (piece int, wait time.Duration) {
	a, rate := p.follower(now, f, need, intake)
	if need == Now {
		a.bytes = max(a.bytes, 0) // reads for which appends waited do not count
		return bytes, 0
	}
	if a.bytes < 0 {
		wait = time.Duration(-a.bytes / rate * float64(time.Second))
	}
	a.until = now + wait + activeTime
	return min(bytes, max(leastPiece, int(rate*pieceTime))), wait
}

// Took counts bytes that were read for a follower after Hold.
func (p *Pace) Took(f Follower, bytes int) {
	p.granted += float64(bytes)
	if a := p.followers[f]; a != nil {
		a.bytes -= float64(bytes)
		given := min(max(-a.bytes, 0), a.first, p.spare)
		a.bytes, a.first, p.spare = a.bytes+given, a.first-given, p.spare-given
	}
}

// follower returns the current allowance of a follower, and its rate.
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
