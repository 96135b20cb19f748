package secure

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"strandline.dev/internal/budget"
)

const (
	// failingRate is how many handshakes of an address may fail in a second, on all ports
	// together; as many may fail at once. Beyond that its handshakes are slowed down.
	failingRate = 100
	// loginRate is the same for logins: a password is guessed 10 times in a second from one
	// address. Those wait for themselves, and close the connection of one that would wait
	// longer: handshakes of others at the address, for which no password is needed, do not.
	// As many passwords are compared at a time for addresses whose bucket is full: with more,
	// what they owe when all of them have failed would be more than failingOwed.
	loginRate = 10
	// failingWait is how long a handshake waits for that, unread. One that would wait longer
	// is refused.
	failingWait = time.Second
	// maxFailing bounds the addresses that are slowed down, and sweepEvery how often those are
	// removed that need not be any more.
	maxFailing = 4096
	sweepEvery = time.Second

	// failingOwed bounds how far an address can fall behind.
	failingOwed = 5 * time.Second

	// The time in which a token comes back, and that of as many as may fail at once.
	failingToken = time.Second / failingRate
	loginToken   = time.Second / loginRate
	failingBurst = time.Second
)

// failing slows down addresses with failing handshakes, before anything is read or computed for
// them. An address has a bucket of failingRate tokens, and each failed handshake costs one. If
// the bucket of an address is not full, a handshake takes its token when it begins, and returns
// it unless it fails. The same applies to logins.
type failing struct {
	token time.Duration
	// unpaid bounds how many are in progress without a token; addresses get turns in rotation. It is nil
	// for handshakes, which have a bound of their own, see maxHandshakesOfAddress.
	unpaid *budget.Turns

	mu sync.Mutex
	// full is when the bucket of an address is full again. Addresses that are not in it have
	// a full one.
	full  map[netip.Prefix]time.Time
	swept time.Time
}

// delay returns how long a new handshake of an address must wait, and whether it has taken a
// token, which the caller passes to ended. If ok is false, the handshake is refused and has taken
// no token.
func (f *failing) delay(from netip.Prefix, now time.Time) (wait time.Duration, taken, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	full, known := f.full[from]
	if !known {
		return 0, false, true
	}
	if !full.After(now) {
		delete(f.full, from)
		return 0, false, true
	}
	full = full.Add(f.token)
	if wait = max(0, full.Sub(now)-failingBurst); wait > failingWait {
		return 0, false, false
	}
	f.full[from] = full
	return wait, true, true
}

// ended notes whether a handshake failed that delay has let begin. One that began with a full
// bucket pays for its failure here, even if the bucket is empty by now: those that fail together
// are paid for too.
func (f *failing) ended(from netip.Prefix, taken, failed bool, now time.Time) {
	if taken == failed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	full, known := f.full[from]
	switch {
	case !failed && known:
		f.full[from] = full.Add(-f.token)
	case failed && known && full.After(now):
		// The delay of an address ends within seconds after its failures stop.
		f.full[from] = minTime(full.Add(f.token), now.Add(failingBurst+failingOwed))
	case failed && (known || f.room(now)):
		f.full[from] = now.Add(f.token)
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// BeginLogin waits until a password from the client at the other side of a connection may be compared.
// It returns a function that records whether it was wrong, which must be called once, soon: the client must
// not be waited for until then. If ok is false, the wait would be too long or ctx has ended; then the
// connection is closed, because the client would treat an answer as a wrong password.
func BeginLogin(ctx context.Context, remote net.Addr) (ended func(failed bool), ok bool) {
	f, from, conn := loginsAt(remote)
	if f == nil {
		return func(bool) {}, true
	}
	taken, ok := f.login(ctx, from)
	if !ok {
		_ = conn.Close()
		return nil, false
	}
	return func(failed bool) {
		f.ended(from, taken, failed, time.Now())
		if !taken {
			f.unpaid.Release()
		}
	}, true
}

// login waits until one of an address may begin, and returns whether it has taken a token. One without has a turn.
func (f *failing) login(ctx context.Context, from netip.Prefix) (taken, ok bool) {
	if f.unpaid.Acquire(ctx, from.String()) != nil {
		return false, false
	}
	wait, taken, ok := f.delay(from, time.Now())
	if taken || !ok {
		f.unpaid.Release()
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			f.ended(from, taken, false, time.Now())
			return false, false
		}
	}
	return taken, ok
}

// loginsAt returns what slows down logins by the connection at a remote address, the address that it does so for,
// and the connection; nil: nothing does. Without
// encryption this machine's are not slowed down: all of its programs have one address.
func loginsAt(remote net.Addr) (f *failing, from netip.Prefix, conn net.Conn) {
	switch a := unwrapped(remote).(type) {
	case addr:
		return a.conn.logins, wherever(a.Addr), a.conn
	case plainAddr:
		if from = prefixOf(a.Addr); from.IsValid() {
			return a.conn.logins, from, a.conn
		}
	}
	return nil, from, nil
}

// room reports whether one more address can be slowed down. The caller holds mu.
func (f *failing) room(now time.Time) bool {
	if now.Sub(f.swept) >= sweepEvery {
		f.swept = now
		for known, full := range f.full {
			if !full.After(now) {
				delete(f.full, known)
			}
		}
	}
	return len(f.full) < maxFailing
}

// errNoTurn is the error that ends a handshake that would wait too long because of others.
var errNoTurn = errors.New("too many handshakes are waiting to begin")

// clientFailed reports whether a handshake failed by its client. Not so if it was closed by this
// node, nor if the client sent nothing, as those do that only look whether a port is open.
// Nor if it took too long: this node may be the slow side, and as such handshakes keep their
// places for handshakeTime, there are few.
// answers: the client has sent something, and was not kept waiting until it may have given up;
// how many of these there are is bounded by the rate of all handshakes.
func clientFailed(err error, answers bool) bool {
	if err == nil || !answers {
		return false
	}
	for _, ours := range []error{errNoTurn, net.ErrClosed, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		if errors.Is(err, ours) {
			return false
		}
	}
	return true
}
