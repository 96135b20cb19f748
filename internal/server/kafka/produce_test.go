package kafkaserver

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/topics"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
)

func TestWhatAClientProducesItConsumes(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.client(kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"))
	for _, v := range []string{"a", "b", "c"} {
		require.NoError(t, c.ProduceSync(d.ctx(), kgo.StringRecord(v)).FirstErr())
	}
	records := d.poll(c, 3)
	require.Equal(t, []string{"a", "b", "c"}, values(records))
	for i, r := range records {
		require.EqualValues(t, i, r.Offset)
	}
}

func TestBatchesStayCompressedAsTheirProducerMadeThem(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for name, codec := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		d.create(name, 1)
		c := d.client(kgo.DefaultProduceTopic(name), kgo.ConsumeTopics(name), kgo.ProducerBatchCompression(codec))
		value := string(make([]byte, 10_000))
		require.NoError(t, c.ProduceSync(d.ctx(), kgo.StringRecord(value)).FirstErr())
		require.Equal(t, []string{value}, values(d.poll(c, 1)))
		stored := record.Batch(d.stored(name))
		require.Equal(t, name, stored.Compression().String())
		require.Less(t, len(stored), 1000)
	}
}

// sequenced gives a batch a producer's id, epoch and sequence.
func sequenced(b record.Batch, id int64, epoch int16, sequence int32) record.Batch {
	b = append(record.Batch(nil), b...)
	binary.BigEndian.PutUint64(b[43:], uint64(id))
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(sequence))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// produce sends one batch and returns the answer for its partition.
func (c *raw) produce(topic string, acks int16, batch []byte) kmsg.ProduceResponseTopicPartition {
	c.Helper()
	q := produceRequest(topic, acks, batch)
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// The requests of one producer, as Kafka's clients see them; the transcripts of
// internal/sequence cover the rest.
func TestAnIdempotentProducerIsHeldToItsSequence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	two := batchOf(t, record.None, "a", "b")
	story := func(d *testServer, steps [][]int64) {
		c := d.raw()
		for i, s := range steps {
			id, epoch, sequence, offset, code := s[0], int16(s[1]), int32(s[2]), s[3], int16(s[4])
			p := c.produce("orders", acksAll, sequenced(two, id, epoch, sequence))
			require.Equal(t, code, p.ErrorCode, "step %d: %v", i, p.ErrorMessage)
			require.Equal(t, offset, p.BaseOffset, "step %d", i)
		}
	}
	none := int64(-1)
	d := open(t, dir, Options{})
	d.create("orders", 1)
	story(d, [][]int64{ // id, epoch, sequence, offset, code
		{7, 0, 5, none, int64(kerr.UnknownProducerID.Code)},
		{7, 0, 0, 0, 0},
		{7, 0, 0, 0, 0}, // again: the first answer
		{7, 0, 2, 2, 0},
		{7, 0, 6, none, int64(kerr.OutOfOrderSequenceNumber.Code)},
		{7, 1, 0, 4, 0},
		{7, 0, 4, none, int64(kerr.InvalidProducerEpoch.Code)},
		{8, 3, 0, 6, 0},
	})
	d.server.Stop(t.Context())
	require.NoError(t, d.node.Close(t.Context()))

	d = open(t, dir, Options{})
	story(d, [][]int64{
		{7, 1, 0, 4, 0}, // still a duplicate
		{7, 1, 2, 8, 0},
		{7, 1, 6, none, int64(kerr.OutOfOrderSequenceNumber.Code)},
	})
}

// Java's producer compares the start with what it sent last, to find out that the
// log has forgotten it. Without one it sends the same batch until its time is up.
func TestAnUnknownProducerGetsTheStartOfTheLog(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	batch := batchOf(t, record.None, "a", "b")
	require.Zero(t, c.produce("orders", acksAll, batch).ErrorCode)
	_, _, err := d.node.Trim(t.Context(), verbs.Caller{}, "orders", 1, false)
	require.NoError(t, err)
	p := c.produce("orders", acksAll, sequenced(batch, 7, 0, 5))
	require.Equal(t, kerr.UnknownProducerID.Code, p.ErrorCode)
	require.EqualValues(t, 1, p.LogStartOffset)
	require.EqualValues(t, -1, p.BaseOffset)
}

func TestEveryProducerGetsAnIdOfItsOwn(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.client()
	seen := map[int64]bool{}
	for range 5 {
		r := request[*kmsg.InitProducerIDResponse](d, c, kmsg.NewPtrInitProducerIDRequest())
		require.Zero(t, r.ErrorCode)
		require.Zero(t, r.ProducerEpoch)
		require.False(t, seen[r.ProducerID])
		seen[r.ProducerID] = true
	}
	q := kmsg.NewPtrInitProducerIDRequest()
	q.TransactionalID = new("transfers")
	q.Version = 4
	r := d.raw()
	r.send(q)
	refused, _ := r.receive(q)
	require.Equal(t, kerr.TransactionalIDAuthorizationFailed.Code, refused.(*kmsg.InitProducerIDResponse).ErrorCode)
}

func TestRequestsOnOneConnectionAreAnsweredInOrderWhileManyAreInFlight(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	const n = 500 // more than may be unanswered: the rest waits its turn
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 4
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "orders"
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = topics.TimeLatest, -1
	topic.Partitions = append(topic.Partitions, p)
	list.Topics = append(list.Topics, topic)
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			frame := c.frame(produceRequest("orders", acksAll, batchOf(t, record.None, fmt.Sprint(i))))
			if _, err := c.Write(append(frame, c.frame(list)...)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range n {
		produced, id := c.receive(produceRequest("", 0, nil))
		require.EqualValues(t, 2*i+1, id)
		require.EqualValues(t, i, produced.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
		listed, id := c.receive(list)
		require.EqualValues(t, 2*i+2, id)
		require.Greater(t, listed.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset, int64(i), "what was acknowledged is below the end")
	}
	require.NoError(t, <-sent)
}

func TestWithoutAcksThereIsNoAnswerAndARefusalEndsTheConnection(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	c.send(produceRequest("orders", acksNone, batchOf(t, record.None, "a")))
	require.Zero(t, c.produce("orders", acksAll, batchOf(t, record.None, "b")).ErrorCode)
	require.Equal(t, 2, countRecords(t, d.stored("orders")))
	c.send(produceRequest("missing", acksNone, batchOf(t, record.None, "c")))
	c.closed()
}

func countRecords(t *testing.T, run []byte) (n int) {
	t.Helper()
	for len(run) > 0 {
		b, rest, err := record.Split(run)
		require.NoError(t, err)
		n += b.Count()
		run = rest
	}
	return n
}

func TestBadBatchesAreRefusedAndTheConnectionGoesOn(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	good := batchOf(t, record.None, "a", "b")
	damaged := append(record.Batch(nil), good...)
	damaged[len(damaged)-1]++
	control := sequenced(good, -1, -1, -1)
	control[22] |= 1 << 5
	control = sequenced(control, -1, -1, -1)
	c := d.raw()
	for name, batch := range map[string][]byte{
		"nothing": nil, "cut": good[:40], "shorter than it says": good[:len(good)-1],
		"two": append(append([]byte(nil), good...), good...), "control": control,
		"half a producer": sequenced(good, 7, -1, 0), "nobody's id": sequenced(good, 0, 0, 0),
	} {
		p := c.produce("orders", acksAll, batch)
		require.Equal(t, kerr.InvalidRecord.Code, p.ErrorCode, name)
		require.NotNil(t, p.ErrorMessage, name)
	}
	require.Equal(t, kerr.CorruptMessage.Code, c.produce("orders", acksAll, damaged).ErrorCode, "retried by clients, which have it whole")
	old := append(record.Batch(nil), damaged...)
	old[16] = 1
	require.Equal(t, kerr.InvalidRecord.Code, c.produce("orders", acksAll, old).ErrorCode, "of an older format")
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.produce("missing", acksAll, good).ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.produce("_offsets", acksAll, good).ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.produce("_catalog", acksAll, good).ErrorCode)
	require.Equal(t, kerr.InvalidRequiredAcks.Code, c.produce("orders", 2, good).ErrorCode)
	require.Zero(t, c.produce("orders", acksAll, good).ErrorCode)
}

func TestProduceIsAnnouncedFromVersionZeroAndRefusedBelowThree(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	for version := range int16(3) {
		q := produceRequest("orders", acksAll, []byte("an old message set"))
		q.Version = version
		c.send(q)
		r, _ := c.receive(q)
		require.Equal(t, kerr.UnsupportedForMessageFormat.Code, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	q := produceRequest("orders", acksAll, batchOf(t, record.None, "a"))
	q.TransactionID = new("transfers")
	c.send(q)
	r, _ := c.receive(q)
	require.Equal(t, kerr.TransactionalIDAuthorizationFailed.Code, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	for version := int16(3); version <= 11; version++ {
		q := produceRequest("orders", acksAll, batchOf(t, record.None, "a"))
		q.Version = version
		c.send(q)
		r, _ := c.receive(q)
		require.Zero(t, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
}

func TestAcksOfTheLeaderComeBeforeTheSyncAndShowNothingToReaders(t *testing.T) {
	t.Parallel()
	disk := &syncdisk.Disk{FS: vfs.OS()}
	d := openOn(t, t.TempDir(), Options{}, disk)
	d.create("orders", 1)
	c := d.raw()

	open := disk.Hold()
	defer open() // or a failed test could not close its node
	p := c.produce("orders", acksLeader, batchOf(t, record.None, "a", "b"))
	require.Zero(t, p.ErrorCode)
	require.Zero(t, p.BaseOffset)
	b, err := d.node.Bounds(verbs.Caller{}, "orders")
	require.NoError(t, err)
	require.Zero(t, b.End, "nothing is committed, so nobody sees it")
	require.Empty(t, d.raw().fetch(fetchRequest(11, 0, 1, 1<<20, 0, "orders")).Topics[0].Partitions[0].RecordBatches)
	open()

	require.EqualValues(t, 2, c.produce("orders", acksAll, batchOf(t, record.None, "c")).BaseOffset)
	require.Equal(t, 3, countRecords(t, d.stored("orders")))
}

func TestALogInMemoryAnswersTheLeadersAcksToo(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	_, err := d.node.CreateLog(t.Context(), verbs.Caller{}, "orders", settings.Config{Durability: settings.Memory})
	require.NoError(t, err)
	for i := range 10 {
		p := d.raw().produce("orders", acksLeader, batchOf(t, record.None, "a"))
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, i, p.BaseOffset)
	}
}
