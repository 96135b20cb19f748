package kafkadoor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/door/kafka/group"
	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
)

const (
	// maxGroups bounds the groups with members, and maxGroupBytes what all
	// members together tell of themselves.
	maxGroups     = 10_000
	maxGroupBytes = 128 << 20

	// outliveEvery is how often the coordinator looks for groups to forget.
	outliveEvery = time.Hour
)

// coordinator drives the groups of the cluster, on the node that leads the log
// of their offsets. It brings the time, and waits for what group decides.
type coordinator struct {
	server  *Server
	started time.Time
	offsets *offsets

	mu      sync.Mutex
	groups  map[string]*group.Group // those with members
	bytes   int                     // of all members' own data, as of the last tick
	term    uint64                  // of the leadership that groups belong to; 0: none
	cleaned time.Time               // when groups were last looked at to be forgotten

	loading sync.Mutex // held while a new leadership reads the log
}

func newCoordinator(s *Server) *coordinator {
	return &coordinator{server: s, started: time.Now(), offsets: newOffsets(s.node), groups: map[string]*group.Group{}, cleaned: time.Now()}
}

func (c *coordinator) now() int64 { return time.Since(c.started).Milliseconds() }

// found makes the log of the offsets, if it is not there.
func (c *coordinator) found(ctx context.Context) error {
	_, err := c.server.node.Bounds(system, offsetsLog)
	if !errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
		return nil // what else is wrong will show where it matters
	}
	_, err = c.server.node.CreateLog(ctx, system, offsetsLog, node.Config{})
	if errors.Is(err, &record.Refusal{Reason: record.LogExists}) {
		return nil
	}
	return err
}

// ready returns nil where this node coordinates, with all offsets loaded.
func (c *coordinator) ready(ctx context.Context) error {
	b, err := c.server.node.Bounds(system, offsetsLog)
	switch {
	case errors.Is(err, &record.Refusal{Reason: record.LogNotFound}), errors.Is(err, &record.Refusal{Reason: record.NotLeader}):
		c.resign()
		return kerr.NotCoordinator
	case err != nil:
		return kerr.CoordinatorNotAvailable
	case !b.Leading:
		c.resign()
		return kerr.NotCoordinator
	}
	if c.termIs(b.Term) {
		return nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	if c.termIs(b.Term) {
		return nil
	}
	c.resign()
	if err := c.offsets.catchUp(ctx); err != nil {
		if ctx.Err() == nil {
			c.server.logger.Warn("could not load the offsets of consumer groups", "error", err)
		}
		return kerr.CoordinatorLoadInProgress
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = b.Term
	return nil
}

func (c *coordinator) termIs(term uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term == term
}

// resign lets go of all groups: somebody else coordinates, or did meanwhile.
func (c *coordinator) resign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = 0
	for id, g := range c.groups {
		g.Close(kerr.NotCoordinator)
		delete(c.groups, id)
	}
}

// with calls f with a group, where this node coordinates. One that is not there
// is nil, or made.
func (c *coordinator) with(ctx context.Context, id string, create bool, f func(g *group.Group, now int64)) error {
	if id == "" {
		return kerr.InvalidGroupID
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[id]
	if create && (c.bytes > maxGroupBytes || g == nil && len(c.groups) >= maxGroups) {
		return kerr.GroupMaxSizeReached
	}
	if g == nil && create {
		g = group.New()
		c.groups[id] = g
	}
	f(g, c.now())
	return nil
}

// tick lets time pass for all groups, and forgets those that are empty. Their
// offsets stay. A group that comes back begins at generation 1 again; its old
// members cannot be taken for new ones, because ids are never used twice.
func (c *coordinator) tick() {
	c.mu.Lock()
	now := c.now()
	c.bytes = 0
	for id, g := range c.groups {
		g.Tick(now)
		if g.Vacant() {
			delete(c.groups, id)
		}
		c.bytes += g.Bytes()
	}
	clean := c.term != 0 && time.Since(c.cleaned) > outliveEvery
	if clean {
		c.cleaned = time.Now()
	}
	c.mu.Unlock()
	if clean {
		c.forgetOutlived(time.Now())
	}
}

// forgetOutlived deletes groups without members that have not committed for
// long.
func (c *coordinator) forgetOutlived(now time.Time) {
	for _, id := range c.offsets.outlived(now) {
		if c.members(id) {
			continue
		}
		if err := c.offsets.write(c.server.stopping, offsetChange{Group: id, Time: now.UnixMilli(), Delete: true}); err != nil {
			c.server.logger.Warn("could not forget a consumer group", "group", id, "error", err)
			return
		}
	}
}

func (c *coordinator) members(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups[id] != nil
}
