package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// groupsLog is the log whose leader coordinates consumer groups.
const groupsLog = "_offsets"

// GroupInfo describes a Kafka consumer group.
type GroupInfo struct {
	Group        string
	State        string // in Kafka's terms: Empty, PreparingRebalance, CompletingRebalance, Stable
	ProtocolType string // type of its members, such as consumer; empty: it never had any
	Size         int    // number of members
	// Principal is the principal to whose share of the node's groups it counts, such as user/alice.
	// It is returned only to callers that may administer the cluster; empty: not known, or rights
	// are not enforced.
	Principal string
}

// GroupDescription is a consumer group with its members, by id.
type GroupDescription struct {
	GroupInfo
	Protocol    string // how members divide the partitions, such as range; empty: they have not agreed
	Coordinator string // name of the node
	Members     []GroupMember
}

// GroupMember is one member of a consumer group.
type GroupMember struct {
	ID       string
	Instance string // its permanent name; empty: none
	ClientID string
	Host     string // its address
	// Principal is the principal of its client. It is returned only to callers that may administer
	// the cluster.
	Principal string
	// Assigned is what it reads; empty while the members have not agreed, and for members that are
	// not consumers. If Truncated is set, there is more.
	Assigned  []AssignedTopic
	Truncated bool
}

// AssignedTopic is the partitions of one topic that a member reads.
type AssignedTopic struct {
	Topic      string
	Partitions []int32
}

// GroupOffset is a group's position in one partition of a topic.
type GroupOffset struct {
	Topic     string
	Partition int32
	Log       string // of the partition; SetGroupOffsets ignores it
	Offset    int64  // next offset to read; -1: the group has committed none
	Metadata  string // added by the consumer
	// Committed is when it was committed; SetGroupOffsets ignores it.
	Committed time.Time
}

// GroupLag is how far a group is behind the end of one partition.
type GroupLag struct {
	GroupOffset
	Start, End int64 // offsets in [Start, End) can be read
	// Lag is End minus Offset, or minus Start if none was committed.
	Lag int64
}

// ListGroups returns the consumer groups that the caller may observe, by name.
func (a *Admin) ListGroups(ctx context.Context) (all []GroupInfo, err error) {
	for after, more := "", true; more; more = after != "" {
		answer, err := groupCall(ctx, a, repeatedly, strandlinev1.GroupServiceClient.ListGroups, &strandlinev1.ListGroupsRequest{After: after})
		if err != nil {
			return nil, err
		}
		for _, g := range answer.GetGroups() {
			all = append(all, fromGroupInfo(g))
		}
		if after, err = nextPage(after, answer.GetNext()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// DescribeGroup returns a consumer group with its members. The error is ErrPrecondition if there
// is no such group.
func (a *Admin) DescribeGroup(ctx context.Context, group string) (d GroupDescription, err error) {
	for after, more := "", true; more; more = after != "" {
		answer, err := groupCall(ctx, a, repeatedly, strandlinev1.GroupServiceClient.DescribeGroup, &strandlinev1.DescribeGroupRequest{Group: group, After: after})
		if err != nil {
			return GroupDescription{}, err
		}
		d.GroupInfo, d.Protocol, d.Coordinator = fromGroupInfo(answer.GetInfo()), answer.GetProtocol(), answer.GetCoordinator()
		for _, m := range answer.GetMembers() {
			d.Members = append(d.Members, fromGroupMember(m))
		}
		if after, err = nextPage(after, answer.GetNext()); err != nil {
			return GroupDescription{}, err
		}
	}
	return d, nil
}

func fromGroupInfo(w *strandlinev1.GroupInfo) GroupInfo {
	return GroupInfo{Group: w.GetGroup(), State: w.GetState(), ProtocolType: w.GetProtocolType(), Size: int(w.GetMembers()), Principal: w.GetPrincipal()}
}

func fromGroupMember(w *strandlinev1.GroupMember) GroupMember {
	m := GroupMember{ID: w.MemberId, Instance: w.InstanceId, ClientID: w.ClientId, Host: w.Host, Principal: w.Principal, Truncated: w.Truncated}
	for _, t := range w.Assigned {
		m.Assigned = append(m.Assigned, AssignedTopic{t.Topic, t.Partitions})
	}
	return m
}

// GroupOffsets returns the offsets that a consumer group has committed, by topic and partition,
// in the topics that the caller may observe. With topics, up to 100, it returns all partitions of
// these topics, with or without committed offsets.
func (a *Admin) GroupOffsets(ctx context.Context, group string, topics ...string) (all []GroupOffset, err error) {
	q := &strandlinev1.ListGroupOffsetsRequest{Group: group, Topics: topics}
	for more := true; more; {
		before := q.After
		answer, err := groupCall(ctx, a, repeatedly, strandlinev1.GroupServiceClient.ListGroupOffsets, q)
		if err != nil {
			return nil, err
		}
		for _, o := range answer.GetOffsets() {
			one := GroupOffset{Topic: o.Topic, Partition: o.Partition, Log: o.Log, Offset: -1, Metadata: o.Metadata}
			if o.Offset != nil {
				one.Offset, one.Committed = *o.Offset, o.GetCommitted().AsTime()
			}
			all = append(all, one)
			q.After = &strandlinev1.GroupPartition{Topic: o.Topic, Partition: o.Partition}
		}
		if more = answer.GetMore(); more && !behindPartition(q.After, before) {
			return nil, doesNotAdvance()
		}
	}
	return all, nil
}

// behindPartition reports whether partition a follows b in a list; nil precedes all.
func behindPartition(a, b *strandlinev1.GroupPartition) bool {
	if a == nil || b == nil {
		return a != nil
	}
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition)) > 0
}

// lagsAtOnce is how many logs are queried at a time.
const lagsAtOnce = 16

// GroupLag returns how far a consumer group is behind the ends of the partitions for which it has
// committed offsets, or of all partitions of topics.
func (a *Admin) GroupLag(ctx context.Context, group string, topics ...string) ([]GroupLag, error) {
	offsets, err := a.GroupOffsets(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	all, failed := make([]GroupLag, len(offsets)), make([]error, len(offsets))
	forEach(len(offsets), lagsAtOnce, func(i int) {
		var info LogInfo
		if info, failed[i] = a.Info(ctx, offsets[i].Log); failed[i] == nil {
			all[i] = GroupLag{GroupOffset: offsets[i], Start: info.Start, End: info.End, Lag: max(0, info.End-max(offsets[i].Offset, 0))}
			if offsets[i].Offset < 0 {
				all[i].Lag = info.End - info.Start
			}
		}
	})
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// forEach calls f for 0 to n-1, at most atOnce at a time.
func forEach(n, atOnce int, f func(i int)) {
	var running sync.WaitGroup
	next := make(chan int)
	for range min(n, atOnce) {
		running.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
}

// OffsetAt returns the offset of the first record that was appended to a log at or after a time,
// by the leader's clock, or the end if there is none.
func (a *Admin) OffsetAt(ctx context.Context, log string, t time.Time) (int64, error) {
	info, err := a.Info(ctx, log) // before the read, so that later appends are behind it
	if err != nil {
		return 0, err
	}
	r, err := a.client.Reader(ctx, log, WithStartTime(t), WithMaxRecords(1))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	first, err := r.Next(ctx)
	if errors.Is(err, io.EOF) {
		return info.End, nil
	}
	return first.Offset, err
}

// offsetsAtOnce is the maximum number of offsets in one call.
const offsetsAtOnce = 1_000

// SetGroupOffsets commits offsets for a consumer group, in calls of up to 1,000, each of which
// takes effect as a whole or not at all; after an error no further calls are made. It is refused
// with ErrPrecondition while the group has members. A group that does not exist is created. Calls
// are made once: after an error whose Outcome is MaybeDone, check the result of GroupOffsets.
func (a *Admin) SetGroupOffsets(ctx context.Context, group string, to []GroupOffset) error {
	for len(to) > 0 {
		n := min(len(to), offsetsAtOnce)
		q := &strandlinev1.SetGroupOffsetsRequest{Group: group}
		for i := range to[:n] {
			o := &to[i]
			q.Offsets = append(q.Offsets, &strandlinev1.GroupOffset{Topic: o.Topic, Partition: o.Partition, Offset: &o.Offset, Metadata: o.Metadata})
		}
		if _, err := groupCall(ctx, a, once, strandlinev1.GroupServiceClient.SetGroupOffsets, q); err != nil {
			return err
		}
		to = to[n:]
	}
	return nil
}

// EvictMembers removes the member with an id, or of an instance, from a consumer group, or all
// members if member is "", and returns how many it removed. Clients join again unless something
// prevents it.
func (a *Admin) EvictMembers(ctx context.Context, group, member string) (evicted int, err error) {
	answer, err := groupCall(ctx, a, once, strandlinev1.GroupServiceClient.EvictMembers, &strandlinev1.EvictMembersRequest{Group: group, Member: member})
	return int(answer.GetEvicted()), err
}

// DeleteGroup deletes a consumer group with its committed offsets. It is refused with
// ErrPrecondition while the group has members, or if it does not exist.
func (a *Admin) DeleteGroup(ctx context.Context, group string) error {
	_, err := groupCall(ctx, a, once, strandlinev1.GroupServiceClient.DeleteGroup, &strandlinev1.DeleteGroupRequest{Group: group})
	return err
}

// groupCall makes a call on the node that coordinates groups.
func groupCall[Q, R any](ctx context.Context, a *Admin, again repetition, call func(strandlinev1.GroupServiceClient, context.Context, *Q, ...grpc.CallOption) (*R, error), q *Q) (answer *R, err error) {
	err = a.call(ctx, groupsLog, again, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		answer, err = call(strandlinev1.NewGroupServiceClient(conn), ctx, q)
		return err
	})
	return answer, err
}
