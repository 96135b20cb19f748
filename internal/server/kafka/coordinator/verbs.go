package coordinator

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// Decisions about groups for callers on every port. Errors are those of the guard, of the log of
// offsets, and Kafka's; each port converts them.

func ofGroup(id string) access.Object { return access.Object{Kind: access.Group, Name: id} }

// codeOf is Kafka's code for an error of a call about a group.
func codeOf(id string, err error) int16 { return protocol.CodeOf(protocol.DeniedOn(ofGroup(id), err)) }

// describe returns what a group is, with its members or without.
func (c *Coordinator) describe(ctx context.Context, id string) (d group.Description, term uint64, err error) {
	d.State = group.Dead
	term, err = c.with(ctx, id, func(g *group.Group, _ int64) {
		// A group without members and candidates exists only through its committed offsets.
		if g != nil && !g.Vacant() {
			d = g.Describe()
		}
	})
	// Reading offsets may wait, so it must not hold the lock of the groups.
	if err == nil && len(d.Members) == 0 {
		if committed := c.offsets.of(id); committed != nil {
			d.State, d.ProtocolType = group.Empty, committed.kind
		}
	}
	return d, term, err
}

// describeFor is describe for a verb about the group.
func (c *Coordinator) describeFor(ctx context.Context, caller verbs.Caller, v *guard.Verb, id string) (group.Description, uint64, error) {
	if err := c.node.May(caller, v, id); err != nil {
		return group.Description{State: group.Dead}, 0, err
	}
	return c.describe(ctx, id)
}

// visible are the groups after a name that the caller may observe, sorted, as many as are asked for or with 0 all, and
// whether there are more. A caller that may observe none costs nothing.
func (c *Coordinator) visible(caller verbs.Caller, after string, most int) (ids []string, more bool) {
	if !c.node.HoldsSome(caller, access.Observe, access.Group) {
		return nil, false
	}
	sees := func(id string) bool { return c.node.Sees(caller, ofGroup(id)) }
	from, enough := "", 0
	if after != "" {
		from = after + "\x00"
	}
	if most > 0 {
		enough = most + 1
	}
	ids = c.offsets.names(from, enough, sees)
	c.mu.Lock()
	inhabited := slices.Collect(maps.Keys(c.groups)) // some thousands at the most
	c.mu.Unlock()
	for _, id := range inhabited {
		if id >= from && sees(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); most > 0 && len(ids) > most {
		return ids[:most], true
	}
	return ids, false
}

// remove deletes a group without members, with its offsets.
func (c *Coordinator) remove(ctx context.Context, caller verbs.Caller, id string) error {
	d, term, err := c.describeFor(ctx, caller, guard.DeleteGroup, id)
	if err != nil {
		return err
	}
	switch {
	case d.State == group.Dead:
		err = kerr.GroupIDNotFound
	case len(d.Members) > 0:
		err = kerr.NonEmptyGroup
	default:
		err = c.offsets.write(ctx, term, offsetChange{Group: id, Time: time.Now().UnixMilli(), Delete: true})
	}
	c.node.Audit(caller, guard.DeleteGroup, id, err)
	return err
}

// committedBy returns what a group has committed, all that anybody was answered included.
func (c *Coordinator) committedBy(ctx context.Context, caller verbs.Caller, id string) (map[partition]committed, error) {
	if err := c.node.May(caller, guard.ObserveGroup, id); err != nil {
		return nil, err
	}
	term, err := c.with(ctx, id, func(*group.Group, int64) {})
	if err == nil {
		err = c.confirm(ctx, term)
	}
	if g := c.offsets.of(id); err == nil && g != nil {
		return g.offsets, nil
	}
	return map[partition]committed{}, err
}

// speaker identifies the member that commits for a group.
type speaker struct {
	member, instance string
	generation       int32
}

// outside is a client that is not a member of the group for which it commits.
var outside = speaker{generation: -1}

// commit makes offsets of a group durable.
func (c *Coordinator) commit(ctx context.Context, caller verbs.Caller, v *guard.Verb, by speaker, change offsetChange) error {
	if err := c.node.May(caller, v, change.Group); err != nil {
		return err
	}
	var refused error
	term, err := c.with(ctx, change.Group, func(g *group.Group, now int64) {
		if g == nil {
			g = group.New()
		}
		refused = g.MayCommit(now, by.member, by.instance, by.generation)
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case len(change.Commits) == 0:
		return nil
	}
	return c.offsets.write(ctx, term, change)
}

// checkCommit refuses an offset of a partition that there is not, or with too much beside it.
func checkCommit(t *verbs.Topic, partition int32, metadata string) error {
	switch {
	case partition < 0 || int(partition) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition
	case len(metadata) > MaxCommitMetadata:
		return kerr.OffsetMetadataTooLarge
	}
	return nil
}
