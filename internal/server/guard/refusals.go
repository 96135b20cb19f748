package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

const (
	// refusedRate is how many refused requests per second one caller may have without delay, and as
	// many in one burst; further requests wait. A caller is a principal, or all unauthenticated
	// clients of an address.
	refusedRate = 100
	// refusedWait is the maximum wait. After it the request is refused anyway, so a caller that
	// would have to wait longer gets one refusal per second on each of its connections, or streams
	// if it has authenticated.
	refusedWait = time.Second
	// unprovedWait is the maximum wait for requests that everybody may send. It is shorter than the
	// second that Kubernetes gives a probe, which may come from the address of a client that sends
	// requests without pause.
	unprovedWait = refusedWait / 4

	refusedBurst = time.Second
	// refusedTogether is how many refused topics of one request count as one refusal: they cost
	// less than as many requests, and a consumer of a hundred topics that loses its right is not
	// delayed immediately.
	refusedTogether = 20
	// maxRefused bounds the callers that are counted separately. All others share one counter.
	maxRefused = 4096
)

// refusals slows down callers that are refused. A refusal costs the node about as much as the
// caller, which may send one request after the other, so such callers could take the processors
// from callers with rights.
type refusals struct {
	token time.Duration // the time in which one token returns
	known atomic.Int64  // callers in full

	mu sync.Mutex
	// full is the time at which the token bucket of a caller, with tokens for one second, is full
	// again. A caller without an entry has a full bucket.
	full  map[string]time.Time
	swept time.Time
}

func newRefusals(rate int) *refusals {
	return &refusals{token: time.Second / time.Duration(rate), full: map[string]time.Time{}}
}

// add records that a request of a caller was refused.
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

// owes returns how long a caller must wait.
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

// room reports whether one more caller can be counted separately. The caller of room holds mu.
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

// Whose returns the key by which refusals of the caller, and its use of resources, are counted.
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
		network, _ := a.Prefix(64) // a client controls the whole network; cannot fail
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

// wait waits as long as a caller must, but at most for the given time.
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

// wasRefused records that a request of a caller was refused.
func (g *Guard) wasRefused(h *Holder) {
	g.refusals.add(h.Whose(), time.Now())
	if h != nil {
		h.refused.Store(true)
	}
}

// countCrowding counts a refusal by the node for the caller's own share, which may be tried again
// without end. The caller is not to blame where others have used up what there is, or the log cannot
// be reached.
func (g *Guard) countCrowding(c *verbs.Caller, err error) {
	var r *record.Refusal
	if h, _ := c.By.(*Holder); h != nil && errors.As(err, &r) && r.OwnShare {
		g.wasRefused(h)
	}
}
