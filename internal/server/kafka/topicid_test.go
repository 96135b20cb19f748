package kafkaserver

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/topics"
)

// answerTo sends a request and returns its answer.
func answerTo[R any](c *raw, q kmsg.Request) R {
	c.Helper()
	c.send(q)
	r, _ := c.receive(q)
	return any(r).(R)
}

// produceByID appends a batch to partition 0 of the topic with an id, and returns the code.
func (c *raw) produceByID(version int16, id [16]byte, batch []byte) int16 {
	c.Helper()
	q := produceRequest("", acksAll, batch)
	q.Version, q.Topics[0].TopicID = version, id
	r := answerTo[*kmsg.ProduceResponse](c, q)
	require.Equal(c, id, r.Topics[0].TopicID)
	return r.Topics[0].Partitions[0].ErrorCode
}

func (c *raw) fetchByID(version int16, id [16]byte) kmsg.FetchResponseTopicPartition {
	c.Helper()
	q := fetchRequest(version, 0, 1, 1<<20, 0, "")
	q.Topics[0].TopicID = id
	r := c.fetch(q)
	require.Zero(c, r.ErrorCode)
	require.Equal(c, id, r.Topics[0].TopicID)
	return r.Topics[0].Partitions[0]
}

func (c *raw) commitByID(id [16]byte, offset int64) int16 {
	c.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group = 10, "billing"
	t := kmsg.NewOffsetCommitRequestTopic()
	t.TopicID = id
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	r := answerTo[*kmsg.OffsetCommitResponse](c, q)
	require.Equal(c, id, r.Topics[0].TopicID)
	return r.Topics[0].Partitions[0].ErrorCode
}

// committedByID returns the committed offsets of partitions 0, by the id of their topics. Without
// ids it asks for all.
func (c *raw) committedByID(ids ...[16]byte) map[[16]byte]kmsg.OffsetFetchResponseGroupTopicPartition {
	c.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 10
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "billing"
	for _, id := range ids {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.TopicID, t.Partitions = id, []int32{0}
		g.Topics = append(g.Topics, t)
	}
	q.Groups = append(q.Groups, g)
	r := answerTo[*kmsg.OffsetFetchResponse](c, q)
	require.Zero(c, r.Groups[0].ErrorCode)
	all := map[[16]byte]kmsg.OffsetFetchResponseGroupTopicPartition{}
	for _, t := range r.Groups[0].Topics {
		all[t.TopicID] = t.Partitions[0]
	}
	return all
}

// A topic that is deleted and created again has another id, and requests with the first one get
// nothing of the second.
func TestAnIdIsThatOfOneTopicForEver(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	c.coordinated()
	batch := func(text string) []byte { return batchOf(t, record.None, text) }
	d.create("orders", 1)
	first := d.idOf("orders")
	for version := int16(13); version <= apis[produceKey].max; version++ {
		require.Zero(t, c.produceByID(version, first, batch("old")))
	}
	for version := int16(13); version <= apis[fetchKey].max; version++ {
		require.Equal(t, d.stored("orders"), c.fetchByID(version, first).RecordBatches)
	}
	require.Zero(t, c.commitByID(first, 1))
	require.EqualValues(t, 1, c.committedByID(first)[first].Offset)
	require.EqualValues(t, 1, c.committedByID()[first].Offset)

	require.NoError(t, d.node.DeleteTopic(d.ctx(), verbs.Caller{}, "orders"))
	for _, again := range []bool{false, true} {
		if again {
			d.create("orders", 1)
			d.appendDirectly("orders", batch("new"))
		}
		require.Equal(t, kerr.UnknownTopicID.Code, c.produceByID(13, first, batch("lost")))
		got := c.fetchByID(18, first)
		require.Equal(t, kerr.UnknownTopicID.Code, got.ErrorCode)
		require.Empty(t, got.RecordBatches)
		require.Equal(t, kerr.UnknownTopicID.Code, c.commitByID(first, 1))
		require.Equal(t, kerr.UnknownTopicID.Code, c.committedByID(first)[first].ErrorCode)
		require.EqualValues(t, -1, c.committedByID(first)[first].Offset)
		require.Empty(t, c.committedByID())
		m := kmsg.NewPtrMetadataRequest()
		m.Version = 13
		m.Topics = []kmsg.MetadataRequestTopic{{TopicID: first}}
		require.Equal(t, kerr.UnknownTopicID.Code, answerTo[*kmsg.MetadataResponse](c, m).Topics[0].ErrorCode)
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.Version = 6
		q.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: first}}
		require.Equal(t, kerr.UnknownTopicID.Code, answerTo[*kmsg.DeleteTopicsResponse](c, q).Topics[0].ErrorCode)
	}
	second := d.idOf("orders")
	require.NotEqual(t, first, second)
	require.Equal(t, d.stored("orders"), c.fetchByID(18, second).RecordBatches)
	require.EqualValues(t, -1, c.committedByID(second)[second].Offset)
}

// deletedBetween is a node on which a topic is deleted and created again after each lookup of its id.
type deletedBetween struct {
	backend.Node
	again func()
}

func (n *deletedBetween) KnownTopic(c verbs.Caller, id backend.TopicID) (verbs.KnownTopic, bool) {
	t, ok := n.Node.KnownTopic(c, id)
	if ok {
		n.again()
	}
	return t, ok
}

func TestATopicThatIsReplacedAfterTheLookupOfItsIdIsNotUsedInItsPlace(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.raw().coordinated()
	replace := func() {
		require.NoError(t, d.node.DeleteTopic(d.ctx(), verbs.Caller{}, "orders"))
		d.create("orders", 1)
		d.appendDirectly("orders", batchOf(t, record.None, "new"))
	}
	other := d.over(&deletedBetween{guard.New(d.node, guard.Options{}), replace})
	c := other.raw()
	require.Equal(t, kerr.UnknownTopicID.Code, c.fetchByID(13, d.idOf("orders")).ErrorCode)
	require.Equal(t, kerr.UnknownTopicID.Code, c.produceByID(13, d.idOf("orders"), batchOf(t, record.None, "lost")))
	require.Equal(t, 1, countRecords(t, d.stored("orders")))
	require.Equal(t, kerr.UnknownTopicID.Code, c.commitByID(d.idOf("orders"), 1))
	id := d.idOf("orders")
	require.Equal(t, kerr.UnknownTopicID.Code, c.committedByID(id)[id].ErrorCode)
}

func TestPartitionsAndTheInternalTopicAreFoundById(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 3)
	d.raw().coordinated()
	d.appendDirectly("orders/2", batchOf(t, record.None, "third"))
	c := d.raw()
	q := fetchRequest(18, 0, 1, 1<<20, 0, "orders", "orders", "orders", "")
	for i := range q.Topics {
		q.Topics[i].TopicID = d.idOf("orders")
	}
	q.Topics[1].Partitions[0].Partition, q.Topics[2].Partitions[0].Partition = 2, 3
	q.Topics[3].TopicID = d.idOf(backend.OffsetsLog)
	r := c.fetch(q)
	require.Len(t, r.Topics, 2)
	require.Empty(t, r.Topics[0].Partitions[0].RecordBatches)
	require.Equal(t, d.stored("orders/2"), r.Topics[0].Partitions[1].RecordBatches)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, r.Topics[0].Partitions[2].ErrorCode)
	require.Zero(t, r.Topics[1].Partitions[0].ErrorCode)
	require.Empty(t, r.Topics[1].Partitions[0].RecordBatches, "it has no records for clients")

	require.Equal(t, kerr.InvalidTopicException.Code, c.produceByID(13, d.idOf(backend.OffsetsLog), batchOf(t, record.None, "x")))
	require.Equal(t, kerr.UnknownTopicID.Code, c.fetchByID(13, [16]byte{}).ErrorCode)
	require.Equal(t, kerr.UnknownTopicID.Code, c.fetchByID(13, d.idOf(verbs.CatalogLog)).ErrorCode)
}

// An id does not show a topic to those who may not see it.
func TestAnIdIsUnknownToWhoMayNotSeeTheTopic(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.create("invoices", 1)
	g := guard.New(d.node, guard.Options{})
	require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, []access.Grant{{Principal: "user/bob", On: access.OfLog("orders"), Rights: access.Append}}))
	password, _, err := g.PutUser(t.Context(), verbs.Caller{}, "bob", "")
	require.NoError(t, err)
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	c := d.raw()
	c.login("bob", password)
	require.Zero(t, c.produceByID(13, d.idOf("orders"), batchOf(t, record.None, "x")))
	require.Equal(t, kerr.TopicAuthorizationFailed.Code, c.fetchByID(13, d.idOf("orders")).ErrorCode)
	require.Equal(t, kerr.UnknownTopicID.Code, c.produceByID(13, d.idOf("invoices"), batchOf(t, record.None, "x")))
	require.Equal(t, kerr.UnknownTopicID.Code, c.fetchByID(13, d.idOf("invoices")).ErrorCode)
	require.Zero(t, countRecords(t, d.stored("invoices")))
}

// franz-go with the newest versions that it knows, and with those of earlier releases of Kafka.
func TestClientsOfEachReleaseProduceAndConsumeInGroups(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for name, versions := range map[string]*kversion.Versions{
		"2.8, by name": kversion.V2_8_0(), "3.0": kversion.V3_0_0(), "3.9, with ids": kversion.V3_9_0(), "4.0": kversion.V4_0_0(), "newest": kversion.Tip(),
	} {
		t.Run(name, func(t *testing.T) {
			topic := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			d.create(topic, 4)
			p := d.client(kgo.MaxVersions(versions), kgo.DefaultProduceTopic(topic))
			var want []string
			for i := range 40 {
				want = append(want, fmt.Sprint(i))
				require.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Key: []byte(fmt.Sprint(i)), Value: []byte(want[i])}).FirstErr())
			}
			read := func(n int) []string {
				c := d.client(kgo.MaxVersions(versions), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.DisableAutoCommit(),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				defer c.Close()
				records := d.poll(c, n)
				require.NoError(t, c.CommitRecords(t.Context(), records...))
				return values(records)
			}
			require.ElementsMatch(t, want, read(40))
			require.NoError(t, p.ProduceSync(t.Context(), kgo.StringRecord("later")).FirstErr())
			require.Equal(t, []string{"later"}, read(1), "it continues behind what was committed")
		})
	}
}

func TestTopicsAreDescribedInPages(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for topic, partitions := range map[string]int32{"a": 3, "b": 1, "c": 2} {
		d.create(topic, partitions)
	}
	c := d.raw()
	var pages [][]string
	q := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for q.ResponsePartitionLimit = 2; ; {
		r := answerTo[*kmsg.DescribeTopicPartitionsResponse](c, q)
		var page []string
		for _, t := range r.Topics {
			require.Equal(d, d.idOf(*t.Topic), t.TopicID)
			require.NotEmpty(d, t.Partitions)
			for _, p := range t.Partitions {
				require.Equal(d, []int32{1}, p.ISR)
				require.EqualValues(d, 1, p.LeaderID)
				require.NotNil(d, p.EligibleLeaderReplicas, "Java's client fails where it is null")
				require.NotNil(d, p.LastKnownELR)
				page = append(page, fmt.Sprint(*t.Topic, p.Partition))
			}
		}
		pages = append(pages, page)
		if r.NextCursor == nil {
			break
		}
		q.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: r.NextCursor.Topic, Partition: r.NextCursor.Partition}
	}
	require.Equal(t, [][]string{{"a0", "a1"}, {"a2", "b0"}, {"c0", "c1"}}, pages)

	q = kmsg.NewPtrDescribeTopicPartitionsRequest()
	q.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "missing"}, {Topic: "b"}, {Topic: "b"}}
	r := answerTo[*kmsg.DescribeTopicPartitionsResponse](c, q)
	require.Len(t, r.Topics, 2, "by name, each once")
	require.Len(t, r.Topics[0].Partitions, 1)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, r.Topics[1].ErrorCode)
	q.ResponsePartitionLimit = -1
	r = answerTo[*kmsg.DescribeTopicPartitionsResponse](c, q)
	require.Len(t, r.Topics, 1, "one partition at least")
	require.Equal(t, "missing", r.NextCursor.Topic)
}

// unlistable is a node that cannot list topics.
type unlistable struct {
	backend.Node
	refusal atomic.Pointer[record.Refusal]
}

func (n *unlistable) Topics(ctx context.Context, c verbs.Caller) ([]verbs.Topic, error) {
	if refusal := n.refusal.Load(); refusal != nil {
		return nil, refusal
	}
	return n.Node.Topics(ctx, c)
}

// An answer without topics and without a next page would say that there are none.
func TestAPageThatCannotBeListedIsTheNextOneAgain(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for _, topic := range []string{"a", "b"} {
		d.create(topic, 2)
	}
	n := &unlistable{Node: guard.New(d.node, guard.Options{})}
	c := d.over(n).raw()
	page := func(from *kmsg.DescribeTopicPartitionsResponseNextCursor) *kmsg.DescribeTopicPartitionsResponse {
		q := kmsg.NewPtrDescribeTopicPartitionsRequest()
		q.ResponsePartitionLimit = 3
		if from != nil {
			q.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: from.Topic, Partition: from.Partition}
		}
		return answerTo[*kmsg.DescribeTopicPartitionsResponse](c, q)
	}
	n.refusal.Store(record.Refuse(record.Busy, "for a test"))
	r := page(nil)
	require.Empty(t, r.Topics)
	require.NotNil(t, r.NextCursor)
	n.refusal.Store(nil)
	r = page(r.NextCursor)
	require.Len(t, r.Topics, 2, "from the beginning")
	next := r.NextCursor
	require.Equal(t, "b", next.Topic)
	n.refusal.Store(record.Refuse(record.Busy, "for a test"))
	r = page(next)
	require.Empty(t, r.Topics)
	require.Equal(t, next, r.NextCursor)
	n.refusal.Store(nil)
	r = page(r.NextCursor)
	require.EqualValues(t, 1, r.Topics[0].Partitions[0].Partition)
	require.Nil(t, r.NextCursor)

	n.refusal.Store(record.Refuse(record.Denied, "for a test"))
	require.Nil(t, page(nil).NextCursor, "it would be refused again")
}

func TestNewerVersionsSayWhatOlderOnesDoNot(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	c.coordinated()
	for _, at := range []int64{topics.TimeLatestRemote, topics.TimeNotYetRemote} {
		q := kmsg.NewPtrListOffsetsRequest()
		q.Version = 11
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = "orders"
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = at
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
		got := answerTo[*kmsg.ListOffsetsResponse](c, q).Topics[0].Partitions[0]
		require.Zero(d, got.ErrorCode)
		require.EqualValues(d, -1, got.Offset, "nothing is in a remote store")
	}
	for version, want := range map[int16]int16{5: 0, 6: kerr.GroupIDNotFound.Code} {
		q := kmsg.NewPtrDescribeGroupsRequest()
		q.Version, q.Groups = version, []string{"missing"}
		require.Equal(t, want, answerTo[*kmsg.DescribeGroupsResponse](c, q).Groups[0].ErrorCode)
	}
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.Version, q.CoordinatorKeys, q.CoordinatorType = 6, []string{"x"}, 2
	require.Equal(t, kerr.InvalidRequest.Code, answerTo[*kmsg.FindCoordinatorResponse](c, q).Coordinators[0].ErrorCode, "there are no share groups")
}
