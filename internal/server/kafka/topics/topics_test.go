package topics

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLastSequenceIsCountedAsKafkaDoes(t *testing.T) {
	require.EqualValues(t, -1, lastSequence(0))
	require.EqualValues(t, 0, lastSequence(1<<31+1))
}
