package kafkaserver

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// describe returns what a group is, with its members or without.
func (q *call) describe(id string) (d group.Description, term uint64, err error) {
	d.State = group.Dead
	s := q.connection.server
	term, err = s.groups.with(q.connection.ctx, id, false, func(g *group.Group, _ int64) {
		if g != nil {
			d = g.Describe()
		}
	})
	// Offsets may be waited for, by nobody who holds the groups up.
	if err == nil && len(d.Members) == 0 {
		if committed := s.groups.offsets.of(id); committed != nil {
			d.State, d.ProtocolType = group.Empty, committed.kind
		}
	}
	return d, term, err
}

// describeFor is describe for a call that needs a right on the group.
func (q *call) describeFor(verb string, need access.Rights, id string) (group.Description, uint64, error) {
	if err := q.mayGroup(verb, need, id); err != nil {
		return group.Description{State: group.Dead}, 0, err
	}
	return q.describe(id)
}

func (q *call) describeGroups(m *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	r := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range m.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		d, _, err := q.describeFor("observe", access.Observe, id)
		out.Group, out.ErrorCode, out.State, out.ProtocolType, out.Protocol = id, protocol.CodeOf(err), string(d.State), d.ProtocolType, d.Protocol
		out.AuthorizedOperations = noOperations
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

func (q *call) listGroups(m *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	r := kmsg.NewPtrListGroupsResponse()
	c := q.connection.server.groups
	if err := c.found(q.connection.ctx); err != nil {
		r.ErrorCode = protocol.CodeOf(err)
		return r
	}
	if _, err := c.ready(q.connection.ctx); err != nil {
		if err != kerr.NotCoordinator {
			r.ErrorCode = protocol.CodeOf(err)
		}
		return r // somebody else has them all
	}
	ids := c.offsets.names()
	c.mu.Lock()
	for id := range c.groups {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		d, _, err := q.describe(id)
		if err != nil || !q.connection.server.node.Sees(q.connection.caller(), access.Object{Kind: access.Group, Name: id}) || d.State == group.Dead || !passes(m.StatesFilter, string(d.State)) || !passes(m.TypesFilter, groupType) {
			continue
		}
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType, out.GroupState, out.GroupType = id, d.ProtocolType, string(d.State), groupType
		r.Groups = append(r.Groups, out)
	}
	return r
}

// groupType is that of all groups: members decide who gets what.
const groupType = "classic"

// passes reports whether a filter lets something through, as an empty one does.
func passes(filter []string, is string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(one string) bool { return strings.EqualFold(one, is) })
}

// offsetDelete forgets offsets of partitions that no member of the group reads.
func (q *call) offsetDelete(m *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	r := kmsg.NewPtrOffsetDeleteResponse()
	d, term, err := q.describeFor("delete-offsets", access.Delete, m.Group)
	subscribed, readable := d.Subscribed()
	switch {
	case err != nil:
	case d.State == group.Dead:
		err = kerr.GroupIDNotFound
	case !readable:
		err = kerr.NonEmptyGroup
	}
	change := offsetChange{Group: m.Group, Time: time.Now().UnixMilli()}
	for i := range m.Topics {
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = m.Topics[i].Topic
		for _, p := range m.Topics[i].Partitions {
			one := kmsg.NewOffsetDeleteResponseTopicPartition()
			if one.Partition = p.Partition; slices.Contains(subscribed, out.Topic) {
				one.ErrorCode = kerr.GroupSubscribedToTopic.Code
			} else {
				change.Remove = append(change.Remove, offsetOf{Topic: out.Topic, Partition: p.Partition})
			}
			out.Partitions = append(out.Partitions, one)
		}
		r.Topics = append(r.Topics, out)
	}
	if err == nil && len(change.Remove) > 0 {
		err = coordinatorError(q.connection.server.groups.offsets.write(q.connection.ctx, term, change))
	}
	if err == nil {
		q.connection.server.node.Audit(q.connection.caller(), "delete-offsets", access.Object{Kind: access.Group, Name: m.Group}, nil)
	}
	if r.ErrorCode = protocol.CodeOf(err); err != nil {
		r.Topics = nil
	}
	return r
}

func (q *call) deleteGroups(m *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	r := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range m.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		d, term, err := q.describeFor("delete-group", access.Delete, id)
		refused := err
		switch {
		case err != nil:
		case d.State == group.Dead:
			err = kerr.GroupIDNotFound
		case len(d.Members) > 0:
			err = kerr.NonEmptyGroup
		default:
			err = coordinatorError(q.connection.server.groups.offsets.write(q.connection.ctx, term, offsetChange{
				Group: id, Time: time.Now().UnixMilli(), Delete: true,
			}))
		}
		if refused == nil {
			q.connection.server.node.Audit(q.connection.caller(), "delete-group", access.Object{Kind: access.Group, Name: id}, err)
		}
		out.Group, out.ErrorCode = id, protocol.CodeOf(err)
		r.Groups = append(r.Groups, out)
	}
	return r
}
