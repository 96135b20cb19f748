package budget

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Meters hold what each holder takes of something to a rate. What is taken may exceed the rate: then
// the holder owes it, and takes no more until the time for it has passed. So the rate is kept on
// average, whatever the size of what is taken at once, and a holder that has taken less may take up to
// meterBurst of its rate at once.
type Meters struct {
	mu    sync.Mutex
	of    map[Metered]*meter
	sums  map[Metered]*Sum // by the limit and what it limits
	swept time.Time
}

// Sum is what all holders together have taken of one limit, how long they have waited, and how often
// they were refused.
type Sum struct {
	Taken, Refused int64
	Waited         time.Duration
}

// Metered is one holder and what it takes.
type Metered struct{ Holder, What string }

// Share is an amount that a holder takes of something with a rate per second.
type Share struct {
	Metered
	// Of is the name of the limit on the rate.
	Of        string
	PerSecond int64
	Amount    int64
}

// Consumption is what a holder has taken.
type Consumption struct {
	Metered
	Of      string
	Taken   int64 // in the last whole second
	Wait    time.Duration
	Waiting int
}

// meter is the count of one Metered.
type meter struct {
	of      string
	rate    float64   // in a second, at the newest look
	owed    float64   // of the amounts taken, what the time up to at has not paid for
	at      time.Time // zero: nothing was taken
	waiting int
	line    *Turns // of those who wait; nil: nobody has yet
	second  int64  // of the amount taken now, in Unix time
	now     int64  // taken in second
	before  int64  // taken in the second before
}

// MaxMeters bounds the meters. Holders beyond it share one for each thing that they take.
const MaxMeters = 4096

// meterBurst is how much of its rate a holder that has taken less may take at once.
const meterBurst = time.Second

// NewMeters returns meters without counts.
func NewMeters() *Meters { return &Meters{of: map[Metered]*meter{}, sums: map[Metered]*Sum{}} }

// Take takes all shares if nothing is owed of any of them. Otherwise it takes none, and returns how long the
// longest debt lasts and the share which has it. Who has not waited in a Line yet does not pass those who do:
// for it, who waits for a share owes it.
func (m *Meters) Take(now time.Time, shares []Share, waited bool) (wait time.Duration, longest Share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait, longest = m.owes(now, shares)
	for _, s := range shares {
		if !waited && wait == 0 && m.meter(s, now).waiting > 0 {
			return 1, s
		}
	}
	if wait == 0 {
		m.add(now, shares)
	}
	return wait, longest
}

// Line returns the line of those who wait for a share. They get their turns holder by holder, so that one with many
// requests leaves as much of it to each other one. Who has the turn looks when it may take; the others do not.
func (m *Meters) Line(now time.Time, s Share) *Turns {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.meter(s, now)
	if one.line == nil {
		one.line = NewTurns(1)
	}
	return one.line
}

// Add takes all shares, and returns how long the longest debt lasts after it and the share which has it.
func (m *Meters) Add(now time.Time, shares []Share) (wait time.Duration, longest Share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(now, shares)
	return m.owes(now, shares)
}

// Owes returns how long the longest debt of the shares lasts, and the share which has it.
func (m *Meters) Owes(now time.Time, shares []Share) (wait time.Duration, longest Share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owes(now, shares)
}

func (m *Meters) owes(now time.Time, shares []Share) (wait time.Duration, longest Share) {
	for _, s := range shares {
		one := m.meter(s, now)
		if owes := one.owes(s.PerSecond, now); owes > wait {
			wait, longest = owes, s
		}
	}
	return wait, longest
}

func (m *Meters) add(now time.Time, shares []Share) {
	for _, s := range shares {
		one := m.meter(s, now)
		one.pay(s.PerSecond, now)
		one.owed += float64(s.Amount)
		one.count(now, s.Amount)
		m.sum(s).Taken += s.Amount
	}
}

// Waits counts one more, or one less, who waits for a share.
func (m *Meters) Waits(s Share, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.of[s.Metered]; one != nil {
		one.waiting = max(0, one.waiting+by)
	}
}

// Waited adds the time for which a holder has waited, or will, for a share.
func (m *Meters) Waited(s Share, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum(s).Waited += d
}

// Refused counts a share that was not taken because the holder would have to wait for too long.
func (m *Meters) Refused(s Share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum(s).Refused++
}

func (m *Meters) sum(s Share) *Sum {
	of := Metered{s.Of, s.What}
	one := m.sums[of]
	if one == nil {
		one = new(Sum)
		m.sums[of] = one
	}
	return one
}

// Sums returns the sums by limit, and forgets those of limits that are no longer there.
func (m *Meters) Sums(there func(limit string) bool) map[Metered]Sum {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[Metered]Sum{}
	for of, one := range m.sums {
		if !there(of.Holder) {
			delete(m.sums, of)
			continue
		}
		all[of] = *one
	}
	return all
}

// Uses returns what is taken, or was in the last second, those first that must wait longest.
func (m *Meters) Uses(now time.Time) (all []Consumption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, one := range m.of {
		u := Consumption{Metered: of, Of: one.of, Taken: one.taken(now), Wait: one.owes(int64(one.rate), now), Waiting: one.waiting}
		if u.Taken+int64(u.Wait)+int64(u.Waiting) > 0 {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Consumption) int {
		return cmp.Or(cmp.Compare(b.Wait, a.Wait), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.What, b.What))
	})
	return all
}

// meter returns the meter of a share. The caller holds mu.
func (m *Meters) meter(s Share, now time.Time) *meter {
	one := m.of[s.Metered]
	if one == nil && !m.room(now) {
		s.Holder = ""
		one = m.of[s.Metered]
	}
	if one == nil {
		one = new(meter)
		m.of[s.Metered] = one
	}
	one.of = s.Of
	return one
}

// room reports whether one more holder can be counted separately. The caller holds mu.
func (m *Meters) room(now time.Time) bool {
	if len(m.of) < MaxMeters {
		return true
	}
	if now.Sub(m.swept) < time.Second {
		return false
	}
	m.swept = now
	for of, one := range m.of {
		if one.pay(int64(one.rate), now); one.waiting == 0 && one.owed == 0 {
			delete(m.of, of)
		}
	}
	return len(m.of) < MaxMeters
}

// pay takes what the time up to now has paid for off what is owed.
func (m *meter) pay(perSecond int64, now time.Time) {
	m.rate = float64(perSecond)
	if !m.at.IsZero() {
		m.owed = max(0, m.owed-m.rate*max(0, now.Sub(m.at).Seconds()))
	}
	m.at = now
}

// owes returns when the holder may take more, which is at once while it owes at most meterBurst of its rate.
func (m *meter) owes(perSecond int64, now time.Time) time.Duration {
	if m.at.IsZero() || perSecond <= 0 {
		return 0
	}
	m.pay(perSecond, now)
	seconds := m.owed/m.rate - meterBurst.Seconds()
	if seconds <= 0 {
		return 0
	}
	return max(1, time.Duration(min(seconds, longestOwed.Seconds())*float64(time.Second)))
}

// longestOwed bounds what is reported of a debt.
const longestOwed = 24 * time.Hour

func (m *meter) count(now time.Time, amount int64) {
	m.turn(now)
	m.now += amount
}

// turn begins the count of another second.
func (m *meter) turn(now time.Time) {
	second := now.Unix()
	if second == m.second {
		return
	}
	m.before = 0
	if second == m.second+1 {
		m.before = m.now
	}
	m.second, m.now = second, 0
}

func (m *meter) taken(now time.Time) int64 {
	m.turn(now)
	return m.before
}
