package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
)

// One, two or all replicas of an idle log move. As soon as that is reported done,
// or a while later, when the old replicas' files are gone, the power of all nodes
// goes. What the new replicas have on disk has to be enough to go on.
func TestPowerCutsAfterAMoveOfAnIdleLog(t *testing.T) {
	done := 0
	for seed := uint64(0); seed < 60; seed += sparse {
		moved := 1 + int(seed%3)
		r := run(seed, Options{Nodes: 6, Replicas: 3}, func(w *world) {
			if !w.moveIdle(moved) {
				return
			}
			w.until(t, seed, func() bool { return w.catalog.newest().log.Settled() })
			w.run(w.now + int64(w.dice(0, 5, 100, 1000))*millisecond)
			w.cutPower()
			done++
		})
		require.NoError(t, r.Err(), "seed %d: %d replicas moved", seed, moved)
	}
	require.Greater(t, done*sparse, 30)
}

// The power of one node, or of all, goes at any step of such a move.
func TestPowerCutsAtEveryStepOfAMove(t *testing.T) {
	const seed, stride = 0, 61 * sparse // events between two cuts: some milliseconds
	for moved := 1; moved <= 3; moved++ {
		for victim := range 7 { // 0: all
			for step, settled := 1+victim, false; !settled; step += stride {
				r := run(seed, Options{Nodes: 6, Replicas: 3}, func(w *world) {
					require.True(t, w.moveIdle(moved))
					for range step {
						w.step()
						settled = settled || w.catalog.newest().log.Settled()
					}
					if victim == 0 {
						w.cutPower()
					} else if n := w.nodes[victim-1]; n.up {
						n.die(true)
					}
				})
				require.NoError(t, r.Err(), "%d replicas moved, node %d cut at step %d", moved, victim, step)
			}
		}
	}
}

// moveIdle lets the log fall idle and begins to move some of its three replicas. It
// reports false if the log has not got three.
func (w *world) moveIdle(replicas int) bool {
	if len(w.catalog.newest().log.Replicas) != 3 {
		return false
	}
	w.run(w.now + second)
	w.quiet = true
	w.run(w.now + 3*second)
	w.catalog.place(func(l *cluster.Log, next uint64) bool {
		for i, n := range w.operator.free(&l.Placement)[:replicas] {
			l.Move(l.Replicas[i].Node, n.id, next+uint64(i))
		}
		return true
	})
	return true
}

// step lets the next event happen.
func (w *world) step() { w.run(w.events[0].at) }

// until runs the world until something is so.
func (w *world) until(t *testing.T, seed uint64, is func() bool) {
	for deadline := w.now + 30*second; !is(); w.step() {
		require.NoError(t, w.problem, "seed %d", seed)
		require.Less(t, w.now, deadline, "seed %d", seed)
	}
}

// cutPower ends all nodes that run.
func (w *world) cutPower() {
	for _, n := range w.nodes {
		if n.up {
			n.die(true)
		}
	}
}
