package client

import (
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

// GroupInfo is a consumer group of Kafka's clients.
type GroupInfo struct {
	Group        string
	State        string // in Kafka's words: Empty, PreparingRebalance, CompletingRebalance, Stable
	ProtocolType string // what its members are, such as consumer; empty: it never had any
	Size         int    // how many members
	// Principal is whose share of the node's groups it takes, such as user/alice. Only who may administer the cluster
	// gets it; empty: not known, or rights are not enforced.
	Principal string
}

// GroupDescription is a consumer group with its members, by id.
type GroupDescription struct {
	GroupInfo
	Protocol    string // how members divide their work, such as range; empty: they have not agreed
	Coordinator string // name of the node
	Members     []GroupMember
}

// GroupMember is one member of a consumer group.
type GroupMember struct {
	ID       string
	Instance string // what it calls itself for ever; empty: nothing
	ClientID string
	Host     string // its address
	// Principal is whose client it is. Only who may administer the cluster gets it.
	Principal string
	// Assigned is what it reads; empty while the members have not agreed, and for those that are no consumers. With
	// Truncated there is more.
	Assigned  []AssignedTopic
	Truncated bool
}

// AssignedTopic is what a member reads of one topic.
type AssignedTopic struct {
	Topic      string
	Partitions []int32
}

// GroupOffset is a group's place in one partition of a topic.
type GroupOffset struct {
	Topic     string
	Partition int32
	Log       string // of the partition; SetGroupOffsets ignores it
	Offset    int64  // the next one to read; -1: the group has committed none
	Metadata  string // what the consumer has added
	// Committed is when; SetGroupOffsets ignores it.
	Committed time.Time
}

// GroupLag is how far a group is behind the end of one partition.
type GroupLag struct {
	GroupOffset
	Start, End int64 // offsets in [Start, End) can be read
	// Lag is End without Offset; where none was committed, without Start.
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
		after = answer.GetNext()
	}
	return all, nil
}

// DescribeGroup returns a consumer group with its members. One that is not there is ErrPrecondition.
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
		after = answer.GetNext()
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

// GroupOffsets returns what a consumer group has committed, by topic and partition, in the topics that the caller may
// observe, or all partitions of some topics, up to 100, with committed offsets or without.
func (a *Admin) GroupOffsets(ctx context.Context, group string, topics ...string) (all []GroupOffset, err error) {
	q := &strandlinev1.ListGroupOffsetsRequest{Group: group, Topics: topics}
	for more := true; more; {
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
		more = answer.GetMore()
	}
	return all, nil
}

// lagsAtOnce is how many logs are asked at a time where they end.
const lagsAtOnce = 16

// GroupLag returns how far a consumer group is behind the ends of what it has committed, or of all partitions of some
// topics.
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

// forEach calls f for 0 to n-1, so many at a time.
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

// OffsetAt returns the offset of the first record of a log that was appended at or after a time, by the leader's clock,
// or where there is none the end.
func (a *Admin) OffsetAt(ctx context.Context, log string, t time.Time) (int64, error) {
	info, err := a.Info(ctx, log) // before the read: what is appended meanwhile lies behind
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

// offsetsAtOnce is how many offsets go into one call.
const offsetsAtOnce = 1_000

// SetGroupOffsets commits offsets for a consumer group, in calls of up to 1,000, each of which is done or not done as a
// whole; after an error later ones are not made. While the group has members it is refused with ErrPrecondition. A group
// that is not there is made. Calls are made once: with an error whose Outcome is MaybeDone, look what GroupOffsets returns.
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

// EvictMembers takes the member with an id, or of an instance, out of a consumer group, or with "" all, and returns how
// many there were. Clients join again unless something keeps them from it.
func (a *Admin) EvictMembers(ctx context.Context, group, member string) (evicted int, err error) {
	answer, err := groupCall(ctx, a, once, strandlinev1.GroupServiceClient.EvictMembers, &strandlinev1.EvictMembersRequest{Group: group, Member: member})
	return int(answer.GetEvicted()), err
}

// DeleteGroup deletes a consumer group with what it has committed. While it has members that is refused with
// ErrPrecondition, as it is for one that is not there.
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
