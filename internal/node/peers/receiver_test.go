package peers

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAMessageWaitsForItsLog(t *testing.T) { synctest.Test(t, testHeldMessages) }

func testHeldMessages(t *testing.T) {
	var e early
	e.hold(earlyMessage{log: 1, to: 11, message: []byte("first")})
	e.hold(earlyMessage{log: 2, to: 21, message: []byte("other")})
	e.hold(earlyMessage{log: 1, to: 11, message: []byte("second")})
	e.hold(earlyMessage{log: 1, to: 11, message: make([]byte, maxEarlyBytes+1)})
	var got []string
	for _, m := range e.take(1) {
		got = append(got, string(m.message))
	}
	require.Equal(t, []string{"first", "second"}, got, "in order, and no large ones")
	require.Empty(t, e.take(1))
	for range 2 * maxEarly {
		e.hold(earlyMessage{log: 3})
	}
	require.Len(t, e.held, maxEarly)
	e.held[1].until = e.held[1].until.Add(-2 * earlyTime)
	e.hold(earlyMessage{log: 4})
	require.Len(t, e.take(4), 1, "an old one makes room")
}
