//go:build broken

package flaw

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABrokenProgramHasThemAll(t *testing.T) {
	found := traces(t, "-tags", "broken")
	for _, name := range names(t) {
		require.Contains(t, found, name)
		require.NoError(t, Choose(Flaw(name)), "it is in the list of all")
		require.True(t, Is(Flaw(name)))
	}
	require.Contains(t, found, "test/flaw.")
	require.Contains(t, found, "brokenAck")
	require.NoError(t, Choose(""))
	require.False(t, Is(AckBeforeMajority))
}

func TestAFlawThatIsNotThereIsRefused(t *testing.T) {
	require.ErrorContains(t, Choose("something"), `there is no flaw "something", only ack-before-majority,`)
}
