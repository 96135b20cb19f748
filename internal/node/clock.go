package node

import (
	"context"
	"time"

	"strandline.dev/internal/replica/core"
)

// clock ticks the replicas of a node, and looks at the disk once a second.
type clock struct {
	logs  *hostedLogs
	peers *peers
	space *space
	news  *leaderNews
}

func (c *clock) run(ctx context.Context) {
	tick := time.NewTicker(core.TickMillis * time.Millisecond)
	defer tick.Stop()
	for ticks := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, h := range c.logs.all() {
			if h.replica != nil {
				h.replica.Tick()
				h.refreshAge()
			}
		}
		if ticks++; ticks%gossipTicks == 0 {
			c.space.watch()
			c.peers.gossip()
			c.space.setRooms()
			c.news.log()
		}
	}
}
