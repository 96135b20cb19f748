package guard

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func refusing(t *testing.T) *Guard {
	t.Helper()
	return &Guard{refusals: newRefusals(refusedRate), stopping: t.Context()}
}

func at(ip string) *net.TCPAddr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

// Whoever is refused without end waits for each refusal, and nobody else does, not even others of the same
// principal on what was refused nothing.
func TestWhoIsRefusedWithoutEndIsHeldUpAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := refusing(t)
		mallory, alice := newHolder("user/mallory", at("10.0.0.1")), newHolder("user/alice", at("10.0.0.1"))
		began := time.Now()
		for range 3 * refusedRate {
			g.wasRefused(mallory)
			g.Slow(With(t.Context(), mallory), nil)
		}
		require.Equal(t, 2*time.Second, time.Since(began), "the first second's are free")

		for range 100 * refusedRate { // at once, as from many connections
			g.wasRefused(mallory)
		}
		began = time.Now()
		other := newHolder("user/mallory", at("10.0.0.2"))
		g.SlowHolder(t.Context(), other)
		g.Slow(With(t.Context(), alice), nil)
		g.Slow(t.Context(), at("10.0.0.1"))
		require.Zero(t, time.Since(began))
		g.SlowHolder(t.Context(), mallory)
		require.Equal(t, refusedWait, time.Since(began))
		g.SlowHolder(t.Context(), mallory)
		require.Equal(t, refusedWait, time.Since(began), "nothing more was refused on this one")

		time.Sleep(refusedBurst)
		began = time.Now()
		g.Slow(With(t.Context(), other), nil)
		require.Zero(t, time.Since(began), "it has stopped, and is forgiven")

		for range 3 * refusedRate {
			g.wasRefused(mallory)
		}
		gone, leave := context.WithCancel(With(t.Context(), mallory))
		leave()
		g.Slow(gone, nil)
		require.Zero(t, time.Since(began))
	})
}

// Who has not proved who it is counts by address, of IPv6 by network, and what everybody may ask counts as well.
func TestWhoIsNotKnownIsHeldUpByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for one, same := range map[string]string{"10.0.0.1": "::ffff:10.0.0.1", "2001:db8::1": "2001:db8::ffff"} {
			g := refusing(t)
			for range 3 * refusedRate {
				g.wasRefused(newHolder("", at(one)))
			}
			began := time.Now()
			g.Slow(t.Context(), at("10.0.0.2"))
			g.Slow(t.Context(), at("2001:db8:1::1"))
			require.Zero(t, time.Since(began))
			g.Slow(t.Context(), at(same))
			require.Equal(t, refusedWait, time.Since(began))
		}
		g := refusing(t)
		began := time.Now()
		for range 2 * refusedRate {
			g.Unproved(t.Context(), newHolder("", at("10.0.0.1")))
			g.Unproved(t.Context(), newHolder("user/alice", at("10.0.0.1")))
		}
		require.Equal(t, time.Second, time.Since(began))
	})
}

// A probe of a node's health gives up after a second, and may come from the address of one who asks without end.
func TestAProbeIsHeldUpForLessThanASecondByOthersAtItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := refusing(t)
		probe := newHolder("", at("10.0.0.1"))
		for range 3 * refusedRate {
			g.wasRefused(newHolder("", at("10.0.0.1")))
		}
		began := time.Now()
		g.Unproved(t.Context(), probe)
		require.Zero(t, time.Since(began), "what was refused does not count")
		for range 3 * refusedRate {
			go g.Unproved(t.Context(), newHolder("", at("10.0.0.1")))
		}
		synctest.Wait()
		g.Unproved(t.Context(), probe)
		require.Equal(t, unprovedWait, time.Since(began))
	})
}

// As many callers as there may be take little memory, and nobody hides among them.
func TestRefusedCallersThatAreTooManyShareAPlace(t *testing.T) {
	r, now := newRefusals(refusedRate), time.Now()
	for i := range 2 * maxRefused {
		r.add(fmt.Sprint(i), now)
	}
	require.LessOrEqual(t, len(r.full), maxRefused)
	for range 3 * refusedRate {
		r.add("mallory", now)
	}
	require.Equal(t, refusedWait, r.owes("mallory", now))
	require.Equal(t, refusedWait, r.owes("another", now))
	require.Zero(t, r.owes("1", now))
	later := now.Add(time.Minute)
	r.add("mallory", later)
	require.Len(t, r.full, 1, "those that have stopped are forgotten")
	require.Zero(t, r.owes("another", later))
}
