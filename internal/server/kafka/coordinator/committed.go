package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
)

// OffsetCommit makes offsets of a group durable.
func OffsetCommit(c *Coordinator, q *backend.Call, m *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	r := kmsg.NewPtrOffsetCommitResponse()
	change := offsetChange{Group: m.Group, Time: time.Now().UnixMilli(), By: q.Principal()}
	codes := map[partition]int16{}
	for i := range m.Topics {
		t, unknown := q.TopicFor(guard.CommitTopicOffsets, m.Topics[i].Topic)
		for _, p := range m.Topics[i].Partitions {
			at := partition{m.Topics[i].Topic, p.Partition}
			err := unknown
			if err == nil {
				err = checkCommit(&t, p.Partition, protocol.Text(p.Metadata))
			}
			if codes[at] = protocol.CodeOf(err); err == nil {
				change.Commits = append(change.Commits, offsetCommit{
					Topic: at.topic, Partition: at.number, committed: committed{
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

// OffsetFetch returns the committed offsets of groups.
func OffsetFetch(c *Coordinator, q *backend.Call, m *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	r := kmsg.NewPtrOffsetFetchResponse()
	if m.Version >= 8 {
		for i := range m.Groups {
			r.Groups = append(r.Groups, fetchOffsets(c, q, m.Groups[i].Group, m.Groups[i].Topics))
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
