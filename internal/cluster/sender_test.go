package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANodeSpeaksForItsOwnReplicasOnly(t *testing.T) {
	p := three()
	require.True(t, p.Move(1, 4, 9))
	for _, row := range []struct {
		what          string
		replica, from uint64
		is            Sender
	}{
		{"its own", 2, 2, Placed},
		{"one that is leaving", 1, 1, Placed},
		{"one that has come", 9, 4, Placed},
		{"that of another", 2, 3, Forged},
		{"the new one in the old one's place", 9, 1, Forged},
		{"one that was removed", 5, 2, Forged},
		{"none", 0, 2, Forged},
		{"one given since", 10, 5, Newer},
	} {
		require.Equal(t, row.is, p.SenderOf(row.replica, row.from, 10), row.what)
	}
}
