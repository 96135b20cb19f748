package membership

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/hosted"
)

func TestTheEndOfADrainForgetsItsPauses(t *testing.T) {
	ho := &Handovers{logs: hosted.NewLogs(), drained: map[uint64]*background.Backoff{7: {}}}
	state := &cluster.State{Nodes: map[uint64]cluster.Node{1: {ID: 1, Drained: true}}}
	ho.drain(t.Context(), state, 1)
	require.Len(t, ho.drained, 1)
	state.Nodes[1] = cluster.Node{ID: 1}
	ho.drain(t.Context(), state, 1)
	require.Empty(t, ho.drained)
}
