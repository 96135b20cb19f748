package membership

import (
	"context"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/replica/core"
)

// Clock ticks the replicas of a node, and checks the free space of the disk once a second.
type Clock struct {
	logs       *hosted.Logs
	peers      *peers.Peers
	space      *peers.Space
	leaderNews *replicas.LeaderNews
}

// NewClock returns a clock that does not tick yet.
func NewClock(logs *hosted.Logs, peers *peers.Peers, space *peers.Space, leaderNews *replicas.LeaderNews) *Clock {
	return &Clock{logs: logs, peers: peers, space: space, leaderNews: leaderNews}
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
		for _, h := range c.logs.All() {
			if h.Replica != nil {
				h.Replica.Tick()
				h.RefreshAge()
			}
		}
		if ticks++; ticks%peers.GossipTicks == 0 {
			c.space.Watch()
			c.peers.Gossip()
			c.space.SetRooms()
			c.leaderNews.Log()
		}
	}
}
