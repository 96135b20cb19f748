package grpcserver

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/coordinator"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/rpc"
)

// Groups are the verbs of the coordinator of consumer groups, which checks rights and writes the
// audit log. See coordinator.Coordinator for their contracts.
type Groups interface {
	ListGroups(ctx context.Context, c verbs.Caller, after string) (some []coordinator.Listed, next string, err error)
	DescribeGroup(ctx context.Context, c verbs.Caller, group string) (coordinator.Described, error)
	ListGroupOffsets(ctx context.Context, c verbs.Caller, group string, topics []string) ([]coordinator.Offset, error)
	SetGroupOffsets(ctx context.Context, c verbs.Caller, group string, to []coordinator.Offset) error
	EvictMembers(ctx context.Context, c verbs.Caller, group, member string) (evicted int, err error)
	DeleteGroup(ctx context.Context, c verbs.Caller, group string) error
}

// RegisterGroups serves the groups of strandline.v1 on s.
func RegisterGroups(s *rpc.Server, g Groups) {
	strandlinev1.RegisterGroupServiceServer(s, &groupService{groups: g})
}

const (
	// maxMembers bounds the members of one answer, and maxAssigned the partitions that are named of each.
	maxMembers  = 100
	maxAssigned = 1_000
	// maxOffsets bounds the partitions of one answer, and maxMetadata about the bytes that consumers have added in it.
	maxOffsets  = 10_000
	maxMetadata = 1 << 20
)

type groupService struct {
	strandlinev1.UnimplementedGroupServiceServer
	groups Groups
}

func (s *groupService) ListGroups(ctx context.Context, q *strandlinev1.ListGroupsRequest) (*strandlinev1.ListGroupsResponse, error) {
	some, next, err := s.groups.ListGroups(ctx, guard.CallerOf(ctx), q.GetAfter())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := &strandlinev1.ListGroupsResponse{Next: next}
	for i := range some {
		out.Groups = append(out.Groups, encodeGroup(&some[i]))
	}
	return out, nil
}

func encodeGroup(l *coordinator.Listed) *strandlinev1.GroupInfo {
	return &strandlinev1.GroupInfo{Group: l.Name, State: l.State, ProtocolType: l.ProtocolType, Members: int32(l.Members), Principal: l.Principal}
}

func (s *groupService) DescribeGroup(ctx context.Context, q *strandlinev1.DescribeGroupRequest) (*strandlinev1.DescribeGroupResponse, error) {
	d, err := s.groups.DescribeGroup(ctx, guard.CallerOf(ctx), q.GetGroup())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := &strandlinev1.DescribeGroupResponse{Info: encodeGroup(&d.Listed), Protocol: d.Group.Protocol, Coordinator: d.Coordinator}
	for i := range d.Group.Members {
		m := &d.Group.Members[i]
		if m.ID <= q.GetAfter() {
			continue
		}
		if len(out.Members) == maxMembers {
			out.Next = out.Members[maxMembers-1].MemberId
			break
		}
		out.Members = append(out.Members, encodeMember(&d.Group, m))
	}
	return out, nil
}

func encodeMember(d *group.Description, m *group.MemberDescription) *strandlinev1.GroupMember {
	out := &strandlinev1.GroupMember{MemberId: m.ID, InstanceId: m.Instance, ClientId: m.ClientID, Host: m.Host, Principal: m.Principal}
	assigned, whole := d.Assigned(m, maxAssigned)
	for _, a := range assigned {
		out.Assigned = append(out.Assigned, &strandlinev1.AssignedTopic{Topic: a.Topic, Partitions: a.Partitions})
	}
	out.Truncated = !whole
	return out
}

func (s *groupService) ListGroupOffsets(ctx context.Context, q *strandlinev1.ListGroupOffsetsRequest) (*strandlinev1.ListGroupOffsetsResponse, error) {
	all, err := s.groups.ListGroupOffsets(ctx, guard.CallerOf(ctx), q.GetGroup(), slices.Clone(q.GetTopics()))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	if after := q.GetAfter(); after != nil {
		at, found := slices.BinarySearchFunc(all, coordinator.Offset{Topic: after.Topic, Partition: after.Partition}, coordinator.Offset.Compare)
		if found {
			at++
		}
		all = all[at:]
	}
	out, bytes := new(strandlinev1.ListGroupOffsetsResponse), 0
	for _, o := range all {
		if out.More = len(out.Offsets) == maxOffsets || bytes > maxMetadata; out.More {
			break
		}
		bytes += len(o.Metadata)
		one := &strandlinev1.GroupOffset{Topic: o.Topic, Partition: o.Partition, Log: o.Log, Metadata: o.Metadata}
		if o.Offset >= 0 {
			one.Offset, one.Committed = &o.Offset, timestamppb.New(time.UnixMilli(o.Committed))
		}
		out.Offsets = append(out.Offsets, one)
	}
	return out, nil
}

func (s *groupService) SetGroupOffsets(ctx context.Context, q *strandlinev1.SetGroupOffsetsRequest) (*strandlinev1.SetGroupOffsetsResponse, error) {
	to := make([]coordinator.Offset, 0, len(q.GetOffsets()))
	for _, o := range q.GetOffsets() {
		one := coordinator.Offset{Topic: o.GetTopic(), Partition: o.GetPartition(), Offset: -1, Metadata: o.GetMetadata()}
		if o.Offset != nil {
			one.Offset = *o.Offset
		}
		to = append(to, one)
	}
	if err := s.groups.SetGroupOffsets(ctx, guard.CallerOf(ctx), q.GetGroup(), to); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.SetGroupOffsetsResponse), nil
}

func (s *groupService) EvictMembers(ctx context.Context, q *strandlinev1.EvictMembersRequest) (*strandlinev1.EvictMembersResponse, error) {
	evicted, err := s.groups.EvictMembers(ctx, guard.CallerOf(ctx), q.GetGroup(), q.GetMember())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.EvictMembersResponse{Evicted: int32(evicted)}, nil
}

func (s *groupService) DeleteGroup(ctx context.Context, q *strandlinev1.DeleteGroupRequest) (*strandlinev1.DeleteGroupResponse, error) {
	if err := s.groups.DeleteGroup(ctx, guard.CallerOf(ctx), q.GetGroup()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.DeleteGroupResponse), nil
}
