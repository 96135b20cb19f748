package topics

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// ListReassignments lists the requested partitions, or all, whose replicas move to other nodes at
// the moment.
func ListReassignments(q *backend.Call, m *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	r := kmsg.NewPtrListPartitionReassignmentsResponse()
	err := q.May(guard.ObserveCluster, "")
	var all []verbs.Topic
	if err == nil {
		all, err = shownTopics(q)
	}
	if err != nil {
		r.ErrorCode, r.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		return r
	}
	asked := askedOf(m)
	logs := map[string]*verbs.LogStatus{}
	for _, l := range q.ClusterStatus().Logs {
		logs[l.Name] = &l
	}
	brokers := q.Brokers()
	for i := range all {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = all[i].Name
		for number := range all[i].Partitions {
			if !asked(out.Topic, number) {
				continue
			}
			l := logs[all[i].Partitions[number].Name]
			if l == nil {
				continue
			}
			if p := reassignmentOf(brokers.ByName, l); len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 {
				p.Partition = int32(number)
				out.Partitions = append(out.Partitions, p)
			}
		}
		if len(out.Partitions) > 0 {
			r.Topics = append(r.Topics, out)
		}
	}
	return r
}

// askedOf returns whether a request is about a partition. A request may have as many numbers as fit in
// its bytes, so they are sorted once.
func askedOf(m *kmsg.ListPartitionReassignmentsRequest) func(topic string, number int) bool {
	if m.Topics == nil {
		return func(string, int) bool { return true }
	}
	wanted := map[string][]int32{}
	for i := range m.Topics {
		wanted[m.Topics[i].Topic] = append(wanted[m.Topics[i].Topic], m.Topics[i].Partitions...)
	}
	for _, numbers := range wanted {
		slices.Sort(numbers)
	}
	return func(topic string, number int) bool {
		_, found := slices.BinarySearch(wanted[topic], int32(number))
		return found
	}
}

// reassignmentOf returns the brokers with replicas of a log: all, those that catch up to be voters,
// and those that will have none.
func reassignmentOf(byName map[string]int32, l *verbs.LogStatus) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	p := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	for _, held := range l.Replicas {
		id, ok := byName[held.Node]
		if !ok {
			continue
		}
		switch held.Role {
		case verbs.Learner:
			p.AddingReplicas = append(p.AddingReplicas, id)
		case verbs.Leaving:
			p.RemovingReplicas = append(p.RemovingReplicas, id)
		case verbs.Voter:
		default:
			continue
		}
		p.Replicas = append(p.Replicas, id)
	}
	return p
}
