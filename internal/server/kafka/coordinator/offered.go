package coordinator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
)

// The following methods serve ports other than Kafka's. Their callers inspect and change groups and
// are not members. Errors are refusals.

const (
	// MaxListed is the limit on the groups of one answer, and MaxListedBytes the approximate limit
	// on the bytes of their names.
	MaxListed      = 1_000
	MaxListedBytes = 1 << 20
	// MaxTopics is the limit on the topics of one request, and MaxSet the limit on the offsets that
	// one request sets.
	MaxTopics = 100
	MaxSet    = 1_000
)

// Listed is a group in a list.
type Listed struct {
	Name, State, ProtocolType string
	Members                   int
	Principal                 string // principal to whose share of the node's groups it counts; empty: not known, or not for this caller
}

// Described is a group with its members, by id.
type Described struct {
	Listed
	Coordinator string // name of this node
	Group       group.Description
}

// Offset is a group's committed offset in a partition.
type Offset struct {
	Topic     string
	Partition int32
	Log       string
	Offset    int64 // the next one to read; -1: none was committed
	Metadata  string
	Committed int64 // unix ms
}

// ListGroups returns groups after a name that the caller may observe. If there are more, it returns
// the name to continue after, otherwise an empty name.
func (c *Coordinator) ListGroups(ctx context.Context, caller verbs.Caller, after string) (some []Listed, next string, err error) {
	if !c.node.HoldsSome(caller, access.Observe, access.Group) {
		return nil, "", nil
	}
	if err := c.node.PaceList(ctx, caller); err != nil {
		return nil, "", err
	}
	if there, err := c.loaded(ctx); err != nil || !there {
		return nil, "", err
	}
	ids, more := c.visible(caller, after, MaxListed)
	bytes := 0
	for i, id := range ids {
		if bytes += len(id); bytes > MaxListedBytes && i > 0 {
			return some, ids[i-1], nil
		}
		d, _, err := c.describe(ctx, id)
		if err != nil {
			return nil, "", c.refused(id, err)
		}
		if d.State != group.Dead {
			some = append(some, c.listed(caller, id, &d))
		}
	}
	if more {
		next = ids[len(ids)-1]
	}
	return some, next, nil
}

// loaded reports whether there are groups, which is known where there is a log of offsets, and makes sure that this
// node coordinates and knows all that they have committed.
func (c *Coordinator) loaded(ctx context.Context) (bool, error) {
	if _, err := c.node.KnownInfo(backend.System, backend.OffsetsLog); err != nil {
		if errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
			return false, nil
		}
		return false, err
	}
	term, err := c.ready(ctx)
	if err == nil {
		err = c.confirm(ctx, term)
	}
	return err == nil, c.refused("", err)
}

func (c *Coordinator) listed(caller verbs.Caller, id string, d *group.Description) Listed {
	l := Listed{Name: id, State: string(d.State), ProtocolType: d.ProtocolType, Members: len(d.Members)}
	if c.node.HoldsSome(caller, access.Administer, access.Cluster) {
		l.Principal = c.principal(id)
	}
	return l
}

// principal returns the principal to whose share a group counts; empty: not known.
func (c *Coordinator) principal(id string) string {
	c.mu.Lock()
	begun := c.principals[id]
	c.mu.Unlock()
	return cmp.Or(begun, c.offsets.principal(id))
}

// there returns nil if this node's state of a group is current and the caller may call the verb.
func (c *Coordinator) there(ctx context.Context, caller verbs.Caller, v *guard.Verb, id string) error {
	if err := c.node.May(caller, v, id); err != nil {
		return err
	}
	loaded, err := c.loaded(ctx)
	if err == nil && !loaded {
		err = c.refused(id, kerr.GroupIDNotFound)
	}
	return err
}

// DescribeGroup returns a group with its members.
func (c *Coordinator) DescribeGroup(ctx context.Context, caller verbs.Caller, id string) (Described, error) {
	if err := c.there(ctx, caller, guard.ObserveGroup, id); err != nil {
		return Described{}, err
	}
	d, _, err := c.describe(ctx, id)
	if err == nil && d.State == group.Dead {
		err = kerr.GroupIDNotFound
	}
	if err != nil {
		return Described{}, c.refused(id, err)
	}
	slices.SortFunc(d.Members, func(a, b group.MemberDescription) int { return strings.Compare(a.ID, b.ID) })
	if !c.node.HoldsSome(caller, access.Administer, access.Cluster) {
		for i := range d.Members {
			d.Members[i].Principal = ""
		}
	}
	out := Described{Listed: c.listed(caller, id, &d), Group: d}
	members, self := c.node.Members()
	for _, m := range members {
		if m.ID == self {
			out.Coordinator = m.Name
		}
	}
	return out, nil
}

// ListGroupOffsets returns the committed offsets of a group, by topic and partition: all partitions
// of the given topics, or without topics the committed ones of all topics that the caller may
// observe.
func (c *Coordinator) ListGroupOffsets(ctx context.Context, caller verbs.Caller, id string, topics []string) (all []Offset, err error) {
	if len(topics) > MaxTopics {
		return nil, record.Refuse(record.Invalid, "%d topics in one request, the limit is %d", len(topics), MaxTopics)
	}
	err = c.there(ctx, caller, guard.ObserveGroup, id)
	known := map[partition]committed{}
	if err == nil {
		known, err = c.committedBy(ctx, caller, id)
	}
	// A caller that names topics may be about to commit the group's first offsets.
	if len(topics) > 0 && errors.Is(err, &record.Refusal{Reason: record.Precondition}) {
		err = nil
	}
	if err != nil {
		return nil, c.refused(id, err)
	}
	if len(topics) == 0 {
		if len(known) == 0 {
			if _, err := c.DescribeGroup(ctx, caller, id); err != nil {
				return nil, err
			}
		}
		sees := map[string]bool{}
		for p, of := range known {
			seen, asked := sees[p.topic]
			if !asked {
				seen = c.node.Sees(caller, access.OfLog(p.topic))
				sees[p.topic] = seen
			}
			if seen && !c.deleted(offsetOf{p.topic, p.number, of.Log}) {
				all = append(all, offset(p, of))
			}
		}
	}
	slices.Sort(topics)
	for _, name := range slices.Compact(topics) {
		t, err := c.topic(ctx, caller, guard.Observe, name)
		if err != nil {
			return nil, err
		}
		for i := range t.Partitions {
			p := partition{name, int32(i)}
			of, found := known[p]
			if !found || c.deleted(offsetOf{p.topic, p.number, of.Log}) {
				of = committed{Offset: -1}
			}
			all = append(all, offset(p, of))
		}
	}
	slices.SortFunc(all, Offset.Compare)
	return all, nil
}

// topic finds a topic for a verb that needs a right on it.
func (c *Coordinator) topic(ctx context.Context, caller verbs.Caller, v *guard.Verb, name string) (verbs.Topic, error) {
	if err := c.node.May(caller, v, name); err != nil {
		return verbs.Topic{}, err
	}
	if _, ok := backend.LogOf(name, 0); !ok {
		return verbs.Topic{}, record.Refuse(record.LogNotFound, "there is no topic %q", name)
	}
	return c.node.Topic(ctx, backend.System, name)
}

func offset(p partition, of committed) Offset {
	log, _ := backend.LogOf(p.topic, p.number)
	return Offset{Topic: p.topic, Partition: p.number, Log: log, Offset: of.Offset, Metadata: of.Metadata, Committed: of.Time}
}

// Compare orders by topic and partition.
func (o Offset) Compare(other Offset) int {
	return cmp.Or(strings.Compare(o.Topic, other.Topic), cmp.Compare(o.Partition, other.Partition))
}

// SetGroupOffsets commits offsets for a group without members, all or none.
func (c *Coordinator) SetGroupOffsets(ctx context.Context, caller verbs.Caller, id string, to []Offset) error {
	if err := c.node.May(caller, guard.SetGroupOffsets, id); err != nil {
		return err
	}
	err := c.setGroupOffsets(ctx, caller, id, to)
	c.node.Audit(caller, guard.SetGroupOffsets, id, err)
	return err
}

func (c *Coordinator) setGroupOffsets(ctx context.Context, caller verbs.Caller, id string, to []Offset) error {
	switch {
	case id == "":
		return c.refused(id, kerr.InvalidGroupID)
	case len(id) > access.MaxObjectName:
		return record.Refuse(record.Invalid, "the name of the consumer group has %d bytes, the limit is %d", len(id), access.MaxObjectName)
	case len(to) == 0 || len(to) > MaxSet:
		return record.Refuse(record.Invalid, "one call sets 1 to %d offsets, not %d", MaxSet, len(to))
	}
	change := offsetChange{Group: id, Time: time.Now().UnixMilli(), By: backend.PrincipalOf(c.node, caller)}
	topics, set := map[string]verbs.Topic{}, map[partition]bool{}
	for _, o := range to {
		t, asked := topics[o.Topic]
		if !asked {
			var err error
			if t, err = c.topic(ctx, caller, guard.SetTopicOffsets, o.Topic); err != nil {
				return err
			}
			topics[o.Topic] = t
		}
		p := partition{o.Topic, o.Partition}
		err := checkCommit(&t, o.Partition, o.Metadata)
		switch {
		case err == kerr.UnknownTopicOrPartition:
			return record.Refuse(record.LogNotFound, "topic %q has no partition %d: it has %d", o.Topic, o.Partition, len(t.Partitions))
		case err != nil:
			return record.Refuse(record.TooLarge, "%d bytes of metadata with the offset of partition %d of topic %q, the limit is %d", len(o.Metadata), o.Partition, o.Topic, MaxCommitMetadata)
		case o.Offset < 0:
			return record.Refuse(record.Invalid, "offset %d of partition %d of topic %q is below 0", o.Offset, o.Partition, o.Topic)
		case set[p]:
			return record.Refuse(record.Invalid, "partition %d of topic %q has two offsets: give one", o.Partition, o.Topic)
		}
		set[p] = true
		change.Commits = append(change.Commits, offsetCommit{
			Topic: o.Topic, Partition: o.Partition,
			committed: committed{Offset: o.Offset, Log: t.Partitions[o.Partition].ID, Epoch: -1, Metadata: o.Metadata},
		})
	}
	if err := c.found(ctx); err != nil {
		return err
	}
	return c.refused(id, c.commit(ctx, caller, guard.SetGroupOffsets, outside, change))
}

// EvictMembers removes the member with an id, or of an instance, from a group, or with "" all
// members, and returns the number removed. It needs the same right as membership, since members can
// remove each other over Kafka's protocol.
func (c *Coordinator) EvictMembers(ctx context.Context, caller verbs.Caller, id, member string) (evicted int, err error) {
	if err := c.there(ctx, caller, guard.EvictMembers, id); err != nil {
		return 0, err
	}
	d, _, err := c.describe(ctx, id)
	if err == nil && d.State == group.Dead {
		err = kerr.GroupIDNotFound
	}
	if err == nil {
		_, err = c.with(ctx, id, func(g *group.Group, now int64) {
			if g != nil {
				evicted = g.Evict(now, member)
			}
		})
	}
	if err = c.refused(id, err); err == nil && evicted == 0 && member != "" {
		err = record.Refuse(record.Precondition, "the consumer group %q has no member %q", id, member)
	}
	c.node.Audit(caller, guard.EvictMembers, id, err)
	return evicted, err
}

// DeleteGroup deletes a group without members, with its offsets.
func (c *Coordinator) DeleteGroup(ctx context.Context, caller verbs.Caller, id string) error {
	if err := c.there(ctx, caller, guard.DeleteGroup, id); err != nil {
		return err
	}
	return c.refused(id, c.remove(ctx, caller, id))
}

// refused converts an error of a call about a group into a refusal for ports other than Kafka's. It
// returns other errors unchanged.
func (c *Coordinator) refused(id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*record.Refusal)):
		return err
	case errors.Is(err, kerr.NotCoordinator):
		return c.elsewhere()
	case errors.Is(err, kerr.CoordinatorLoadInProgress), errors.Is(err, kerr.CoordinatorNotAvailable):
		return record.Refuse(record.NotLeader, "this node has become the coordinator of consumer groups and is still reading their commits")
	case errors.Is(err, kerr.GroupIDNotFound):
		return record.Refuse(record.Precondition, "there is no consumer group %q", id)
	case errors.Is(err, kerr.NonEmptyGroup), errors.Is(err, kerr.UnknownMemberID):
		return record.Refuse(record.Precondition, "the consumer group %q has members: stop them, or evict them, first", id)
	case errors.Is(err, kerr.InvalidGroupID):
		return record.Refuse(record.Invalid, "the name of the consumer group is missing")
	case errors.Is(err, kerr.InvalidCommitOffsetSize):
		return record.Refuse(record.Busy, "the memory for offsets of consumer groups is used up: delete unused groups, then try again")
	}
	return err
}

// elsewhere refuses what only the coordinator answers, and names it if it is known.
func (c *Coordinator) elsewhere() error {
	l, err := c.node.KnownInfo(backend.System, backend.OffsetsLog)
	switch {
	case err != nil:
		return err
	case l.Leader == "":
		return record.Refuse(record.NotLeader, "the log of consumer offsets has no leader at the moment")
	}
	r := record.Refuse(record.NotLeader, "another node coordinates consumer groups")
	r.Leader = l.Leader
	return r
}
