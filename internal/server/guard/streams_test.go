package guard

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
)

func ofOrders(user string, rights access.Rights) access.Grant {
	return access.Grant{Principal: "user/" + user, On: access.OfLog("orders"), Rights: rights}
}

// withOrders is a guard of a node that enforces rights, with a log.
func withOrders(t *testing.T, grants ...access.Grant) *Guard {
	t.Helper()
	g := enforcing(t, grants...)
	_, err := g.CreateLog(t.Context(), userOf(t, g, "root"), "orders", settings.Config{})
	require.NoError(t, err)
	return g
}

// streamOf returns the context of a stream of a user; reads returns that of one that follows the log.
func (g *Guard) streamOf(t *testing.T, user string) context.Context {
	t.Helper()
	stream, end, err := g.Stream(With(t.Context(), userOf(t, g, user).By.(*Holder)))
	require.NoError(t, err)
	t.Cleanup(end)
	return stream
}

func (g *Guard) reads(t *testing.T, user string) context.Context {
	t.Helper()
	stream := g.streamOf(t, user)
	r, err := g.Read(stream, CallerOf(stream), "orders", reading.Request{Follow: true, Until: reading.NoOffset})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return stream
}

// Guard.mu is held for as long as the guard looks at all streams.
func TestAStreamThatWatchesWaitsForNoOtherStream(t *testing.T) {
	g := withOrders(t, ofOrders("bob", access.Observe))
	bobs := g.streamOf(t, "bob")
	g.relies(bobs, Observe, "orders")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.relies(bobs, Observe, "orders")
}

// A read asks for other rights than its own all the time, with each heartbeat. It keeps none of its own by that.
func TestAReadEndsWhenItsRightIsRemovedWhateverElseItsCallerMay(t *testing.T) {
	for name, others := range map[string]int{"the first change": 0, "after other changes": 2} {
		t.Run(name, func(t *testing.T) {
			g := withOrders(t, ofOrders("bob", access.Read|access.Append), ofOrders("carol", access.Read))
			root := userOf(t, g, "root")
			bobs, carols, appends := g.reads(t, "bob"), g.reads(t, "carol"), g.streamOf(t, "bob")
			heartbeat := func() {
				_, err := g.KnownInfo(CallerOf(bobs), "orders")
				require.NoError(t, err)
			}
			heartbeat()
			for range others {
				require.NoError(t, g.AddGrants(t.Context(), root, []access.Grant{ofOrders("dora", access.Read)}))
				heartbeat()
				g.endLost(time.Now())
			}
			require.NoError(t, bobs.Err())
			require.NoError(t, g.RemoveGrants(t.Context(), root, []access.Grant{ofOrders("bob", access.Read)}))
			heartbeat()
			g.endLost(time.Now())
			require.ErrorContains(t, context.Cause(bobs), "DENIED")
			require.ErrorContains(t, context.Cause(bobs), "user/bob may not continue log/orders: it needs the right to read")
			require.NoError(t, carols.Err())
			require.NoError(t, appends.Err())
		})
	}
}

func TestAReadThatBeganBeforeRightsWereEnforcedEndsWithoutTheRight(t *testing.T) {
	g := withOrders(t, ofOrders("carol", access.Read))
	root := userOf(t, g, "root")
	require.NoError(t, g.EnforceRights(t.Context(), root, false, ""))
	bobs, carols := g.reads(t, "bob"), g.reads(t, "carol")
	g.endLost(time.Now())
	require.NoError(t, bobs.Err())
	require.NoError(t, g.EnforceRights(t.Context(), root, true, ""))
	g.endLost(time.Now())
	require.ErrorContains(t, context.Cause(bobs), "DENIED")
	require.NoError(t, carols.Err())
}

// A stream may watch a log by the right to observe it alone.
func TestAWatchEndsWhenItsRightIsRemoved(t *testing.T) {
	g := withOrders(t, ofOrders("bob", access.Observe))
	watch := g.streamOf(t, "bob")
	_, err := g.Info(watch, CallerOf(watch), "orders")
	require.NoError(t, err)
	g.endLost(time.Now())
	require.NoError(t, watch.Err())
	require.NoError(t, g.RemoveGrants(t.Context(), userOf(t, g, "root"), []access.Grant{ofOrders("bob", access.Observe)}))
	g.endLost(time.Now())
	require.ErrorContains(t, context.Cause(watch), "DENIED")
}

// The guard looks ten times a second, at thousands of streams.
func TestALookDecidesNothingAnewWhileTheRulesAreTheSame(t *testing.T) {
	g := withOrders(t, ofOrders("bob", access.Read))
	const streams = 100
	for range streams {
		g.reads(t, "bob")
	}
	g.endLost(time.Now())
	require.Less(t, testing.AllocsPerRun(10, func() { g.endLost(time.Now()) }), float64(streams))
}

func TestAReadEndsWhenItsTokenExpiresWhileTheRulesAreTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := access.Compile(access.List{
			Enforced: true,
			Tokens:   map[string]access.Token{"id": {ID: "id", Principal: "user/bob", Expires: now() + 1000}},
			Grants:   map[string]access.Grant{"": ofOrders("bob", access.Read)},
		})
		s := &stream{holder: newHolder("user/bob", new(net.TCPAddr)), uses: []use{{access.OfLog("orders"), access.Read}}}
		s.holder.Token = "id"
		for range 2 {
			_, lost := s.lost(rules)
			require.False(t, lost)
		}
		time.Sleep(time.Second)
		u, lost := s.lost(rules)
		require.True(t, lost)
		require.Equal(t, s.uses[0], u)
	})
}
