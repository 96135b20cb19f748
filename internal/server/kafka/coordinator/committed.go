package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// OffsetCommit makes offsets of a group durable.
func OffsetCommit(c *Coordinator, q *backend.Call, m *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	r := kmsg.NewPtrOffsetCommitResponse()
	change := offsetChange{Group: m.Group, Time: time.Now().UnixMilli(), By: q.Principal()}
	codes := make([][]int16, len(m.Topics))
	byID := backend.WithID(q)
	for i := range m.Topics {
		asked := &m.Topics[i]
		t, unknown := committable(q, asked, m.Version >= 10, byID)
		codes[i] = make([]int16, len(asked.Partitions))
		for j, p := range asked.Partitions {
			err := unknown
			if err == nil {
				err = checkCommit(&t, p.Partition, protocol.Text(p.Metadata))
			}
			if codes[i][j] = protocol.CodeOf(err); err == nil {
				change.Commits = append(change.Commits, offsetCommit{
					Topic: t.Name, Partition: p.Partition, committed: committed{
						Offset: p.Offset, Log: t.Partitions[p.Partition].ID, Epoch: p.LeaderEpoch, Metadata: protocol.Text(p.Metadata),
					},
				})
			}
		}
	}
	s := speaker{m.MemberID, protocol.Text(m.InstanceID), m.Generation}
	failed := codeOf(m.Group, coordinatorError(c.commit(q.Ctx, q.Caller, guard.CommitOffset, s, change)))
	for i := range m.Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = m.Topics[i].Topic, m.Topics[i].TopicID
		for j, p := range m.Topics[i].Partitions {
			out := kmsg.NewOffsetCommitResponseTopicPartition()
			out.Partition, out.ErrorCode = p.Partition, codes[i][j]
			if failed != 0 {
				out.ErrorCode = failed
			}
			t.Partitions = append(t.Partitions, out)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// committable finds a topic whose offsets the client may commit.
func committable(q *backend.Call, asked *kmsg.OffsetCommitRequestTopic, named bool, byID func(backend.TopicID) (backend.ByID, error)) (verbs.Topic, error) {
	if !named {
		return q.TopicFor(guard.CommitTopicOffsets, asked.Topic)
	}
	found, err := byID(asked.TopicID)
	if err != nil {
		return verbs.Topic{}, err
	}
	t, err := q.TopicFor(guard.CommitTopicOffsets, found.Topic)
	if err == nil && backend.IDOf(q.Node, &t.Partitions[0]) != asked.TopicID {
		err = backend.ErrNoTopicID
	}
	return t, backend.Replaced(err)
}

// OffsetFetch returns the committed offsets of groups.
func OffsetFetch(c *Coordinator, q *backend.Call, m *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	r := kmsg.NewPtrOffsetFetchResponse()
	if m.Version >= 8 {
		f := fetchOffsets
		if m.Version >= 10 {
			f = fetchOffsetsByID
		}
		for i := range m.Groups {
			r.Groups = append(r.Groups, f(c, q, m.Groups[i].Group, m.Groups[i].Topics))
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
	g := fetchOffsets(c, q, m.Group, asked)
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
func fetchOffsets(c *Coordinator, q *backend.Call, id string, asked []kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroup {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group = id
	known, err := c.committedBy(q.Ctx, q.Caller, id)
	r.ErrorCode = codeOf(id, err)
	if asked == nil {
		maps.DeleteFunc(known, func(p partition, of committed) bool {
			return c.deleted(offsetOf{p.topic, p.number, of.Log}) || !q.Node.Sees(q.Caller, access.OfLog(p.topic))
		})
		asked = allOf(known)
	}
	for i := range asked {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic = asked[i].Topic
		denied := err == nil && !q.Node.Sees(q.Caller, access.OfLog(t.Topic))
		for _, number := range asked[i].Partitions {
			out := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			if denied {
				out.ErrorCode = kerr.TopicAuthorizationFailed.Code
			}
			out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = number, -1, -1, new("")
			if of, ok := known[partition{t.Topic, number}]; ok && !denied && !c.deleted(offsetOf{t.Topic, number, of.Log}) {
				out.Offset, out.LeaderEpoch, out.Metadata = of.Offset, of.Epoch, &of.Metadata
			}
			t.Partitions = append(t.Partitions, out)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// fetchOffsetsByID is fetchOffsets for topics that are named by their ids. Offsets of a topic that
// was deleted have none.
func fetchOffsetsByID(c *Coordinator, q *backend.Call, group string, asked []kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroup {
	if asked == nil {
		r := fetchOffsets(c, q, group, nil)
		r.Topics = slices.DeleteFunc(r.Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool {
			_, err := q.Node.KnownInfo(backend.System, t.Topic)
			return err != nil
		})
		for i := range r.Topics {
			if l, err := q.Node.KnownInfo(backend.System, r.Topics[i].Topic); err == nil {
				r.Topics[i].TopicID = backend.IDOf(q.Node, &l)
			}
		}
		return r
	}
	byID := backend.WithID(q)
	found := make([]backend.ByID, len(asked))
	errs := make([]error, len(asked))
	named := make([]kmsg.OffsetFetchRequestGroupTopic, len(asked))
	for i := range asked {
		found[i], errs[i] = byID(asked[i].TopicID)
		named[i].Topic, named[i].Partitions = found[i].Topic, asked[i].Partitions
	}
	r := fetchOffsets(c, q, group, named)
	for i := range r.Topics {
		t := &r.Topics[i]
		if errs[i] == nil { // it may have been deleted, and another created that has its name
			_, errs[i] = backend.FindByID(q.Node, q.Caller, asked[i].TopicID)
		}
		t.TopicID = asked[i].TopicID
		for j := range t.Partitions {
			if errs[i] != nil && r.ErrorCode == 0 {
				p := &t.Partitions[j]
				p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata = protocol.CodeOf(errs[i]), -1, -1, new("")
			}
		}
	}
	return r
}

// OffsetDelete deletes offsets of partitions that no member of the group reads.
func OffsetDelete(c *Coordinator, q *backend.Call, m *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	r := kmsg.NewPtrOffsetDeleteResponse()
	d, term, err := c.describeFor(q.Ctx, q.Caller, guard.DeleteOffsets, m.Group)
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
		err = coordinatorError(c.offsets.write(q.Ctx, term, change))
	}
	if err == nil {
		q.Node.Audit(q.Caller, guard.DeleteOffsets, m.Group, nil)
	}
	if r.ErrorCode = codeOf(m.Group, err); err != nil {
		r.Topics = nil
	}
	return r
}
