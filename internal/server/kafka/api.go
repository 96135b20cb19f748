package kafkaserver

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/acls"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/coordinator"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/kafka/quotas"
	"strandline.dev/internal/server/kafka/topics"
)

// api is one kind of request that is served.
type api struct {
	key      int16
	name     string
	min, max int16 // versions, inclusive
	layout   protocol.Layout
	large    bool // may have up to MaxGroupBytes
	// verb is the verb that the request calls. A client that holds the required right on no object
	// at all may not send more than a small request; if verb requires no right, no client needs a
	// large one.
	verb *guard.Verb
	// handle executes the request and returns the answer. nil for requests that the connection
	// handles itself: Produce, Fetch, ApiVersions.
	handle func(*call) kmsg.Response
}

var (
	produceKey     = kmsg.Produce.Int16()
	fetchKey       = kmsg.Fetch.Int16()
	apiVersionsKey = kmsg.ApiVersions.Int16()
)

// apis lists all supported kinds of requests by key. Layouts are those of versions from min to max.
//
// ConsumerGroupHeartbeat is not announced: a client of the newer group protocol that can use the
// classic one does so if the request is missing, and treats a refusal as final.
//
// Produce is announced from version 0, although versions 0 to 2 carry records in an older format
// and are refused: librdkafka does not compress without it.
var apis = index(
	serve(kmsg.Produce, guard.Append, 0, 13, "s@3 h i [s@0-12 u@13 [i r]]", nil),
	serve(kmsg.Fetch, guard.Read, 4, 18, "i@4-14 i i i b i@7 i@7 [s@4-12 u@13 [i i@9 l i@12 l@5 i]] [s@7-12 u@13 (i)]@7 s@11", nil),
	serve(kmsg.ListOffsets, guard.Observe, 1, 11, "i b@2 [s [i i@4 l]] i@10", ofTopics((*topics.Topics).ListOffsets)),
	serve(kmsg.Metadata, guard.Observe, 0, 13, "[u@10 s] b@4 b@8-10 b@8", ofTopics((*topics.Topics).Metadata)),
	serve(kmsg.OffsetCommit, guard.CommitOffset, 2, 10, "s i s s@7 l@2-4 [s@2-9 u@10 [i l i@6 s]]", ofGroups(coordinator.OffsetCommit)),
	serve(kmsg.OffsetFetch, guard.ObserveGroup, 1, 10, "s@0-7 [s (i)]@0-7 [s s@9 i@9 [s@8-9 u@10 (i)]]@8 b@7", ofGroups(coordinator.OffsetFetch)),
	serve(kmsg.FindCoordinator, guard.ObserveGroup, 0, 6, "s@0-3 b@1 (s)@4", ofGroups(coordinator.FindCoordinator)),
	large(serve(kmsg.JoinGroup, guard.JoinGroup, 0, 9, "s i i@1 s s@5 s [s r] s@8", ofGroups(coordinator.JoinGroup))),
	serve(kmsg.Heartbeat, guard.JoinGroup, 0, 4, "s i s s@3", ofGroups(coordinator.Heartbeat)),
	serve(kmsg.LeaveGroup, guard.JoinGroup, 0, 5, "s s@0-2 [s s s@5]@3", ofGroups(coordinator.LeaveGroup)),
	large(serve(kmsg.SyncGroup, guard.JoinGroup, 0, 5, "s i s s@3 s@5 s@5 [s r]", ofGroups(coordinator.SyncGroup))),
	serve(kmsg.DescribeGroups, guard.ObserveGroup, 0, 6, "(s) b@3", ofGroups(coordinator.DescribeGroups)),
	serve(kmsg.ListGroups, guard.List, 0, 5, "(s)@4 (s)@5", ofGroups(coordinator.ListGroups)),
	serve(kmsg.DeleteGroups, guard.DeleteGroup, 0, 2, "(s)", ofGroups(coordinator.DeleteGroups)),
	serve(kmsg.SASLHandshake, guard.Connect, 0, 1, "s", ofConnection((*call).saslHandshake)),
	serve(kmsg.ApiVersions, guard.Connect, 0, 4, "s@3 s@3", nil),
	serve(kmsg.CreateTopics, guard.CreateLog, 0, 7, "[s i h [i (i)] [s s]] i b@1", ofTopics((*topics.Topics).CreateTopics)),
	serve(kmsg.DeleteTopics, guard.DeleteLog, 0, 6, "[s u]@6 (s)@0-5 i", ofTopics((*topics.Topics).DeleteTopics)),
	serve(kmsg.DeleteRecords, guard.Trim, 0, 2, "[s [i l]] i", on(topics.DeleteRecords)),
	serve(kmsg.SASLAuthenticate, guard.Connect, 0, 2, "r", ofConnection((*call).saslAuthenticate)),
	serve(kmsg.CreatePartitions, guard.AddPartitions, 0, 3, "[s i [(i)]] i b", on(topics.CreatePartitions)),
	serve(kmsg.InitProducerID, guard.OpenSession, 0, 5, "s i l@3 h@3", on(topics.InitProducerID)),
	serve(kmsg.OffsetForLeaderEpoch, guard.Observe, 0, 4, "i@3 [s [i i@2 i]]", on(topics.OffsetForLeaderEpoch)),
	serve(kmsg.DescribeACLs, guard.ListAccess, 0, 3, "b s b@1 s s b b", on(acls.Describe)),
	serve(kmsg.CreateACLs, guard.AddGrants, 0, 3, "[b s b@1 s s b b]", on(acls.Create)),
	serve(kmsg.DeleteACLs, guard.RemoveGrants, 0, 3, "[b s b@1 s s b b]", on(acls.Delete)),
	serve(kmsg.DescribeConfigs, guard.Observe, 0, 4, "[b s (s)] b@1 b@3", ofTopics((*topics.Topics).DescribeConfigs)),
	serve(kmsg.AlterConfigs, guard.ConfigureLog, 0, 2, "[b s [s s]] b", on(topics.AlterConfigs)),
	serve(kmsg.IncrementalAlterConfigs, guard.ConfigureLog, 0, 1, "[b s [s b s]] b", on(topics.IncrementalAlterConfigs)),
	serve(kmsg.ElectLeaders, guard.TransferLeader, 0, 2, "b@1 [s (i)] i", on(topics.ElectLeaders)),
	serve(kmsg.OffsetDelete, guard.DeleteOffsets, 0, 0, "s [s [i]]", ofGroups(coordinator.OffsetDelete)),
	serve(kmsg.DescribeClientQuotas, guard.ListQuotas, 0, 1, "[s b s] b", on(quotas.Describe)),
	serve(kmsg.AlterClientQuotas, guard.SetQuota, 0, 1, "[[s s] [s l b]] b", on(quotas.Alter)),
	serve(kmsg.DescribeQuorum, guard.ObserveCluster, 0, 2, "[s [i]]", on(topics.DescribeQuorum)),
	serve(kmsg.DescribeProducers, guard.Observe, 0, 0, "[s (i)]", on(topics.DescribeProducers)),
	serve(kmsg.DescribeCluster, guard.List, 0, 2, "b b@1 b@2", on(topics.DescribeCluster)),
	serve(kmsg.ListPartitionReassignments, guard.ObserveCluster, 0, 0, "i [s (i)]", on(topics.ListReassignments)),
	serve(kmsg.DescribeUserSCRAMCredentials, guard.ListAccess, 0, 0, "[s]", on(acls.DescribeUsers)),
	serve(kmsg.GetTelemetrySubscriptions, guard.Connect, 0, 0, "u", ofConnection((*call).telemetrySubscriptions)),
	serve(kmsg.PushTelemetry, guard.Connect, 0, 0, "u i b b r", ofConnection((*call).pushTelemetry)),
	serve(kmsg.ListConfigResources, guard.List, 0, 1, "(b)@1", ofTopics((*topics.Topics).ListConfigResources)),
	serve(kmsg.DescribeTopicPartitions, guard.Observe, 0, 0, "[s] i {s i}", ofTopics((*topics.Topics).DescribeTopicPartitions)),
	serve(kmsg.DescribeLogDirs, guard.ObserveCluster, 0, 5, "[s (i)]", on(topics.DescribeLogDirs)),
)

func serve(key kmsg.Key, verb *guard.Verb, first, last int16, layout string, handle func(*call) kmsg.Response) *api {
	return &api{key: key.Int16(), name: key.Name(), verb: verb, min: first, max: last, layout: protocol.ParseLayout(layout), handle: handle}
}

// large is for requests that carry what members of groups send each other.
func large(a *api) *api {
	a.large = true
	return a
}

func index(all ...*api) map[int16]*api {
	byKey := make(map[int16]*api, len(all))
	for _, a := range all {
		byKey[a.key] = a
	}
	return byKey
}

// on adapts a function with its own type of request to a handler.
func on[Q kmsg.Request, R kmsg.Response](f func(*backend.Call, Q) R) func(*call) kmsg.Response {
	return func(q *call) kmsg.Response { return f(q.asked(), q.request.(Q)) }
}

func ofTopics[Q kmsg.Request, R kmsg.Response](f func(*topics.Topics, *backend.Call, Q) R) func(*call) kmsg.Response {
	return func(q *call) kmsg.Response { return f(&q.connection.server.topics, q.asked(), q.request.(Q)) }
}

func ofGroups[Q kmsg.Request, R kmsg.Response](f func(*coordinator.Coordinator, *backend.Call, Q) R) func(*call) kmsg.Response {
	return func(q *call) kmsg.Response { return f(q.connection.server.groups, q.asked(), q.request.(Q)) }
}

func ofConnection[Q kmsg.Request, R kmsg.Response](f func(*call, Q) R) func(*call) kmsg.Response {
	return func(q *call) kmsg.Response { return f(q, q.request.(Q)) }
}
