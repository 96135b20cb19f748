package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Raft clears its own flag once in an election timeout, and the cluster's status
// showed followers that are well as unreachable until the next heartbeat.
func TestAFollowerThatAnswersIsActiveAtEveryTick(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "one"))
	c.settle()
	for i := range 4 * electionTicks {
		for range 1 + i%3 { // so that Raft's timeout ends here and not in c.tick, too
			c.all[l].core.Tick() // before anything that it sends is answered
		}
		for _, p := range c.all[l].core.Peers() {
			require.True(t, p.Active, "replica %d", p.Replica)
		}
		c.tick()
	}
	gone := l%3 + 1
	c.all[gone].down = true
	for range 2 * electionTicks {
		c.tick()
	}
	for _, p := range c.all[l].core.Peers() {
		require.Equal(t, p.Replica != gone, p.Active, "replica %d", p.Replica)
	}
}
