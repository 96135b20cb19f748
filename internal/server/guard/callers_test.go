package guard

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// Who has proved nothing may ask once at a time: a stream that stays costs memory, and thousands of them little to begin.
func TestWhoHasProvedNothingMayAskTwoThingsAndWatchNothing(t *testing.T) {
	g := enforcing(t)
	for method, let := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/strandline.v1.AccessService/WhoAmI": true,
		"/grpc.health.v1.Health/Watch": false, "/grpc.health.v1.Health/List": false, "/grpc.health.": false,
		"/strandline.v1.LogService/GetInfo": false, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": false,
	} {
		require.Equal(t, let, g.Admit(t.Context(), method) == nil, method)
	}
}

// What slows a caller down is what it does itself: a request of some partitions is one, and neither what the server
// asks for itself nor what others have used up is the caller's.
func TestARequestIsRefusedOnceAndToItsCaller(t *testing.T) {
	g := enforcing(t)
	bob := userOf(t, g, "bob")
	counted := func() bool { return bob.By.(*Holder).refused.Swap(false) }
	deny := func(c verbs.Caller) bool {
		require.Error(t, g.May(c, Read, "orders"))
		return counted()
	}
	require.True(t, deny(bob))
	require.True(t, deny(bob), "each is a request")
	for range 2 {
		request := bob
		request.Refused = new(atomic.Int32)
		require.True(t, deny(request))
		for range refusedTogether - 1 {
			require.False(t, deny(request), "another partition of it")
		}
		require.True(t, deny(request), "it asks for many")
	}

	busy := record.Refuse(record.Busy, "the queue is full")
	g.countCrowding(&bob, busy)
	require.False(t, counted())
	busy.OwnShare = true
	g.countCrowding(&bob, busy)
	require.True(t, counted())
	g.countCrowding(&bob, record.Refuse(record.TooLarge, "the log has 64 holds"))
	require.False(t, counted(), "a limit for all")

	known := g.refusals.known.Load()
	g.Audit(verbs.Caller{System: true}, Trim, "orders", record.Refuse(record.Denied, "no"))
	require.Equal(t, known, g.refusals.known.Load())
}
