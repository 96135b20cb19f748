package coordinator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// The kinds of coordinators in a FindCoordinator request.
const CoordinatesGroups, CoordinatesTransactions = 0, 1

// FindCoordinator returns the node that coordinates groups.
func FindCoordinator(c *Coordinator, q *backend.Call, m *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	r := kmsg.NewPtrFindCoordinatorResponse()
	keys := m.CoordinatorKeys
	if m.Version < 4 {
		keys = []string{m.CoordinatorKey}
	}
	// It is found once, for the first key that the client may observe: that may create a log.
	find := sync.OnceValues(func() (backend.Broker, error) { return find(c, q, m.CoordinatorType) })
	var b backend.Broker
	var err error
	for _, key := range keys {
		if err = q.May(guard.ObserveGroup, key); err == nil || m.CoordinatorType != CoordinatesGroups {
			b, err = find()
		}
		if err != nil {
			b = backend.Broker{ID: backend.NoBroker, Port: backend.NoBroker}
		}
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port = key, b.ID, b.Host, b.Port
		c.ErrorCode, c.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Coordinators = append(r.Coordinators, c)
	}
	r.NodeID, r.Host, r.Port = b.ID, b.Host, b.Port
	r.ErrorCode, r.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
	return r
}

// find returns the node that leads the log of the offsets. The log is created
// when it is asked for first.
func find(c *Coordinator, q *backend.Call, kind int8) (backend.Broker, error) {
	switch kind {
	case CoordinatesGroups:
	case CoordinatesTransactions:
		// Every client treats this code as final.
		return backend.Broker{}, protocol.Refuse(kerr.TransactionalIDAuthorizationFailed, "transactions are not supported")
	default:
		return backend.Broker{}, protocol.Refuse(kerr.InvalidRequest, "only consumer groups have a coordinator")
	}
	if err := c.found(q.Ctx); err != nil {
		return backend.Broker{}, protocol.Refuse(kerr.CoordinatorNotAvailable, err.Error())
	}
	brokers := q.Brokers()
	l, err := q.Node.KnownInfo(backend.System, backend.OffsetsLog)
	if err != nil {
		l = verbs.Info{Name: backend.OffsetsLog}
	}
	leader := brokers.Leader(&l)
	if b, ok := brokers.Find(leader); ok {
		return b, nil
	}
	if leader != backend.NoBroker {
		return backend.Broker{}, protocol.Refuse(kerr.CoordinatorNotAvailable,
			fmt.Sprintf("node %d leads the log of consumer offsets, and is down or has no Kafka port for clients of other nodes", leader))
	}
	return backend.Broker{}, protocol.Refuse(kerr.CoordinatorNotAvailable, "the log of consumer offsets has no leader at the moment")
}

// JoinGroup makes a client a member of a group, and waits for the others.
func JoinGroup(c *Coordinator, q *backend.Call, m *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	j := group.Join{
		MemberID: m.MemberID, Instance: protocol.Text(m.InstanceID), ClientID: q.Client, Host: host(q.Remote), Principal: q.Principal(),
		ProtocolType: m.ProtocolType, SessionMs: int64(m.SessionTimeoutMillis), RebalanceMs: int64(m.RebalanceTimeoutMillis),
		Invite: m.Version >= 4, NewID: q.Client + "-" + rand.Text(),
	}
	if m.Version == 0 {
		j.RebalanceMs = j.SessionMs
	}
	for i := range m.Protocols {
		// The request's memory is used again, the member's data stays.
		j.Protocols = append(j.Protocols, group.Protocol{Name: m.Protocols[i].Name, Metadata: slices.Clone(m.Protocols[i].Metadata)})
	}
	answers := make(chan group.Joined, 1)
	err := q.May(guard.JoinGroup, m.Group)
	if err == nil {
		_, err = c.enter(q.Ctx, m.Group, &by{j.Principal}, func(g *group.Group, now int64) {
			if more := g.Grows(&j); more > 0 && c.crowds(g, j.Principal, more) {
				answers <- group.Joined{Err: kerr.GroupMaxSizeReached, MemberID: m.MemberID}
				return
			}
			c.counting(j.Principal, g, func() { g.Join(now, j, func(a group.Joined) { answers <- a }) })
		})
	}
	a := group.Joined{Err: err, MemberID: m.MemberID}
	if err == nil {
		a = wait(q, answers, func(err error) group.Joined { return group.Joined{Err: err, MemberID: j.MemberID} })
	}
	r := kmsg.NewPtrJoinGroupResponse()
	r.ErrorCode, r.Generation, r.LeaderID, r.MemberID = protocol.CodeOf(a.Err), a.Generation, a.Leader, a.MemberID
	r.Protocol = &a.Protocol
	if a.Err != nil {
		r.Generation = -1
		return r
	}
	r.ProtocolType = &a.ProtocolType
	for _, c := range a.Members {
		out := kmsg.NewJoinGroupResponseMember()
		out.MemberID, out.ProtocolMetadata = c.ID, c.Metadata
		if c.Instance != "" {
			out.InstanceID = &c.Instance
		}
		r.Members = append(r.Members, out)
	}
	return r
}

// wait returns the answer of a group, or none's if the connection or the server ends first. It may
// wait as long as a rebalance, and members that wait must not use memory that heartbeats of others
// need: the group has copies of the data that it keeps, so the request itself is released.
func wait[T any](q *backend.Call, answers <-chan T, none func(error) T) T {
	q.Release()
	select {
	case a := <-answers:
		return a
	case <-q.Ctx.Done():
		return none(kerr.NotCoordinator)
	}
}

// host is the address of a client as Kafka shows it.
func host(remote net.Addr) string {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return ""
	}
	return "/" + host
}

// SyncGroup receives the assignment of partitions from the group's leader, and returns the member's
// part.
func SyncGroup(c *Coordinator, q *backend.Call, m *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	s := group.Sync{
		MemberID: m.MemberID, Instance: protocol.Text(m.InstanceID), Generation: m.Generation,
		ProtocolType: protocol.Text(m.ProtocolType), Protocol: protocol.Text(m.Protocol), Shares: make(map[string][]byte, len(m.GroupAssignment)),
	}
	for _, a := range m.GroupAssignment {
		s.Shares[a.MemberID] = slices.Clone(a.MemberAssignment)
	}
	answers := make(chan group.Synced, 1)
	err := q.May(guard.JoinGroup, m.Group)
	if err == nil {
		_, err = c.with(q.Ctx, m.Group, func(g *group.Group, now int64) {
			if g == nil {
				answers <- group.Synced{Err: kerr.UnknownMemberID}
				return
			}
			if more := g.Receives(&s); more > 0 && c.crowds(g, q.Principal(), more) {
				answers <- group.Synced{Err: kerr.GroupMaxSizeReached}
				return
			}
			c.counting(q.Principal(), g, func() { g.Sync(now, s, func(a group.Synced) { answers <- a }) })
		})
	}
	a := group.Synced{Err: err}
	if err == nil {
		a = wait(q, answers, func(err error) group.Synced { return group.Synced{Err: err} })
	}
	r := kmsg.NewPtrSyncGroupResponse()
	r.ErrorCode, r.MemberAssignment = protocol.CodeOf(a.Err), a.Share
	if a.Err == nil {
		r.ProtocolType, r.Protocol = &a.ProtocolType, &a.Protocol
	}
	if r.MemberAssignment == nil {
		r.MemberAssignment = []byte{}
	}
	return r
}

// inGroup calls f with an existing group. It returns f's error, or an unknown-member error if the
// group does not exist.
func inGroup(c *Coordinator, q *backend.Call, id string, f func(g *group.Group, now int64) error) error {
	if err := q.May(guard.JoinGroup, id); err != nil {
		return err
	}
	var result error
	_, err := c.with(q.Ctx, id, func(g *group.Group, now int64) {
		if result = error(kerr.UnknownMemberID); g != nil {
			result = f(g, now)
		}
	})
	if err != nil {
		return err
	}
	return result
}

// Heartbeat keeps a member's session alive.
func Heartbeat(c *Coordinator, q *backend.Call, m *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	r := kmsg.NewPtrHeartbeatResponse()
	r.ErrorCode = protocol.CodeOf(inGroup(c, q, m.Group, func(g *group.Group, now int64) error {
		return g.Heartbeat(now, m.MemberID, protocol.Text(m.InstanceID), m.Generation)
	}))
	return r
}

// LeaveGroup ends memberships.
func LeaveGroup(c *Coordinator, q *backend.Call, m *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	r := kmsg.NewPtrLeaveGroupResponse()
	leaving := m.Members
	if m.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = m.MemberID
		leaving = append(leaving, one)
	}
	for _, l := range leaving {
		err := inGroup(c, q, m.Group, func(g *group.Group, now int64) error { return g.Leave(now, l.MemberID, protocol.Text(l.InstanceID)) })
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = l.MemberID, l.InstanceID, protocol.CodeOf(err)
		r.Members = append(r.Members, out)
		if m.Version < 3 || errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorNotAvailable) {
			r.ErrorCode = out.ErrorCode
		}
	}
	return r
}

// coordinatorError converts the error of a log that cannot be written into one that
// makes the client look for the coordinator, which is the leader of that log.
func coordinatorError(err error) error {
	var r *record.Refusal
	switch {
	case !errors.As(err, &r):
		return err
	case r.Reason == record.NotLeader || r.Reason == record.ShuttingDown:
		return kerr.NotCoordinator
	case r.Reason.Retryable():
		return kerr.CoordinatorNotAvailable
	}
	return err
}
