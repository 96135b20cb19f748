// Package coordinator coordinates consumer groups: their members, as package group decides, and
// their committed offsets, which are stored in a log of the system. Handlers take the coordinator,
// the call and the request.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

const (
	// maxGroups bounds the groups with members. The node's memory bounds the memory of groups and
	// commits.
	maxGroups = 10_000

	// cleanEvery is how often the coordinator looks for groups and offsets to forget,
	// and membersEvery how often it records which groups have members.
	cleanEvery   = 5 * time.Minute
	membersEvery = time.Second

	// allHeardAfter is the time after the start of a coordinator at which members that have not
	// contacted it count as gone: their sessions have expired.
	allHeardAfter = (group.MaxSessionMs + group.MaxRebalanceMs) * time.Millisecond
)

// Coordinator runs the groups of the cluster, on the node that leads the log of their offsets. It
// supplies the time and waits for the decisions of package group.
type Coordinator struct {
	node     backend.Node
	logger   *slog.Logger
	stopping context.Context
	running  *sync.WaitGroup

	started time.Time
	offsets *offsets
	memory  *budget.Shares // of the node

	mu         sync.Mutex
	groups     map[string]*group.Group // those with members
	principals map[string]string       // the principals that created them
	held       map[string]int          // bytes of members by principal, as of the last tick plus later changes
	bytes      int                     // of groups, counted in memory
	term       uint64                  // of the leadership that groups belong to; 0: none
	since      time.Time               // when that began
	cleaned    time.Time               // when groups were last checked for removal
	recorded   time.Time               // when which groups have members was last recorded
	upkeep     bool                    // one of the two is under way

	loading sync.Mutex // held while a new leadership reads the log
}

// New returns a coordinator. Its background work ends with stopping and is counted in running.
func New(n backend.Node, memory *budget.Shares, logger *slog.Logger, stopping context.Context, running *sync.WaitGroup) *Coordinator {
	return &Coordinator{
		node: n, logger: logger, stopping: stopping, running: running,
		started: time.Now(), memory: memory, offsets: newOffsets(n, memory), groups: map[string]*group.Group{},
		principals: map[string]string{}, held: map[string]int{},
	}
}

func (c *Coordinator) now() int64 { return time.Since(c.started).Milliseconds() }

// found makes the log of the offsets, if it is not there.
func (c *Coordinator) found(ctx context.Context) error {
	_, err := c.node.Bounds(backend.System, backend.OffsetsLog)
	if !errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
		return nil // any other error shows when the log is used
	}
	_, err = c.node.CreateLog(ctx, backend.System, backend.OffsetsLog, settings.Config{})
	if errors.Is(err, &record.Refusal{Reason: record.LogExists}) {
		return nil
	}
	return err
}

// ready returns the term in which this node coordinates, with all offsets
// loaded, or an error where it does not.
func (c *Coordinator) ready(ctx context.Context) (term uint64, err error) {
	b, err := c.node.Bounds(backend.System, backend.OffsetsLog)
	switch {
	case errors.Is(err, &record.Refusal{Reason: record.LogNotFound}), errors.Is(err, &record.Refusal{Reason: record.NotLeader}):
		c.resign()
		return 0, kerr.NotCoordinator
	case err != nil:
		return 0, kerr.CoordinatorNotAvailable
	case !b.Leading:
		c.resign()
		return 0, kerr.NotCoordinator
	}
	if c.termIs(b.Term) {
		return b.Term, nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	if c.termIs(b.Term) {
		return b.Term, nil
	}
	c.resign()
	if err := c.offsets.load(ctx, b.Term); err != nil {
		if ctx.Err() == nil {
			c.logger.Warn("could not load the offsets of consumer groups", "error", err)
		}
		return 0, kerr.CoordinatorLoadInProgress
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.term, c.since, c.cleaned, c.recorded = b.Term, now, now, now
	return b.Term, nil
}

// confirm returns nil if this node still coordinates in a term, so that its state includes
// everything that any client got an answer for.
func (c *Coordinator) confirm(ctx context.Context, term uint64) error {
	if _, err := c.node.Info(ctx, backend.System, backend.OffsetsLog); err != nil {
		return coordinatorError(err)
	}
	// A node that has been replaced learns from its successor what is committed,
	// and has not folded it.
	b, err := c.node.Bounds(backend.System, backend.OffsetsLog)
	if err != nil || !b.Leading || b.Term != term {
		return kerr.NotCoordinator
	}
	return nil
}

func (c *Coordinator) termIs(term uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term == term
}

// resign releases all groups: somebody else coordinates, or did meanwhile.
func (c *Coordinator) resign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = 0
	for id, g := range c.groups {
		g.Close(kerr.NotCoordinator)
		delete(c.groups, id)
	}
	clear(c.principals)
	clear(c.held)
	c.count(0)
}

// count counts the groups in the node's memory. c.mu is held.
func (c *Coordinator) count(bytes int) {
	c.memory.Changed(int64(c.bytes), int64(bytes))
	c.bytes = bytes
}

// with calls f with a group, where this node coordinates, and returns the term
// in which it does. A group that is not there is nil.
func (c *Coordinator) with(ctx context.Context, id string, f func(g *group.Group, now int64)) (term uint64, err error) {
	return c.enter(ctx, id, nil, f)
}

// by is the principal for which a call creates a group.
type by struct{ principal string }

// enter is like with, and creates the group if it does not exist and made is not nil.
func (c *Coordinator) enter(ctx context.Context, id string, made *by, f func(g *group.Group, now int64)) (term uint64, err error) {
	if id == "" {
		return 0, kerr.InvalidGroupID
	}
	if term, err = c.ready(ctx); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[id]
	if made != nil && g == nil {
		if err := c.refuseGroup(made.principal); err != nil {
			return 0, err
		}
	}
	if c.term != term {
		return 0, kerr.NotCoordinator // somebody else has been it meanwhile
	}
	if made != nil && g == nil {
		g = group.New()
		c.groups[id] = g
		c.principals[id] = made.principal
	}
	f(g, c.now())
	return term, nil
}

// counting makes a change after which a group of a principal may use more memory, and counts that
// immediately for the next check of the limit. c.mu is held.
func (c *Coordinator) counting(principal string, g *group.Group, change func()) {
	before := g.Bytes()
	change()
	grown := g.Bytes() - before
	c.count(c.bytes + grown)
	c.held[principal] += grown
}

// refuseGroup refuses a new group if there are too many, or if its principal has created more
// groups than there is room for: one principal gets at most half, and the other half is for others.
// c.mu is held.
func (c *Coordinator) refuseGroup(principal string) error {
	left := maxGroups - len(c.groups)
	if left <= 0 {
		return protocol.Refuse(kerr.GroupMaxSizeReached, fmt.Sprintf("%d groups have members, the limit", maxGroups))
	}
	if principal == "" || len(c.groups) < left {
		return nil
	}
	own := 0
	for _, one := range c.principals {
		if one == principal {
			own++
		}
	}
	if own < left {
		return nil
	}
	return protocol.Refuse(kerr.GroupMaxSizeReached, fmt.Sprintf(
		"%s has begun %d of the groups with members, and the remaining %d are reserved for others: end some, then try again", principal, own, left))
}

// crowds reports whether a group, or all members of a principal, would use more of the node's
// memory for groups than is left for all others, with the given additional bytes. c.mu is held.
func (c *Coordinator) crowds(g *group.Group, principal string, more int) bool {
	return c.memory.Crowds(int64(g.Bytes()+more)) || principal != "" && c.memory.Crowds(int64(c.held[principal]+more))
}

// Tick advances the time of all groups, and drops empty groups. Their offsets stay. A group that is
// used again begins at generation 1; its old members cannot be confused with new ones, because ids
// are never used twice.
func (c *Coordinator) Tick() {
	c.mu.Lock()
	now := c.now()
	bytes := 0
	clear(c.held)
	for id, g := range c.groups {
		g.Tick(now)
		if g.Vacant() {
			delete(c.groups, id)
			delete(c.principals, id)
		}
		bytes += g.Bytes()
		g.Held(c.held)
	}
	c.count(bytes)
	work := c.due(time.Now())
	c.mu.Unlock()
	if work != nil {
		c.running.Go(work)
	}
}

// due returns the background work that is due, or nil. c.mu is held.
func (c *Coordinator) due(now time.Time) func() {
	if c.term == 0 || c.upkeep {
		return nil
	}
	var work func()
	switch term := c.term; {
	case now.Sub(c.recorded) > membersEvery:
		c.recorded = now
		inhabited, allHeard := c.inhabited(), now.Sub(c.since) > allHeardAfter
		work = func() { c.recordMembers(term, inhabited, allHeard, now) }
	case now.Sub(c.cleaned) > cleanEvery:
		c.cleaned = now
		work = func() {
			if err := c.clean(c.stopping, term, now); err != nil && c.stopping.Err() == nil {
				c.logger.Warn("could not forget offsets of consumer groups", "error", err)
			}
		}
	default:
		return nil
	}
	c.upkeep = true
	return func() {
		work()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.upkeep = false
	}
}

// inhabited are the groups with members, with their protocol types. c.mu is held.
func (c *Coordinator) inhabited() map[string]string {
	all := map[string]string{}
	for id, g := range c.groups {
		if kind := g.ProtocolType(); kind != "" {
			all[id] = kind
		}
	}
	return all
}

// recordMembers records in the log which groups have members and which have none. The retention of
// offsets counts from then, whichever node coordinates.
func (c *Coordinator) recordMembers(term uint64, inhabited map[string]string, allHeard bool, now time.Time) {
	// A failed write is repeated, here or by the next coordinator.
	_ = c.offsets.write(c.stopping, term, c.offsets.membership(inhabited, allHeard, now)...)
}

// clean forgets groups that have had no members, and committed nothing, for long, and
// the offsets of topics that were deleted.
func (c *Coordinator) clean(ctx context.Context, term uint64, now time.Time) error {
	logs := c.offsets.logs()
	for l := range logs {
		logs[l] = c.deleted(l)
	}
	changes := c.offsets.dispensable(now, logs)
	c.mu.Lock()
	changes = slices.DeleteFunc(changes, func(one offsetChange) bool { return one.Expire && c.groups[one.Group] != nil })
	c.mu.Unlock()
	return c.offsets.write(ctx, term, changes...)
}

// deleted reports whether the log that an offset is of is gone.
func (c *Coordinator) deleted(o offsetOf) bool {
	log, ok := backend.LogOf(o.Topic, o.Partition)
	if !ok || o.Log == 0 {
		return false
	}
	l, err := c.node.KnownInfo(backend.System, log)
	return errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) || err == nil && l.ID > o.Log
}
