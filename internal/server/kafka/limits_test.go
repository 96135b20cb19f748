package kafkaserver

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// allocated is how much f, and all that happens meanwhile, allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// header of a request without its length.
func header(key, version int16) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 1)
	return binary.BigEndian.AppendUint16(b, 0xffff) // no client id
}

func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestALengthOfTwoGiBEndsTheConnectionAndCostsNothing(t *testing.T) {
	d := openNew(t)
	for _, length := range []uint32{1<<31 - 1, MaxProduceBytes + 1, 1 << 31, 1<<32 - 1, 0, 7} {
		c := d.raw()
		cost := allocated(func() {
			_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, length), header(produceKey, 9)...))
			require.NoError(t, err)
			_, err = c.Read(make([]byte, 1))
			require.Error(t, err)
		})
		require.Less(t, cost, int64(1<<20), "length %d", length)
		require.Zero(t, d.server.requests.Used())
	}
}

func TestALargeRequestThatIsNoProduceEndsTheConnection(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, MaxCallBytes+1), header(kmsg.Metadata.Int16(), 1)...))
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
}

// Counts that claim more than is there, in every place that has a count.
func TestACountOfTwoToThe31EndsTheConnectionAndCostsNothing(t *testing.T) {
	d := openNew(t)
	huge := []byte{0x7f, 0xff, 0xff, 0xff}
	hugeVarint := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	frames := map[string][]byte{
		"topics of Metadata":         append(header(kmsg.Metadata.Int16(), 1), huge...),
		"topics of Metadata, varint": append(append(header(kmsg.Metadata.Int16(), 9), 0), hugeVarint...),
		"tags of a header":           append(header(kmsg.Metadata.Int16(), 9), hugeVarint...),
		"tags of a request":          append(append(header(kmsg.ListGroups.Int16(), 3), 0), hugeVarint...),
		"topics of Produce":          append(append(header(produceKey, 3), 0xff, 0xff, 0, 1, 0, 0, 0, 0), huge...),
		"as many as there are bytes": append(append(header(kmsg.CreateTopics.Int16(), 1), 0, 8, 0, 0), make([]byte, 1<<19)...),
	}
	for name, body := range frames {
		c := d.raw()
		began := time.Now()
		cost := allocated(func() {
			_, err := c.Write(framed(body))
			require.NoError(t, err)
			_, err = c.Read(make([]byte, 1))
			require.Error(t, err, name)
		})
		require.Less(t, cost, int64(8<<20), name)
		require.Less(t, time.Since(began), time.Minute, name) // four thousand million tags would take minutes
	}
	require.Eventually(t, func() bool { return d.server.requests.Used()+d.server.calls.Used() == 0 }, time.Minute, time.Millisecond)
}

func TestABatchThatInflatesAThousandTimesIsRefusedInBoundedMemory(t *testing.T) {
	d := openNew(t)
	d.create("orders", 1)
	var bomb []byte
	for _, codec := range []record.Codec{record.Gzip, record.Zstd} {
		var b record.Builder
		b.Reset(nil)
		value := bytes.Repeat([]byte{0}, 8<<20)
		require.NoError(t, b.Add(record.Record{Value: value}))
		require.NoError(t, b.Add(record.Record{Value: value[:7<<20]}))
		batch, err := b.Finish(codec)
		require.NoError(t, err)
		require.Less(t, len(batch)*500, 15<<20)
		bomb = batch
	}
	cost := allocated(func() {
		var sent []*raw
		for range 8 {
			c := d.raw()
			c.send(produceRequest("orders", acksAll, bomb))
			sent = append(sent, c)
		}
		for _, c := range sent {
			r, _ := c.receive(produceRequest("", 0, nil))
			require.Zero(t, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, "15 MiB are no bomb yet")
		}
	})
	require.Less(t, cost, int64(1<<30))
}

func TestABatchBeyondTheLimitIsRefusedWithIt(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	huge := append(batchOf(t, record.None, "x"), make([]byte, record.MaxBatchBytes)...)
	binary.BigEndian.PutUint32(huge[8:], uint32(len(huge)-12))
	p := d.raw().produce("orders", acksAll, huge)
	require.Equal(t, kerr.MessageTooLarge.Code, p.ErrorCode)
	largest := batchOf(t, record.None, strings.Repeat("x", record.MaxRecordBytes))
	require.Zero(t, d.raw().produce("orders", acksAll, largest).ErrorCode)
	got := d.raw().fetch(fetchRequest(11, 0, 1, 1, 0, "orders")).Topics[0].Partitions[0].RecordBatches
	require.Equal(t, d.stored("orders"), got, "a first batch is fetched whole, whatever the limit")
}

func TestConnectionsBeyondTheLimitAreClosedAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), Options{MaxConnections: 2})
	first, second := d.raw(), d.raw()
	q := kmsg.NewPtrApiVersionsRequest()
	for _, c := range []*raw{first, second} {
		c.send(q)
		c.receive(q)
	}
	d.raw().closed()
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return d.server.open() == 1 }, time.Minute, time.Millisecond)
	c := d.raw()
	c.send(q)
	c.receive(q)
}

func TestAClientThatTakesNoAnswersIsNotReadOnFor(t *testing.T) {
	t.Parallel()
	memory := budget.New(DefaultMemory)
	memory.Appends = budget.NewPool(1 << 20)
	d := open(t, t.TempDir(), Options{Memory: memory})
	d.create("orders", 1)
	c := d.raw()
	batch := batchOf(t, record.None, strings.Repeat("x", 100_000))
	// Without acks nothing is answered, so only the budget holds it up; with
	// it, all of this passes through a MiB.
	for range 50 {
		c.send(produceRequest("orders", acksNone, batch))
	}
	require.Zero(t, c.produce("orders", acksAll, batch).ErrorCode)
	require.Equal(t, 51, countRecords(t, d.stored("orders")))
	require.Eventually(t, func() bool { return d.server.requests.Used() == 0 }, time.Minute, time.Millisecond)
}

func TestWhatIsNotKafkaEndsTheConnection(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", string(framed(header(9999, 0))), string(framed(header(kmsg.Metadata.Int16(), 99)))} {
		c := d.raw()
		_, err := c.Write([]byte(text))
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
}
