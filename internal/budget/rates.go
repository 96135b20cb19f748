package budget

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates bound how much of something each holder takes in a second. One who wants more waits, and
// delays no other holder.
type Rates struct {
	rate    rate.Limit
	burst   int
	longest time.Duration // of a wait

	mu    sync.Mutex
	of    map[string]*rate.Limiter // of holders that have taken some
	swept time.Time
}

// MaxRated bounds the holders that Rates counts separately. All others share one count.
const MaxRated = 1024

// NewRates returns rates of so many in a second, and so many at once, for which a holder waits for
// longest at most.
func NewRates(perSecond, burst int, longest time.Duration) *Rates {
	return &Rates{rate: rate.Limit(perSecond), burst: burst, longest: longest, of: map[string]*rate.Limiter{}}
}

// Wait waits until a holder may take n, of which it owes those above the burst, see Owe. It returns
// false if the holder has waited for as long as it may and still may not. The error is that of ctx.
//
// A wait that ends early has used what it waited for, so clients that leave and come again delay
// the others of their holder.
func (r *Rates) Wait(ctx context.Context, holder string, n int) (bool, error) {
	if n = min(n, r.burst); n <= 0 {
		return true, nil
	}
	l := r.limiter(holder, time.Now())
	if l.AllowN(time.Now(), n) {
		return true, nil
	}
	most, cancel := context.WithTimeout(ctx, r.longest)
	defer cancel()
	if l.WaitN(most, n) == nil {
		return true, nil
	}
	<-most.Done() // WaitN returns at once if it would wait for longer
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return l.AllowN(time.Now(), n), nil
}

// Owes reports whether the holder has taken more than it may have by now.
func (r *Rates) Owes(holder string) bool {
	now := time.Now()
	return r.limiter(holder, now).TokensAt(now) < 0
}

// Reserve takes n, at most the burst, and returns how long it is until the holder may have that, and what it took before.
func (r *Rates) Reserve(holder string, n int) time.Duration {
	now := time.Now()
	return r.limiter(holder, now).ReserveN(now, n).DelayFrom(now)
}

// GiveBack undoes a Reserve of n, or of some of it. Others that have reserved wait no shorter.
func (r *Rates) GiveBack(holder string, n int) {
	now := time.Now()
	r.limiter(holder, now).ReserveN(now, -n)
}

// Spend takes n, however little the holder may have. It waits for that when it takes more.
func (r *Rates) Spend(holder string, n int) {
	now := time.Now()
	for l := r.limiter(holder, now); n > 0; n -= r.burst {
		l.ReserveN(now, min(n, r.burst))
	}
}

// Owe takes what a holder has used of n above the burst, as Spend does.
func (r *Rates) Owe(holder string, n int) { r.Spend(holder, n-r.burst) }

func (r *Rates) limiter(holder string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.of[holder]
	if l == nil && !r.room(now) {
		holder = ""
		l = r.of[holder]
	}
	if l == nil {
		l = rate.NewLimiter(r.rate, r.burst)
		r.of[holder] = l
	}
	return l
}

// room reports whether one more holder can be counted separately. The caller holds mu.
func (r *Rates) room(now time.Time) bool {
	if len(r.of) < MaxRated-1 {
		return true
	}
	if now.Sub(r.swept) < time.Second {
		return false
	}
	r.swept = now
	for holder, l := range r.of {
		if l.TokensAt(now) >= float64(r.burst) {
			delete(r.of, holder)
		}
	}
	return len(r.of) < MaxRated-1
}
