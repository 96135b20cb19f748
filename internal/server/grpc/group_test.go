package grpcserver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/kafka/coordinator"
	"strandline.dev/internal/server/kafka/group"
)

// fakeGroups has one group.
type fakeGroups struct {
	Groups
	offsets []coordinator.Offset
	group   coordinator.Described
}

func (f fakeGroups) ListGroupOffsets(context.Context, verbs.Caller, string, []string) ([]coordinator.Offset, error) {
	return f.offsets, nil
}

func (f fakeGroups) DescribeGroup(context.Context, verbs.Caller, string) (coordinator.Described, error) {
	return f.group, nil
}

func TestWhatIsKnownOfAGroupComesInAnswersOfALimitedSize(t *testing.T) {
	t.Parallel()
	var f fakeGroups
	for p := range maxOffsets + 1 {
		f.offsets = append(f.offsets, coordinator.Offset{Topic: "orders", Partition: int32(p), Offset: int64(p%2) - 1})
	}
	for i := range maxMembers + 1 {
		f.group.Group.Members = append(f.group.Group.Members, group.MemberDescription{ID: fmt.Sprintf("%04d", i)})
	}
	s := &groupService{groups: f}
	first, err := s.ListGroupOffsets(t.Context(), &strandlinev1.ListGroupOffsetsRequest{})
	require.NoError(t, err)
	require.Len(t, first.Offsets, maxOffsets)
	require.True(t, first.More)
	require.Nil(t, first.Offsets[0].Offset, "none was committed")
	require.Equal(t, int64(0), first.Offsets[1].GetOffset())
	last := first.Offsets[maxOffsets-1]
	rest, err := s.ListGroupOffsets(t.Context(), &strandlinev1.ListGroupOffsetsRequest{After: &strandlinev1.GroupPartition{Topic: last.Topic, Partition: last.Partition}})
	require.NoError(t, err)
	require.Len(t, rest.Offsets, 1)
	require.False(t, rest.More)

	f.offsets = []coordinator.Offset{{Topic: "a", Metadata: strings.Repeat("x", maxMetadata+1)}, {Topic: "b"}}
	large, err := (&groupService{groups: f}).ListGroupOffsets(t.Context(), &strandlinev1.ListGroupOffsetsRequest{})
	require.NoError(t, err)
	require.Len(t, large.Offsets, 1)
	require.True(t, large.More)

	members, err := s.DescribeGroup(t.Context(), &strandlinev1.DescribeGroupRequest{})
	require.NoError(t, err)
	require.Len(t, members.Members, maxMembers)
	others, err := s.DescribeGroup(t.Context(), &strandlinev1.DescribeGroupRequest{After: members.Next})
	require.NoError(t, err)
	require.Len(t, others.Members, 1)
	require.Empty(t, others.Next)
}
