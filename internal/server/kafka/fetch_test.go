package kafkaserver

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/readers"
	"strandline.dev/internal/server/kafka/topics"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// fetchRequest asks for partition 0 of topics, from an offset each.
func fetchRequest(version int16, wait, minBytes, maxBytes int32, from int64, topics ...string) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes = version, wait, minBytes, maxBytes
	q.SessionEpoch = -1
	for _, name := range topics {
		t := kmsg.NewFetchRequestTopic()
		t.Topic = name
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = from, maxBytes, -1
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	return q
}

// withIDs adds the ids of the topics, which later versions have instead of the names.
func (d *testServer) withIDs(q *kmsg.FetchRequest) *kmsg.FetchRequest {
	d.Helper()
	for i := range q.Topics {
		q.Topics[i].TopicID = d.idOf(q.Topics[i].Topic)
	}
	return q
}

// idOf returns the id of a topic.
func (d *testServer) idOf(topic string) [16]byte {
	d.Helper()
	if verbs.CatalogLog == topic {
		return cluster.TopicIDOf(d.node.ClusterID(), cluster.CatalogID)
	}
	l, err := d.node.KnownInfo(verbs.Caller{System: true}, topic)
	require.NoError(d, err)
	return cluster.TopicIDOf(d.node.ClusterID(), l.ID)
}

func (c *raw) fetch(q *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.Helper()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.FetchResponse)
}

func TestStoredBytesAreFetchedAsTheyAreInEveryVersion(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	for i := range 5 {
		d.appendDirectly("orders", batchOf(t, record.Zstd, fmt.Sprint(i), "more"))
	}
	stored := d.stored("orders")
	c := d.raw()
	for version := apis[fetchKey].min; version <= apis[fetchKey].max; version++ {
		r := c.fetch(d.withIDs(fetchRequest(version, 0, 1, 1<<20, 0, "orders")))
		p := r.Topics[0].Partitions[0]
		require.Zero(t, p.ErrorCode)
		require.Equal(t, stored, p.RecordBatches, "version %d", version)
		require.EqualValues(t, 10, p.HighWatermark)
		require.EqualValues(t, 10, p.LastStableOffset)
	}
}

func TestALongLogIsFetchedPieceByPieceWithoutAGap(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("long", 1)
	for range 300 {
		d.appendDirectly("long", batchOf(t, record.None, strings.Repeat("x", 100_000), "end"))
	}
	stored := d.stored("long")
	for _, limit := range []int32{1, 150_000, 1 << 20, 8 << 20, 1 << 30} {
		c := d.raw()
		var got []byte
		next := int64(0)
		for len(got) < len(stored) {
			r := c.fetch(fetchRequest(11, 0, 1, limit, next, "long"))
			run := r.Topics[0].Partitions[0].RecordBatches
			require.NotEmpty(t, run)
			require.LessOrEqual(t, len(run), max(int(min(limit, MaxFetchBytes)), 100_200), "the limit holds, but for a first batch")
			got = append(got, run...)
			next = int64(readers.LastBatch(run).End())
		}
		require.Equal(t, stored, got, "in pieces of %d", limit)
		_ = c.Close()
	}
}

func TestAFetchInTheMiddleOfABatchGetsTheWholeBatch(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.appendDirectly("orders", batchOf(t, record.None, "a", "b", "c"))
	p := d.raw().fetch(fetchRequest(11, 0, 1, 1<<20, 1, "orders")).Topics[0].Partitions[0]
	require.Equal(t, d.stored("orders"), p.RecordBatches)
}

func TestAFetchWaitsForAnAppendToAnyOfItsLogs(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for _, topics := range [][]string{{"one"}, {"two", "three", "four"}} {
		for _, name := range topics {
			d.create(name, 1)
		}
		c := d.raw()
		q := fetchRequest(11, 120_000, 1, 1<<20, 0, topics...) // longer than the test waits for an answer
		c.send(q)
		last := topics[len(topics)-1]
		d.appendDirectly(last, batchOf(t, record.None, "now"))
		r, _ := c.receive(q)
		got := r.(*kmsg.FetchResponse).Topics
		require.Equal(t, d.stored(last), got[len(topics)-1].Partitions[0].RecordBatches)
	}
}

func TestAFetchForMoreThanThereIsGathersUntilItsTimeIsUp(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.appendDirectly("orders", batchOf(t, record.None, "a"))
	size := int32(len(d.stored("orders")))
	c := d.raw()
	r := c.fetch(fetchRequest(11, 50, size+1, 1<<20, 0, "orders"))
	require.Len(t, r.Topics[0].Partitions[0].RecordBatches, int(size))

	q := fetchRequest(11, 120_000, size+1, 1<<20, 0, "orders")
	c.send(q)
	d.appendDirectly("orders", batchOf(t, record.None, "b"))
	got, _ := c.receive(q)
	require.Equal(t, d.stored("orders"), got.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
	require.Eventually(t, func() bool { return d.server.fetches.Used() == 0 }, time.Minute, time.Millisecond, "the budget is given back")
}

func TestAFetchReportsWhatIsWrongAtOnce(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	for range 3 {
		d.appendDirectly("orders", batchOf(t, record.None, "a"))
	}
	_, _, err := d.node.Trim(t.Context(), verbs.Caller{}, "orders", 2, false)
	require.NoError(t, err)
	c := d.raw()
	code := func(q *kmsg.FetchRequest) int16 { return c.fetch(q).Topics[0].Partitions[0].ErrorCode }
	const long = 20_000
	require.Equal(t, kerr.OffsetOutOfRange.Code, code(fetchRequest(11, long, 1, 1<<20, 1, "orders")))
	require.Equal(t, kerr.OffsetOutOfRange.Code, code(fetchRequest(11, long, 1, 1<<20, 4, "orders")))
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(fetchRequest(11, long, 1, 1<<20, 0, "missing")))
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(fetchRequest(11, long, 1, 1<<20, 0, "_catalog")))
	b, err := d.node.Bounds(verbs.Caller{}, "orders")
	require.NoError(t, err)
	for epoch, want := range map[int32]int16{
		int32(b.Term): 0, int32(b.Term) - 1: kerr.FencedLeaderEpoch.Code, int32(b.Term) + 1: kerr.UnknownLeaderEpoch.Code,
	} {
		q := fetchRequest(11, long, 1, 1<<20, 2, "orders")
		q.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		require.Equal(t, want, code(q))
	}
	q := fetchRequest(11, long, 1, 1<<20, 2, "orders")
	q.SessionID, q.SessionEpoch = 12, 1
	require.Equal(t, kerr.FetchSessionIDNotFound.Code, c.fetch(q).ErrorCode)
}

func TestAConsumerThatWasTrimmedAwayBeginsAtTheNewStart(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	for i := range 5 {
		d.appendDirectly("orders", batchOf(t, record.None, fmt.Sprint(i)))
	}
	_, _, err := d.node.Trim(t.Context(), verbs.Caller{}, "orders", 3, false)
	require.NoError(t, err)
	c := d.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(1)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.Equal(t, []string{"3", "4"}, values(d.poll(c, 2)))
}

func TestALookupByTimeFindsTheFirstRecordThatIsNotOlder(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	times := []int64{1000, 2000, 3000, 4000}
	for _, at := range times {
		var b record.Builder
		b.Reset(nil)
		require.NoError(t, b.Add(record.Record{Timestamp: at, Value: []byte("x")}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		d.appendDirectly("orders", batch)
	}
	for at, want := range map[int64][2]int64{
		0: {0, 1000}, 1000: {0, 1000}, 1001: {1, 2000}, 4000: {3, 4000}, 4001: {-1, -1}, time.Now().Add(time.Hour).UnixMilli(): {-1, -1},
	} {
		found := d.listOffset("orders", at)
		require.Equal(t, want, [2]int64{found.Offset, found.Timestamp}, "time %d", at)
	}
	require.EqualValues(t, 4, d.listOffset("orders", topics.TimeLatest).Offset)
	require.EqualValues(t, 0, d.listOffset("orders", topics.TimeEarliest).Offset)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, d.listOffset("missing", topics.TimeLatest).ErrorCode)
}

func (d *testServer) listOffset(topic string, at int64) kmsg.ListOffsetsResponseTopicPartition {
	d.Helper()
	q := kmsg.NewPtrListOffsetsRequest()
	q.Version = 6
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = at, -1
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

func TestTheEndOfALeadershipIsWhereTheNextOneBegan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ends := map[int32]int64{} // by epoch
	var newest int32
	for life := range 4 {
		d := open(t, dir, Options{})
		if life == 0 {
			d.create("orders", 1)
		}
		for range 3 {
			d.appendDirectly("orders", batchOf(t, record.None, "a", "b"))
		}
		b, err := d.node.Bounds(verbs.Caller{}, "orders")
		require.NoError(t, err)
		newest = int32(b.Term)
		ends[newest] = int64(b.End)
		if life < 3 {
			d.server.Stop(t.Context())
			require.NoError(t, d.node.Close(t.Context()))
			continue
		}
		for epoch, end := range ends {
			got := d.endOfEpoch(epoch)
			require.Equal(t, epoch, got.LeaderEpoch)
			require.Equal(t, end, got.EndOffset)
		}
		require.EqualValues(t, -1, d.endOfEpoch(newest+1).EndOffset)
	}
	require.Len(t, ends, 4, "every restart is a new leadership")
}

func (d *testServer) endOfEpoch(epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	d.Helper()
	q := kmsg.NewPtrOffsetForLeaderEpochRequest()
	q.Version = 3
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = "orders"
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LeaderEpoch = -1, epoch
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	out := r.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	require.Zero(d, out.ErrorCode)
	return out
}

func TestStoppingAnswersAFetchThatWaits(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	q := fetchRequest(11, 1<<30, 1, 1<<20, 0, "orders")
	c.send(q)
	require.Eventually(t, func() bool { return d.received(fetchKey) == 1 }, time.Minute, time.Millisecond)
	d.server.Stop(context.Background())
	r, _ := c.receive(q)
	require.Empty(t, r.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestReadersThatNobodyComesBackToAreClosed(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("long", 1)
	for range 100 {
		d.appendDirectly("long", batchOf(t, record.None, strings.Repeat("x", 100_000)))
	}
	c := d.raw()
	waiting := func() int {
		n, _ := d.server.readers.Waiting()
		return n
	}
	var asked time.Time
	require.Eventually(t, func() bool {
		if waiting() == 0 && time.Since(asked) > readers.KeptTime { // nobody saw the one before
			asked = time.Now()
			require.NotEmpty(t, c.fetch(fetchRequest(11, 0, 1, 1<<20, 0, "long")).Topics[0].Partitions[0].RecordBatches)
		}
		return waiting() == 1
	}, time.Minute, time.Millisecond)
	d.server.readers.Expire(time.Now().Add(readers.KeptTime + time.Second))
	require.Zero(t, waiting())
}

func TestTheNextAnswerIsReadWhileOneIsSentAndGivenBackIfNobodyComes(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("long", 1)
	for range 200 {
		d.appendDirectly("long", batchOf(t, record.None, strings.Repeat("x", 100_000)))
	}
	c := d.raw()
	var run []byte
	waiting := func() int {
		_, chunks := d.server.readers.Waiting()
		return chunks
	}
	var asked time.Time
	require.Eventually(t, func() bool {
		if waiting() == 0 && time.Since(asked) > readers.KeptTime { // nobody saw what was read
			asked = time.Now()
			run = c.fetch(fetchRequest(11, 0, 1, 6<<20, 0, "long")).Topics[0].Partitions[0].RecordBatches
			require.Greater(t, len(run), 5<<20)
		}
		return waiting() >= 5 && d.server.fetches.Used() == int64(waiting()*readers.ChunkCost)
	}, time.Minute, time.Millisecond, "it counts against the budget")
	d.server.readers.Expire(time.Now().Add(readers.KeptTime + time.Second))
	require.Eventually(t, func() bool { return d.server.fetches.Used() == 0 }, time.Minute, time.Millisecond, "it is given back")
	require.NotEmpty(t, c.fetch(fetchRequest(11, 0, 1, 6<<20, int64(readers.LastBatch(run).End()), "long")).Topics[0].Partitions[0].RecordBatches)
}

func TestALongLogIsFetchedWithNextToNoBudget(t *testing.T) {
	t.Parallel()
	memory := budget.New(DefaultMemory)
	memory.Fetches = budget.NewPool(2 * readers.ChunkCost)
	d := open(t, t.TempDir(), Options{Memory: memory})
	d.create("long", 1)
	for range 100 {
		d.appendDirectly("long", batchOf(t, record.None, strings.Repeat("x", 100_000)))
	}
	c := d.raw()
	var got []byte
	for next := int64(0); next < 100; next = int64(readers.LastBatch(got).End()) {
		run := c.fetch(fetchRequest(11, 0, 1, 8<<20, next, "long")).Topics[0].Partitions[0].RecordBatches
		require.NotEmpty(t, run)
		got = append(got, run...)
	}
	require.Equal(t, d.stored("long"), got)
}

func TestWhatWasVerifiedIsSentFromItsFileAndIsTheSame(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]vfs.FS{"the system's files": nil, "files that the system cannot send": faultdisk.New(1)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if disk != nil {
				dir = "data"
			}
			d := openOn(t, dir, Options{}, disk)
			d.create("long", 1)
			const records = 260 // more than a log keeps in memory
			for i := range records {
				d.appendDirectly("long", batchOf(t, record.None, strings.Repeat(string(rune('a'+i%26)), 100_000)))
			}
			c := d.raw()
			read := func() (all []byte) {
				for next := int64(0); next < records; next = int64(readers.LastBatch(all).End()) {
					run := c.fetch(fetchRequest(11, 0, 1, 1<<20, next, "long")).Topics[0].Partitions[0].RecordBatches
					require.NotEmpty(t, run)
					all = append(all, run...)
				}
				return all
			}
			require.Equal(t, d.stored("long"), read())
			before := testutil.ToFloat64(d.server.metrics.fromFiles)
			require.Equal(t, d.stored("long"), read())
			require.Greater(t, testutil.ToFloat64(d.server.metrics.fromFiles)-before, float64(5<<20))
		})
	}
}
