package membership

import (
	"context"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/replica/core"
)

// clock ticks the replicas of a node, and looks at the disk once a second.
type clock struct {
	logs  *hosted.Logs
	peers *peers.Peers
	space *peers.Space
	news  *replicas.LeaderNews
}

func (c *clock) Run(ctx context.Context) {
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
			c.news.Log()
		}
	}
}
