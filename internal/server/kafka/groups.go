package kafkaserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// text is what an optional string says; nothing is empty.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

const coordinatesGroups, coordinatesTransactions = 0, 1

func (q *call) findCoordinator(m *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	r := kmsg.NewPtrFindCoordinatorResponse()
	keys := m.CoordinatorKeys
	if m.Version < 4 {
		keys = []string{m.CoordinatorKey}
	}
	found, refused := q.coordinator(m.CoordinatorType)
	var b broker
	var err error
	for _, key := range keys {
		if b, err = found, refused; err == nil {
			err = q.mayGroup("observe", access.Observe, key)
		}
		if err != nil {
			b = broker{id: noBroker, port: noBroker}
		}
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port = key, b.id, b.host, b.port
		c.ErrorCode, c.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Coordinators = append(r.Coordinators, c)
	}
	r.NodeID, r.Host, r.Port = b.id, b.host, b.port
	r.ErrorCode, r.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
	return r
}

// coordinator is the node that leads the log of the offsets. The log is made
// when it is asked for first.
func (q *call) coordinator(kind int8) (broker, error) {
	switch kind {
	case coordinatesGroups:
	case coordinatesTransactions:
		// The one code that every client takes for final.
		return broker{}, protocol.Refuse(kerr.TransactionalIDAuthorizationFailed, "there are no transactions here")
	default:
		return broker{}, protocol.Refuse(kerr.InvalidRequest, "only groups are coordinated here")
	}
	if err := q.connection.server.groups.found(q.connection.ctx); err != nil {
		return broker{}, protocol.Refuse(kerr.CoordinatorNotAvailable, err.Error())
	}
	brokers := q.brokers()
	l, err := q.connection.server.node.KnownInfo(backend.System, offsetsLog)
	if err != nil {
		l = node.Info{Name: offsetsLog}
	}
	leader := brokers.leader(&l)
	if b, ok := brokers.find(leader); ok {
		return b, nil
	}
	if leader != noBroker {
		return broker{}, protocol.Refuse(kerr.CoordinatorNotAvailable,
			fmt.Sprintf("node %d leads the log of consumer offsets, and is down or has no Kafka port for clients of other nodes", leader))
	}
	return broker{}, protocol.Refuse(kerr.CoordinatorNotAvailable, "the log of consumer offsets has no leader at the moment")
}

func (q *call) joinGroup(m *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	j := group.Join{
		MemberID: m.MemberID, Instance: text(m.InstanceID), ClientID: text(q.clientID), Host: q.host(),
		ProtocolType: m.ProtocolType, SessionMs: int64(m.SessionTimeoutMillis), RebalanceMs: int64(m.RebalanceTimeoutMillis),
		Invite: m.Version >= 4, NewID: text(q.clientID) + "-" + rand.Text(),
	}
	if m.Version == 0 {
		j.RebalanceMs = j.SessionMs
	}
	for i := range m.Protocols {
		// The request's memory is used again, the member's data stays.
		j.Protocols = append(j.Protocols, group.Protocol{Name: m.Protocols[i].Name, Metadata: slices.Clone(m.Protocols[i].Metadata)})
	}
	answers := make(chan group.Joined, 1)
	err := q.mayGroup("join-group", access.Read, m.Group)
	if err == nil {
		_, err = q.connection.server.groups.with(q.connection.ctx, m.Group, true, func(g *group.Group, now int64) {
			if q.connection.server.groups.memory.Full() && g.Grows(&j) {
				answers <- group.Joined{Err: kerr.GroupMaxSizeReached, MemberID: m.MemberID}
				return
			}
			g.Join(now, j, func(a group.Joined) { answers <- a })
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

// wait returns the answer of a group, or none's where the connection or the
// server ends first. That may take as long as a rebalance, in which members that
// wait must not use up what heartbeats of others need: the group has copies of
// what it keeps, so the request itself is released.
func wait[T any](q *call, answers <-chan T, none func(error) T) T {
	q.request = nil
	q.buffer.release()
	select {
	case a := <-answers:
		return a
	case <-q.connection.ctx.Done():
		return none(kerr.NotCoordinator)
	}
}

func (q *call) host() string {
	host, _, err := net.SplitHostPort(q.connection.conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return "/" + host
}

func (q *call) syncGroup(m *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	s := group.Sync{
		MemberID: m.MemberID, Instance: text(m.InstanceID), Generation: m.Generation,
		ProtocolType: text(m.ProtocolType), Protocol: text(m.Protocol), Shares: make(map[string][]byte, len(m.GroupAssignment)),
	}
	for _, a := range m.GroupAssignment {
		s.Shares[a.MemberID] = slices.Clone(a.MemberAssignment)
	}
	if len(s.Shares) > 0 && q.connection.server.groups.memory.Full() {
		r := kmsg.NewPtrSyncGroupResponse()
		r.ErrorCode, r.MemberAssignment = kerr.GroupMaxSizeReached.Code, []byte{}
		return r
	}
	answers := make(chan group.Synced, 1)
	err := q.mayGroup("join-group", access.Read, m.Group)
	if err == nil {
		_, err = q.connection.server.groups.with(q.connection.ctx, m.Group, false, func(g *group.Group, now int64) {
			if g == nil {
				answers <- group.Synced{Err: kerr.UnknownMemberID}
				return
			}
			g.Sync(now, s, func(a group.Synced) { answers <- a })
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

// inGroup calls f with a group that is there. The error is f's, or that there
// is no such member because there is no such group.
func (q *call) inGroup(id string, f func(g *group.Group, now int64) error) error {
	if err := q.mayGroup("join-group", access.Read, id); err != nil {
		return err
	}
	var result error
	_, err := q.connection.server.groups.with(q.connection.ctx, id, false, func(g *group.Group, now int64) {
		if result = error(kerr.UnknownMemberID); g != nil {
			result = f(g, now)
		}
	})
	if err != nil {
		return err
	}
	return result
}

func (q *call) heartbeat(m *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	r := kmsg.NewPtrHeartbeatResponse()
	r.ErrorCode = protocol.CodeOf(q.inGroup(m.Group, func(g *group.Group, now int64) error {
		return g.Heartbeat(now, m.MemberID, text(m.InstanceID), m.Generation)
	}))
	return r
}

// consumerGroupHeartbeat refuses the newer group protocol. It is announced all the
// same: librdkafka, told to use that protocol, waits without a word for a broker that
// has version 1 of it. Java's client and librdkafka take this error for
// final; franz-go goes back to the classic protocol.
func (q *call) consumerGroupHeartbeat(*kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	r.ErrorCode = kerr.UnsupportedVersion.Code
	r.ErrorMessage = new("the newer group protocol is not served here: set group.protocol=classic")
	return r
}

func (q *call) leaveGroup(m *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	r := kmsg.NewPtrLeaveGroupResponse()
	leaving := m.Members
	if m.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = m.MemberID
		leaving = append(leaving, one)
	}
	for _, l := range leaving {
		err := q.inGroup(m.Group, func(g *group.Group, now int64) error { return g.Leave(now, l.MemberID, text(l.InstanceID)) })
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = l.MemberID, l.InstanceID, protocol.CodeOf(err)
		r.Members = append(r.Members, out)
		if m.Version < 3 || errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorNotAvailable) {
			r.ErrorCode = out.ErrorCode
		}
	}
	return r
}

func (q *call) offsetCommit(m *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	r := kmsg.NewPtrOffsetCommitResponse()
	change := offsetChange{Group: m.Group, Time: time.Now().UnixMilli()}
	codes := map[partition]int16{}
	for i := range m.Topics {
		t, unknown := q.topicFor("commit-offset", access.Read, m.Topics[i].Topic)
		for _, p := range m.Topics[i].Partitions {
			at := partition{m.Topics[i].Topic, p.Partition}
			err := unknown
			if err == nil {
				err = checkCommit(&t, &p)
			}
			if codes[at] = protocol.CodeOf(err); err == nil {
				change.Commits = append(change.Commits, offsetCommit{
					Topic: at.topic, Partition: at.number, committed: committed{
						Offset: p.Offset, Log: t.Partitions[p.Partition].ID, Epoch: p.LeaderEpoch, Metadata: text(p.Metadata),
					},
				})
			}
		}
	}
	failed := protocol.CodeOf(q.commit(m, change))
	for i := range m.Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic = m.Topics[i].Topic
		for _, p := range m.Topics[i].Partitions {
			out := kmsg.NewOffsetCommitResponseTopicPartition()
			out.Partition, out.ErrorCode = p.Partition, codes[partition{t.Topic, p.Partition}]
			if failed != 0 {
				out.ErrorCode = failed
			}
			t.Partitions = append(t.Partitions, out)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func checkCommit(t *node.Topic, p *kmsg.OffsetCommitRequestTopicPartition) error {
	switch {
	case p.Partition < 0 || int(p.Partition) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition
	case len(text(p.Metadata)) > maxCommitMetadata:
		return kerr.OffsetMetadataTooLarge
	}
	return nil
}

func (q *call) commit(m *kmsg.OffsetCommitRequest, change offsetChange) error {
	if err := q.mayGroup("commit-offset", access.Read, m.Group); err != nil {
		return err
	}
	s := q.connection.server
	var refused error
	term, err := s.groups.with(q.connection.ctx, m.Group, false, func(g *group.Group, now int64) {
		if g == nil {
			g = group.New()
		}
		refused = g.MayCommit(now, m.MemberID, text(m.InstanceID), m.Generation)
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case len(change.Commits) == 0:
		return nil
	}
	return coordinatorError(s.groups.offsets.write(q.connection.ctx, term, change))
}

// coordinatorError tells a client of a log that cannot be written that it has
// to look for the coordinator, which is who leads that log.
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

func (q *call) offsetFetch(m *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	r := kmsg.NewPtrOffsetFetchResponse()
	if m.Version >= 8 {
		for i := range m.Groups {
			r.Groups = append(r.Groups, q.fetchOffsets(m.Groups[i].Group, m.Groups[i].Topics))
		}
		return r
	}
	asked := make([]kmsg.OffsetFetchRequestGroupTopic, len(m.Topics))
	for i := range m.Topics {
		asked[i].Topic, asked[i].Partitions = m.Topics[i].Topic, m.Topics[i].Partitions
	}
	if m.Topics == nil {
		asked = nil
	}
	g := q.fetchOffsets(m.Group, asked)
	r.ErrorCode = g.ErrorCode
	for _, t := range g.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			of := kmsg.NewOffsetFetchResponseTopicPartition()
			of.Partition, of.Offset, of.LeaderEpoch, of.Metadata, of.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			if m.Version < 2 && g.ErrorCode != 0 {
				of.ErrorCode = g.ErrorCode
			}
			out.Partitions = append(out.Partitions, of)
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

// allOf asks for all that is known.
func allOf(known map[partition]committed) []kmsg.OffsetFetchRequestGroupTopic {
	byTopic := map[string][]int32{}
	for p := range known {
		byTopic[p.topic] = append(byTopic[p.topic], p.number)
	}
	var asked []kmsg.OffsetFetchRequestGroupTopic
	for topic, partitions := range byTopic {
		asked = append(asked, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, Partitions: partitions})
	}
	return asked
}

// fetchOffsets returns what a group has committed, of the partitions asked for or
// (nil) of all.
func (q *call) fetchOffsets(id string, asked []kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroup {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group = id
	s := q.connection.server
	var term uint64
	err := q.mayGroup("observe", access.Observe, id)
	if err == nil {
		term, err = s.groups.with(q.connection.ctx, id, false, func(*group.Group, int64) {})
	}
	if err == nil {
		err = s.groups.confirm(q.connection.ctx, term)
	}
	r.ErrorCode = protocol.CodeOf(err)
	known := map[partition]committed{}
	if err == nil {
		if g := s.groups.offsets.of(id); g != nil {
			known = g.offsets
		}
	}
	if asked == nil {
		maps.DeleteFunc(known, func(p partition, c committed) bool {
			return s.deleted(offsetOf{p.topic, p.number, c.Log}) || !s.node.Sees(q.connection.caller(), access.OfLog(p.topic))
		})
		asked = allOf(known)
	}
	for i := range asked {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic = asked[i].Topic
		denied := err == nil && !s.node.Sees(q.connection.caller(), access.OfLog(t.Topic))
		for _, number := range asked[i].Partitions {
			out := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			if denied {
				out.ErrorCode = kerr.TopicAuthorizationFailed.Code
			}
			out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = number, -1, -1, new("")
			if c, ok := known[partition{t.Topic, number}]; ok && !denied && !s.deleted(offsetOf{t.Topic, number, c.Log}) {
				out.Offset, out.LeaderEpoch, out.Metadata = c.Offset, c.Epoch, &c.Metadata
			}
			t.Partitions = append(t.Partitions, out)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}
