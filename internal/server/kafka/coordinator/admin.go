package coordinator

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// DescribeGroups describes groups with their members.
func DescribeGroups(c *Coordinator, q *backend.Call, m *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	r := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range m.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		d, _, err := c.describeFor(q.Ctx, q.Caller, guard.ObserveGroup, id)
		if m.Version >= 6 && err == nil && d.State == group.Dead {
			err = protocol.Refuse(kerr.GroupIDNotFound, "there is no group with this name")
		}
		out.Group, out.ErrorCode, out.State, out.ProtocolType, out.Protocol = id, codeOf(id, err), string(d.State), d.ProtocolType, d.Protocol
		out.AuthorizedOperations, out.ErrorMessage = protocol.NoOperations, protocol.DetailOf(err)
		for _, member := range d.Members {
			one := kmsg.NewDescribeGroupsResponseGroupMember()
			one.MemberID, one.ClientID, one.ClientHost = member.ID, member.ClientID, member.Host
			one.ProtocolMetadata, one.MemberAssignment = notNil(member.Metadata), notNil(member.Share)
			if member.Instance != "" {
				one.InstanceID = &member.Instance
			}
			out.Members = append(out.Members, one)
		}
		r.Groups = append(r.Groups, out)
	}
	return r
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// ListGroups lists the groups that this node coordinates.
func ListGroups(c *Coordinator, q *backend.Call, m *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	r := kmsg.NewPtrListGroupsResponse()
	_ = q.Node.PaceList(q.Ctx, q.Caller) // clients fail at any code for it: whoever has waited gets the list
	// Without a log of offsets there is no coordinator and no group.
	if _, err := c.ready(q.Ctx); err != nil {
		if err != kerr.NotCoordinator {
			r.ErrorCode = protocol.CodeOf(err)
		}
		return r // another node coordinates all groups
	}
	visible, _ := c.visible(q.Caller, "", 0)
	for _, id := range visible {
		d, _, err := c.describe(q.Ctx, id)
		if err != nil || d.State == group.Dead || !passes(m.StatesFilter, string(d.State)) || !passes(m.TypesFilter, groupType) {
			continue
		}
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType, out.GroupState, out.GroupType = id, d.ProtocolType, string(d.State), groupType
		r.Groups = append(r.Groups, out)
	}
	return r
}

// groupType is the type of every group: the members decide the assignment.
const groupType = "classic"

// passes reports whether a filter accepts a value; an empty filter accepts every value.
func passes(filter []string, is string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(one string) bool { return strings.EqualFold(one, is) })
}

// DeleteGroups deletes groups without members, with their offsets.
func DeleteGroups(c *Coordinator, q *backend.Call, m *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	r := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range m.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = id, codeOf(id, coordinatorError(c.remove(q.Ctx, q.Caller, id)))
		r.Groups = append(r.Groups, out)
	}
	return r
}
