package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
)

// Trips measures the round trips to connected nodes with calls that every node answers at once.
type Trips struct {
	me      *datadir.Me
	catalog *catalog.Shared
	status  *Status
	caller  *Caller

	mu   sync.Mutex
	last map[uint64][]time.Duration // by node; the newest last
}

// NewTrips returns a Trips that measures round trips to the nodes that status shows as connected.
func NewTrips(me *datadir.Me, catalog *catalog.Shared, status *Status, caller *Caller) *Trips {
	return &Trips{me: me, catalog: catalog, status: status, caller: caller, last: map[uint64][]time.Duration{}}
}

const (
	// tripEvery lies between two questions to a node.
	tripEvery = 2 * time.Second
	// tripsKept of these count: the shortest of them is the distance, the others were held up
	// by something else.
	tripsKept = 8
)

// Run measures until ctx ends.
func (t *Trips) Run(ctx context.Context) {
	for ; ctx.Err() == nil; background.Pause(ctx, tripEvery) {
		var asking sync.WaitGroup
		for id := range t.catalog.Load().Shown.Load().Nodes {
			if id == t.me.Load().NodeID {
				continue
			}
			if !t.status.Up(id) {
				t.forget(id)
				continue
			}
			asking.Go(func() { t.measure(ctx, id) })
		}
		asking.Wait()
	}
}

func (t *Trips) measure(ctx context.Context, id uint64) {
	ctx, cancel := context.WithTimeout(ctx, tripEvery)
	defer cancel()
	began := time.Now()
	if t.caller.Call(ctx, id, AskWho, struct{}{}, nil) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := append(t.last[id], time.Since(began))
	t.last[id] = kept[max(0, len(kept)-tripsKept):]
}

// forget removes the measurements of a node that has left: it may return at another location.
func (t *Trips) forget(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, id)
}

// own are the round trips of this node, in ms.
func (t *Trips) own() map[uint64]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[uint64]int, len(t.last))
	for id, kept := range t.last {
		out[id] = int(slices.Min(kept).Milliseconds())
	}
	return out
}

// All returns the round trips that this node has measured, and those that other nodes have
// reported.
func (t *Trips) All() cluster.RoundTrips {
	out := t.status.trips()
	out[t.me.Load().NodeID] = t.own()
	return out
}
