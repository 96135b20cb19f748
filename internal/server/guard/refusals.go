package guard

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// refusedRate is how many requests of one caller are refused in a second, and as many at once, before the next
	// ones wait. A caller is a principal, or who has not proved who it is at an address.
	refusedRate = 100
	// refusedWait is how long one waits at most. Then it is refused all the same: a caller that would wait for
	// longer has as many refusals in a second as it has connections, or streams where it has proved who it is.
	refusedWait = time.Second
	// unprovedWait is how long what everybody may ask waits at most: less than the second that Kubernetes gives a
	// probe, which may come from the address of one who asks without end.
	unprovedWait = refusedWait / 4

	refusedBurst = time.Second
	// refusedTogether is how many topics of one request count as one when they are refused: they cost less than as
	// many requests, and a consumer of a hundred topics that loses its right is not held up at once.
	refusedTogether = 20
	// maxRefused bounds the callers that are counted each on its own. All others share one place.
	maxRefused = 4096
)

// refusals slow down callers that are refused: a refusal costs the node about what it costs the caller, who may
// ask for one after the other. They would take the processors from callers that may do what they ask for.
type refusals struct {
	token time.Duration // in which one comes back
	known atomic.Int64  // callers in full

	mu sync.Mutex
	// full is when the bucket of a caller, of a second of tokens, is full again. Callers that are not in it have a
	// full one.
	full  map[string]time.Time
	swept time.Time
}

func newRefusals(rate int) *refusals {
	return &refusals{token: time.Second / time.Duration(rate), full: map[string]time.Time{}}
}

// add notes that a request of a caller was refused.
func (r *refusals) add(who string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full, known := r.full[who]
	if !known && !r.room(now) {
		who = ""
		full = r.full[who]
	}
	if full.Before(now) {
		full = now
	}
	if full = full.Add(r.token); full.Sub(now) > refusedBurst+refusedWait {
		full = now.Add(refusedBurst + refusedWait) // it is over as soon as the caller has stopped
	}
	r.full[who] = full
	r.known.Store(int64(len(r.full)))
}

// owes returns how long a caller has to wait.
func (r *refusals) owes(who string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	full, known := r.full[who]
	if !known && len(r.full) >= maxRefused-1 {
		full, known = r.full[""]
	}
	if !known {
		return 0
	}
	return max(0, full.Sub(now.Add(refusedBurst)))
}

// room reports whether one more caller can be told apart. The caller of room holds mu.
func (r *refusals) room(now time.Time) bool {
	if len(r.full) < maxRefused-1 {
		return true
	}
	if now.Sub(r.swept) < time.Second {
		return false
	}
	r.swept = now
	for who, full := range r.full {
		if !full.After(now) {
			delete(r.full, who)
		}
	}
	return len(r.full) < maxRefused-1
}

// Whose is the key by which refusals of the caller are counted, and what it takes of the node.
func (h *Holder) Whose() string {
	if h == nil {
		return "anonymous"
	}
	if h.Principal != "" {
		return h.Principal
	}
	a, err := netip.ParseAddr(h.From)
	if err != nil {
		return "anonymous"
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		network, _ := a.Prefix(64) // a client has all of its addresses; fails for none
		return network.String()
	}
	return a.String()
}

// Slow waits if too many requests of the caller of a context, or of the client at an address, were
// refused recently. It waits until ctx ends at most. It is called before each call, and before a
// refusal is sent.
func (g *Guard) Slow(ctx context.Context, from net.Addr) { g.slow(ctx, holderOf(ctx, from)) }

// Whose returns the key by which refusals of the caller of a context, or of the client at an
// address, are counted.
func (g *Guard) Whose(ctx context.Context, from net.Addr) string { return holderOf(ctx, from).Whose() }

func holderOf(ctx context.Context, from net.Addr) *Holder {
	if h, _ := ctx.Value(holderKey{}).(*Holder); h != nil {
		return h
	}
	return newHolder("", from)
}

// SlowRefused returns a function that does the same between the requests of a stream. It waits only
// if a request of this stream was refused since its last call, so other streams of the same
// principal continue.
func (g *Guard) SlowRefused(ctx context.Context) (slow func()) {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	return func() { g.SlowHolder(ctx, h) }
}

// SlowHolder does the same as the function of SlowRefused, for a connection.
func (g *Guard) SlowHolder(ctx context.Context, h *Holder) {
	if h != nil && h.refused.Load() {
		h.refused.Store(false)
		g.slow(ctx, h)
	}
}

// Unproved counts a request that needs no right, of an unauthenticated caller, and waits if there
// were too many of these from its address. Refusals at the address do not count, so that other
// clients there do not delay a health check of the node.
func (g *Guard) Unproved(ctx context.Context, h *Holder) {
	if h.Principal == "" {
		who := "asks for what everybody may: " + h.Whose()
		g.refusals.add(who, time.Now())
		g.wait(ctx, who, unprovedWait)
	}
}

func (g *Guard) slow(ctx context.Context, h *Holder) { g.wait(ctx, h.Whose(), refusedWait) }

// wait waits for as long as a caller has to, or for most.
func (g *Guard) wait(ctx context.Context, who string, most time.Duration) {
	if g.refusals.known.Load() == 0 {
		return
	}
	wait := min(most, g.refusals.owes(who, time.Now()))
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-g.stopping.Done():
	}
}

// wasRefused notes that something was refused to a caller.
func (g *Guard) wasRefused(h *Holder) {
	g.refusals.add(h.Whose(), time.Now())
	if h != nil {
		h.refused.Store(true)
	}
}
