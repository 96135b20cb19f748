package secure

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failingRate is how many handshakes an address may begin in a second after one of its
	// own has failed, on all ports together; as many may come at once.
	failingRate = 100
	// failingWait is how long a handshake waits for that, unread. One that would wait longer
	// is refused.
	failingWait = time.Second
	// maxFailing bounds the addresses that are slowed down, and sweepEvery how often those are
	// looked for that need not be any more.
	maxFailing = 4096
	sweepEvery = time.Second
)

// failing slows down addresses whose handshakes fail, before anything is read or computed
// for them: what an address can cost that proves nothing has a bound.
type failing struct {
	mu     sync.Mutex
	ofEach map[netip.Prefix]*rate.Limiter
	swept  time.Time
}

// delay returns how long a new handshake of an address has to wait. False: it is refused.
func (f *failing) delay(from netip.Prefix) (wait time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.ofEach[from]
	if l == nil {
		return 0, true
	}
	r := l.Reserve()
	if wait = r.Delay(); wait > failingWait {
		r.Cancel()
		return 0, false
	}
	return wait, true
}

// failed notes that a handshake of an address has failed.
func (f *failing) failed(from netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ofEach[from] != nil {
		return
	}
	if now := time.Now(); now.Sub(f.swept) >= sweepEvery {
		f.swept = now
		for known, l := range f.ofEach {
			if l.TokensAt(now) >= failingRate {
				delete(f.ofEach, known) // it has been quiet
			}
		}
	}
	if len(f.ofEach) < maxFailing {
		f.ofEach[from] = rate.NewLimiter(failingRate, failingRate)
	}
}
