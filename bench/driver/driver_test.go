package driver

import (
	"crypto/tls"
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/workload"
)

func TestAnAddressNamesSystemNodesAndClient(t *testing.T) {
	a, err := ParseAddress("kafka://127.0.0.1:1,127.0.0.2:2?client=sarama&name=Kafka+durable&disk=fsync+%2B+2ms&data=%2Fvar%2Flib%2Fkafka")
	require.NoError(t, err)
	require.Equal(t, Address{
		Scheme: Kafka, Nodes: []string{"127.0.0.1:1", "127.0.0.2:2"}, Client: ClientSarama,
		Name: "Kafka durable", Disk: "fsync + 2ms", Data: "/var/lib/kafka",
	}, a)
	a, err = ParseAddress("strandline://[::1]:7171/")
	require.NoError(t, err)
	require.Equal(t, []string{"[::1]:7171"}, a.Nodes)
	require.Equal(t, "strandline", a.Label())
	a, err = ParseAddress("kafka://127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, ClientFranz, a.Client)
}

func TestAnAddressThatMakesNoSenseIsRefused(t *testing.T) {
	for text, expected := range map[string]string{
		"http://127.0.0.1:1":                  "must begin with",
		"127.0.0.1:1":                         "must begin with",
		"kafka://127.0.0.1":                   "not HOST:PORT",
		"kafka://127.0.0.1:1,":                "not HOST:PORT",
		"kafka://127.0.0.1:1?driver=sarama":   `unknown option "driver"`,
		"strandline://127.0.0.1:1?client=any": "go, grpc, java, python",
		"kafka://127.0.0.1:1?client=%zz":      "invalid URL escape",
	} {
		_, err := ParseAddress(text)
		require.ErrorContains(t, err, expected, text)
	}
	_, err := Open(Address{Scheme: Kafka, Nodes: []string{"127.0.0.1:1"}, Client: "java"}, Options{})
	require.ErrorContains(t, err, "use fetch, franz, sarama")
}

func TestWhatALibraryCannotDoIsSaidAndNotDone(t *testing.T) {
	at := Topic{Brokers: []string{"127.0.0.1:1"}, Name: "t", Dial: Options{}.dial()}
	for _, s := range []workload.Sending{
		{RequestRecords: 5000},
		{Once: workload.OnceYes, InFlight: 2},
		{Once: workload.OnceYes, Acks: workload.AcksLeader},
	} {
		_, err := franz{}.Sender(at, s)
		require.ErrorIs(t, err, workload.ErrUnsupported, "%+v", s)
	}
	_, err := saramaLibrary{}.Sender(at, workload.Sending{Once: workload.OnceYes, InFlight: 5})
	require.ErrorIs(t, err, workload.ErrUnsupported)
	_, err = producerOptions(workload.Sending{Acks: workload.AcksNone})
	require.ErrorIs(t, err, workload.ErrUnsupported)
	_, err = producerOptions(workload.Sending{Compression: "lzma"})
	require.Error(t, err)
	_, err = fetchLibrary{}.Sender(at, workload.Sending{})
	require.ErrorIs(t, err, workload.ErrUnsupported)
}

// connectsAlone is a library that would be measured in another way than asked.
type connectsAlone struct{ Library }

func (connectsAlone) Dials() bool { return false }

func TestALibraryThatConnectsByItselfIsRefusedBeforeAnythingIsMade(t *testing.T) {
	brokers := []string{"127.0.0.1:1"}
	for said, o := range map[string]Options{
		"TLS":            {TLS: &tls.Config{}},
		"a delayed link": {Dial: new(net.Dialer).DialContext},
	} {
		_, err := NewKafka(brokers, o, connectsAlone{})
		require.ErrorIs(t, err, workload.ErrUnsupported)
		require.ErrorContains(t, err, said)
		system, err := NewKafka(brokers, o, franz{})
		require.NoError(t, err)
		require.NoError(t, system.Close())
	}
	system, err := NewKafka(brokers, Options{}, connectsAlone{})
	require.NoError(t, err)
	require.NoError(t, system.Close())
}

func TestSettingsSayWhatAnAcknowledgementRestsOn(t *testing.T) {
	config := workload.LogConfig{Durability: workload.Synced, Replicas: 3, Retention: time.Minute, RetentionBytes: 64 << 20}
	require.Equal(t, map[string]string{
		"flush.messages": "1", "min.insync.replicas": "2",
		"retention.ms": "60000", "segment.ms": "12000", "retention.bytes": "67108864", "segment.bytes": "16777216",
	}, kafkaSettings(config))
	require.Equal(t, map[string]string{
		"strandline.durability": "disk", "retention.ms": "60000", "retention.bytes": "67108864",
	}, ourSettings(config))
	require.Equal(t, map[string]string{"flush.messages": "9223372036854775807"}, kafkaSettings(workload.LogConfig{Durability: workload.Unsynced}),
		"Kafka's default")

	topic := kafkaTopic{replicas: 3, configs: map[string]string{"flush.messages": "1", "min.insync.replicas": "2"}}
	require.Equal(t, "fsync (flush.messages=1), 2 of 3", topic.Durability())
	topic.configs = map[string]string{"flush.messages": "9223372036854775807", "min.insync.replicas": "1"}
	require.Equal(t, "no fsync (Kafka's default), at least 1 of 3", topic.Durability())
	topic.configs = map[string]string{"strandline.durability": "disk"}
	require.Equal(t, "fsync, 2 of 3", topic.Durability())
	topic.configs = nil
	require.Equal(t, "as the server decides, 2 of 3", topic.Durability())
}

// batch is one of format v2 with the offsets [first, first+count).
func batch(first int64, count int32, body int) []byte {
	b := make([]byte, 61+body)
	binary.BigEndian.PutUint64(b, uint64(first))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[23:], uint32(count-1))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestFetchedBatchesMustFollowEachOtherWhole(t *testing.T) {
	two := append(batch(5, 10, 100), batch(15, 1, 0)...)
	next, err := walkBatches(two, 7) // an answer begins with the whole batch
	require.NoError(t, err)
	require.EqualValues(t, 16, next)

	next, err = walkBatches(append(batch(5, 10, 100), batch(15, 1, 50)[:80]...), 5)
	require.NoError(t, err, "the last may be cut off")
	require.EqualValues(t, 15, next)

	_, err = walkBatches(append(batch(5, 10, 100), batch(16, 1, 0)...), 5)
	require.ErrorContains(t, err, "expected a batch at offset 15, got one of [16, 17)")

	damaged := batch(5, 10, 100)
	damaged[99] ^= 1
	_, err = walkBatches(damaged, 5)
	require.ErrorContains(t, err, "damaged")

	binary.BigEndian.PutUint32(damaged[8:], 3)
	_, err = walkBatches(damaged, 5)
	require.ErrorContains(t, err, "claims 15 bytes")
}

func TestARecordIsHandedOutOnce(t *testing.T) {
	r := remaining{next: 5, until: 8}
	var taken []int64
	for offset := range int64(10) {
		if r.take(offset) {
			taken = append(taken, offset)
		}
	}
	require.Equal(t, []int64{5, 6, 7}, taken)
	require.False(t, r.take(6))
}
