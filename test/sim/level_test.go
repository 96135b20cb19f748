package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
)

// A cluster is upgraded one node at a time, goes back, is upgraded again and finalized,
// while clients go on and processes die. It is never raised while a node runs that would
// not understand it; what went back meanwhile does not run until it is upgraded.
func TestAClusterIsUpgradedGoesBackAndIsFinalized(t *testing.T) {
	older, newer := cluster.Levels{}, cluster.Levels{Min: 1, Max: 2}
	for seed := uint64(0); seed < 20; seed += sparse {
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			s := suite{t, w, seed}
			some := func() *node { return w.nodes[w.random.IntN(len(w.nodes))] }
			level := func() int { return w.catalog.newest().FeatureLevel() }
			w.run(w.now + second)
			for range 12 { // of which the last node is not upgraded
				one := w.nodes[w.random.IntN(2)]
				one.install([]cluster.Levels{older, newer}[w.random.IntN(2)])
				w.run(w.now + w.between(100*millisecond, second))
				require.False(t, w.operator.finalize(some(), func() {}), "seed %d: one node is older", seed)
			}
			s.append(succeeded)
			for _, n := range w.nodes {
				n.install(newer)
				w.run(w.now + w.between(0, second))
			}
			back := some() // goes back after it was asked
			s.within("nodes that all run", func() bool { return w.nodes[0].up && w.nodes[1].up && w.nodes[2].up })
			require.True(t, w.operator.finalize(some(), func() { back.install(older) }), "seed %d", seed)
			require.Equal(t, 2, level(), "seed %d", seed)
			require.False(t, w.operator.finalize(some(), func() {}), "seed %d: it is done", seed)
			w.run(w.now + 4*second)
			require.False(t, back.up && back.serves() && !back.refuses(newer) && back.catalog().FeatureLevel() == 2, "seed %d: it understands 1", seed)
			s.append(succeeded) // the others are a majority
			back.install(newer)
			s.within("the node that went back", func() bool { return back.serves() && back.catalog().FeatureLevel() == 2 })
			s.append(succeeded)
			s.requireRead()
		})
		require.NoError(t, r.Err(), "seed %d", seed)
	}
}
