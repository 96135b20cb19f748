package membership

import (
	"context"
	"sync"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
)

// Clock turns the wheel that ticks the replicas of a node. Once a second it reads the free space of the
// disk and reports the node's state to the others. None of them waits for another: a disk may hang.
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
	var running sync.WaitGroup
	running.Go(func() {
		every(ctx, core.TickMillis*time.Millisecond, func() {
			c.wheel.Turn(time.Now())
			c.ages.Refresh()
		})
	})
	running.Go(func() { every(ctx, peers.GossipEvery, c.space.Watch) })
	running.Go(func() {
		every(ctx, peers.GossipEvery, func() {
			c.peers.Gossip()
			c.space.SetRooms()
			c.leaderNews.Log()
		})
	})
	running.Wait()
}

// every calls do again and again until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
