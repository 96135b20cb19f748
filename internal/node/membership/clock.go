package membership

import (
	"context"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
)

// Clock turns the wheel that ticks the replicas of a node, and checks the free space of the disk once
// a second.
type Clock struct {
	wheel      *runtime.Wheel
	ages       *hosted.Ages
	peers      *peers.Peers
	space      *peers.Space
	leaderNews *replicas.LeaderNews
}

// NewClock returns a clock that does not tick yet.
func NewClock(wheel *runtime.Wheel, ages *hosted.Ages, peers *peers.Peers, space *peers.Space, leaderNews *replicas.LeaderNews) *Clock {
	return &Clock{wheel: wheel, ages: ages, peers: peers, space: space, leaderNews: leaderNews}
}

// Run ticks until ctx ends.
func (c *Clock) Run(ctx context.Context) {
	tick := time.NewTicker(core.TickMillis * time.Millisecond)
	defer tick.Stop()
	for ticks := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.wheel.Turn(time.Now())
		c.ages.Refresh()
		if ticks++; ticks%peers.GossipTicks == 0 {
			c.space.Watch()
			c.peers.Gossip()
			c.space.SetRooms()
			c.leaderNews.Log()
		}
	}
}
