package coordinator

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// describe returns what a group is, with its members or without.
func describe(c *Coordinator, q *backend.Call, id string) (d group.Description, term uint64, err error) {
	d.State = group.Dead
	term, err = c.with(q.Ctx, id, func(g *group.Group, _ int64) {
		if g != nil {
			d = g.Describe()
		}
	})
	// Offsets may be waited for, by nobody who holds the groups up.
	if err == nil && len(d.Members) == 0 {
		if committed := c.offsets.of(id); committed != nil {
			d.State, d.ProtocolType = group.Empty, committed.kind
		}
	}
	return d, term, err
}

// describeFor is describe for a call that needs a right on the group.
func describeFor(c *Coordinator, q *backend.Call, verb string, need access.Rights, id string) (group.Description, uint64, error) {
	if err := q.MayGroup(verb, need, id); err != nil {
		return group.Description{State: group.Dead}, 0, err
	}
	return describe(c, q, id)
}

// DescribeGroups describes groups with their members.
func DescribeGroups(c *Coordinator, q *backend.Call, m *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	r := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range m.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		d, _, err := describeFor(c, q, "observe", access.Observe, id)
		out.Group, out.ErrorCode, out.State, out.ProtocolType, out.Protocol = id, protocol.CodeOf(err), string(d.State), d.ProtocolType, d.Protocol
		out.AuthorizedOperations = protocol.NoOperations
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
	// Without a log of offsets nobody coordinates, and there is no group.
	if _, err := c.ready(q.Ctx); err != nil {
		if err != kerr.NotCoordinator {
			r.ErrorCode = protocol.CodeOf(err)
		}
		return r // somebody else has them all
	}
	for _, id := range visible(c, q) {
		d, _, err := describe(c, q, id)
		if err != nil || d.State == group.Dead || !passes(m.StatesFilter, string(d.State)) || !passes(m.TypesFilter, groupType) {
			continue
		}
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType, out.GroupState, out.GroupType = id, d.ProtocolType, string(d.State), groupType
		r.Groups = append(r.Groups, out)
	}
	return r
}

// visible are the groups that the caller may observe, sorted. Who may observe none costs nothing.
func visible(c *Coordinator, q *backend.Call) []string {
	if !q.Node.HoldsSome(q.Caller, access.Observe, access.Group) {
		return nil
	}
	sees := func(id string) bool { return q.Node.Sees(q.Caller, access.Object{Kind: access.Group, Name: id}) }
	ids := c.offsets.names(sees)
	c.mu.Lock()
	inhabited := slices.Collect(maps.Keys(c.groups)) // some thousands at the most
	c.mu.Unlock()
	for _, id := range inhabited {
		if sees(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// groupType is that of all groups: members decide who gets what.
const groupType = "classic"

// passes reports whether a filter lets something through, as an empty one does.
func passes(filter []string, is string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(one string) bool { return strings.EqualFold(one, is) })
}

// DeleteGroups deletes groups without members, with their offsets.
func DeleteGroups(c *Coordinator, q *backend.Call, m *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	r := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range m.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		d, term, err := describeFor(c, q, "delete-group", access.Delete, id)
		refused := err
		switch {
		case err != nil:
		case d.State == group.Dead:
			err = kerr.GroupIDNotFound
		case len(d.Members) > 0:
			err = kerr.NonEmptyGroup
		default:
			err = coordinatorError(c.offsets.write(q.Ctx, term, offsetChange{
				Group: id, Time: time.Now().UnixMilli(), Delete: true,
			}))
		}
		if refused == nil {
			q.Node.Audit(q.Caller, "delete-group", access.Object{Kind: access.Group, Name: id}, err)
		}
		out.Group, out.ErrorCode = id, protocol.CodeOf(err)
		r.Groups = append(r.Groups, out)
	}
	return r
}
