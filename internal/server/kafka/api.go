package kafkaserver

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/kafka/protocol"
)

// api is one kind of request that is served.
type api struct {
	key      int16
	name     string
	min, max int16 // versions, inclusive
	layout   protocol.Layout
	large    bool // may have up to MaxGroupBytes
	// handle does the work and makes the answer. nil for those that the
	// connection treats in ways of their own: Produce, Fetch, ApiVersions.
	handle func(*call) kmsg.Response
}

var (
	produceKey     = kmsg.Produce.Int16()
	fetchKey       = kmsg.Fetch.Int16()
	apiVersionsKey = kmsg.ApiVersions.Int16()
)

// apis are all kinds of requests that are served, by key. Topics are described
// with ids; requests that name nothing but the id are not served, since logs have
// names here. Layouts are those of versions from min to max.
//
// Produce is announced from version 0, although 0 to 2 carry records of an
// older format and are refused: librdkafka compresses nothing where it is not.
var apis = index(
	serve(kmsg.Produce, 0, 11, "s@3 h i [s [i r]]", nil),
	serve(kmsg.Fetch, 4, 12, "i i i i b i@7 i@7 [s [i i@9 l i@12 l@5 i]] [s (i)]@7 s@11", nil),
	serve(kmsg.ListOffsets, 1, 8, "i b@2 [s [i i@4 l]]", on((*call).listOffsets)),
	serve(kmsg.Metadata, 0, 12, "[u@10 s] b@4 b@8-10 b@8", on((*call).metadata)),
	serve(kmsg.OffsetCommit, 2, 8, "s i s s@7 l@2-4 [s [i l i@6 s]]", on((*call).offsetCommit)),
	serve(kmsg.OffsetFetch, 1, 8, "s@0-7 [s (i)]@0-7 [s [s (i)]]@8 b@7", on((*call).offsetFetch)),
	serve(kmsg.FindCoordinator, 0, 4, "s@0-3 b@1 (s)@4", on((*call).findCoordinator)),
	large(serve(kmsg.JoinGroup, 0, 9, "s i i@1 s s@5 s [s r] s@8", on((*call).joinGroup))),
	serve(kmsg.Heartbeat, 0, 4, "s i s s@3", on((*call).heartbeat)),
	serve(kmsg.LeaveGroup, 0, 5, "s s@0-2 [s s s@5]@3", on((*call).leaveGroup)),
	large(serve(kmsg.SyncGroup, 0, 5, "s i s s@3 s@5 s@5 [s r]", on((*call).syncGroup))),
	serve(kmsg.DescribeGroups, 0, 5, "(s) b@3", on((*call).describeGroups)),
	serve(kmsg.ListGroups, 0, 5, "(s)@4 (s)@5", on((*call).listGroups)),
	serve(kmsg.DeleteGroups, 0, 2, "(s)", on((*call).deleteGroups)),
	serve(kmsg.SASLHandshake, 1, 1, "s", on((*call).saslHandshake)),
	serve(kmsg.ApiVersions, 0, 3, "s@3 s@3", nil),
	serve(kmsg.CreateTopics, 0, 7, "[s i h [i (i)] [s s]] i b@1", on((*call).createTopics)),
	serve(kmsg.DeleteTopics, 0, 6, "[s u]@6 (s)@0-5 i", on((*call).deleteTopics)),
	serve(kmsg.DeleteRecords, 0, 2, "[s [i l]] i", on((*call).deleteRecords)),
	serve(kmsg.SASLAuthenticate, 0, 2, "r", on((*call).saslAuthenticate)),
	serve(kmsg.CreatePartitions, 0, 3, "[s i [(i)]] i b", on((*call).createPartitions)),
	serve(kmsg.InitProducerID, 0, 4, "s i l@3 h@3", on((*call).initProducerID)),
	serve(kmsg.OffsetForLeaderEpoch, 0, 4, "i@3 [s [i i@2 i]]", on((*call).offsetForLeaderEpoch)),
	serve(kmsg.DescribeACLs, 0, 3, "b s b@1 s s b b", on((*call).describeACLs)),
	serve(kmsg.CreateACLs, 0, 3, "[b s b@1 s s b b]", on((*call).createACLs)),
	serve(kmsg.DeleteACLs, 0, 3, "[b s b@1 s s b b]", on((*call).deleteACLs)),
	serve(kmsg.DescribeConfigs, 0, 4, "[b s (s)] b@1 b@3", on((*call).describeConfigs)),
	serve(kmsg.AlterConfigs, 0, 2, "[b s [s s]] b", on((*call).alterConfigs)),
	serve(kmsg.IncrementalAlterConfigs, 0, 1, "[b s [s b s]] b", on((*call).incrementalAlterConfigs)),
	serve(kmsg.ElectLeaders, 0, 2, "b@1 [s (i)] i", on((*call).electLeaders)),
	serve(kmsg.OffsetDelete, 0, 0, "s [s [i]]", on((*call).offsetDelete)),
	serve(kmsg.DescribeQuorum, 0, 2, "[s [i]]", on((*call).describeQuorum)),
	serve(kmsg.DescribeProducers, 0, 0, "[s (i)]", on((*call).describeProducers)),
	serve(kmsg.DescribeCluster, 0, 1, "b b@1", on((*call).describeCluster)),
	serve(kmsg.ConsumerGroupHeartbeat, 0, 1, "s s i s s i (s) s@1 s [u (i)]", on((*call).consumerGroupHeartbeat)),
	serve(kmsg.DescribeLogDirs, 0, 4, "[s (i)]", on((*call).describeLogDirs)),
)

func serve(key kmsg.Key, first, last int16, layout string, handle func(*call) kmsg.Response) *api {
	return &api{key: key.Int16(), name: key.Name(), min: first, max: last, layout: protocol.ParseLayout(layout), handle: handle}
}

// large is for requests that carry what members of groups tell each other.
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

// on makes a handler of a function that takes its own type of request.
func on[Q kmsg.Request, R kmsg.Response](f func(*call, Q) R) func(*call) kmsg.Response {
	return func(q *call) kmsg.Response { return f(q, q.request.(Q)) }
}
