package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"strandline.dev/api/logspec"
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	kafkaserver "strandline.dev/internal/server/kafka"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/wire"
)

// sizedPort is a port of a node, as clients of one kind use it.
type sizedPort struct {
	name   string
	append func(t *testing.T, value []byte)        // behind what was appended before; nil: it only reads
	read   func(t *testing.T, from int64) [][]byte // two of them
}

// largestTexts is the memory of a node that has room for the largest request as JSON.
const largestTexts = 8 << 30

// What a limit allows to be appended is taken and answered by every port: the largest record, with a small one in
// front of it. Each port reads what another has appended.
func TestTheLargestRecordPassesEveryPort(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(t *testing.T) {
			t.Parallel()
			o := alone(t, t.TempDir())
			o.LogspecLog, o.Node.Memory = "orders", largestTexts
			options := []client.Option{client.WithRetryTime(time.Minute)}
			var certificates *tls.Config
			if encrypted {
				a := newAuthority(t)
				o.Node.Name, o.Credentials = "a", a.credentials("a")
				f := a.user("alice")
				options = append(options, client.WithCertificates(f.Authority, f.Certificate, f.Key))
				certificates = a.credentials("a").Client("127.0.0.1")
			}
			node, err := Start(o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, node.Close()) })
			ports := []sizedPort{
				byClient(t, "streams without HTTP/2", node.GRPC(), options...),
				byClient(t, "gRPC", node.GRPC(), append(options, client.WithStreamsOverGRPC())...),
				byKafka(t, node.Kafka(), certificates),
				byLogspec(t, node.GRPC(), certificates),
				byJSON(node.HTTP(), certificates),
			}
			readers := append(ports, byStream(node.HTTP(), certificates))
			largest := func(by int) []byte { return bytes.Repeat([]byte{'a' + byte(by)}, client.MaxRecordBytes) }
			for i, p := range ports {
				p.append(t, []byte(p.name))
				p.append(t, largest(i))
			}
			for i, p := range readers {
				other := (i + 1) % len(ports)
				got := p.read(t, int64(2*other))
				require.Len(t, got, 2, p.name)
				require.Equal(t, ports[other].name, string(got[0]))
				require.True(t, bytes.Equal(largest(other), got[1]), "what %s has appended, read by %s", ports[other].name, p.name)
			}
		})
	}
}

func byClient(t *testing.T, name, address string, options ...client.Option) sizedPort {
	c, err := client.Dial([]string{address}, options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	if err != nil {
		require.ErrorIs(t, err, client.ErrLogExists)
	}
	return sizedPort{name,
		func(t *testing.T, value []byte) {
			p, err := c.Producer(t.Context(), "orders")
			require.NoError(t, err)
			_, err = p.Append(t.Context(), value)
			require.NoError(t, err, name)
			require.NoError(t, p.Close(t.Context()))
		},
		func(t *testing.T, from int64) (values [][]byte) {
			r, err := c.Reader(t.Context(), "orders", client.WithStartOffset(from), client.WithEndOffset(from+2))
			require.NoError(t, err)
			defer r.Close()
			for range 2 {
				record, err := r.Next(t.Context())
				require.NoError(t, err, name)
				values = append(values, bytes.Clone(record.Value))
			}
			return values
		},
	}
}

func byKafka(t *testing.T, address string, certificates *tls.Config) sizedPort {
	options := []kgo.Opt{
		kgo.SeedBrokers(address), kgo.ProducerBatchMaxBytes(client.MaxRecordBytes + 1<<20), kgo.BrokerMaxWriteBytes(64 << 20),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DefaultProduceTopic("orders"),
	}
	if certificates != nil {
		options = append(options, kgo.DialTLSConfig(certificates))
	}
	return sizedPort{"Kafka",
		func(t *testing.T, value []byte) {
			c, err := kgo.NewClient(options...)
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Value: value}).FirstErr())
		},
		func(t *testing.T, from int64) (values [][]byte) {
			begin := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(from)}})
			c, err := kgo.NewClient(append(options, begin, kgo.FetchMaxPartitionBytes(client.MaxRecordBytes))...)
			require.NoError(t, err)
			defer c.Close()
			for len(values) < 2 {
				fetched := c.PollFetches(t.Context())
				require.NoError(t, fetched.Err())
				fetched.EachRecord(func(r *kgo.Record) { values = append(values, r.Value) })
			}
			return values[:2]
		},
	}
}

func byLogspec(t *testing.T, address string, certificates *tls.Config) sizedPort {
	transport := insecure.NewCredentials()
	if certificates != nil {
		transport = credentials.NewTLS(certificates)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return sizedPort{"logspec",
		func(t *testing.T, value []byte) {
			stream, err := logspec.NewLogClient(conn).Append(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.Send(&logspec.AppendRequest{Sequence: 1, Proposals: [][]byte{value}}))
			reply, err := stream.Recv()
			require.NoError(t, err)
			require.Len(t, reply.GetOk().GetIndexes(), 1)
			require.NoError(t, stream.CloseSend())
		},
		func(t *testing.T, from int64) (values [][]byte) {
			ctx, cancel := context.WithCancel(t.Context()) // it follows the log
			defer cancel()
			stream, err := logspec.NewLogClient(conn).Read(ctx, &logspec.ReadRequest{NextIndex: uint64(from) + 1})
			require.NoError(t, err)
			for len(values) < 2 {
				reply, err := stream.Recv()
				require.NoError(t, err)
				for _, e := range reply.GetOk().GetEntries() {
					values = append(values, e.Data)
				}
			}
			return values[:2]
		},
	}
}

// httpClient makes a client of an HTTP port, and returns the beginning of its URLs.
func httpClient(address string, certificates *tls.Config) (c *http.Client, url string) {
	if certificates == nil {
		return http.DefaultClient, "http://" + address
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: certificates, DisableKeepAlives: true}}, "https://" + address
}

func byJSON(address string, certificates *tls.Config) sizedPort {
	c, url := httpClient(address, certificates)
	call := func(t *testing.T, method, text string) *json.Decoder {
		r, err := c.Post(url+"/strandline.v1.LogService/"+method, "application/json", strings.NewReader(text))
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Body.Close() })
		require.Equal(t, http.StatusOK, r.StatusCode)
		return json.NewDecoder(r.Body)
	}
	return sizedPort{"JSON over HTTP",
		func(t *testing.T, value []byte) {
			var answer struct {
				Result struct{ Appended json.RawMessage }
			}
			require.NoError(t, call(t, "Append", `{"log":"orders","records":[{"value":"`+base64.StdEncoding.EncodeToString(value)+`"}]}`).Decode(&answer))
			require.NotEmpty(t, answer.Result.Appended)
		},
		func(t *testing.T, from int64) (values [][]byte) {
			frames := call(t, "Read", fmt.Sprintf(`{"log":"orders","offset":"%d","maxRecords":"2"}`, from))
			for len(values) < 2 {
				var frame struct {
					Result struct{ Records []struct{ Value []byte } }
				}
				require.NoError(t, frames.Decode(&frame))
				for _, r := range frame.Result.Records {
					values = append(values, r.Value)
				}
			}
			return values
		},
	}
}

// byStream reads the log as a stream over HTTP. It is none that is written so.
func byStream(address string, certificates *tls.Config) sizedPort {
	c, url := httpClient(address, certificates)
	return sizedPort{"streams over HTTP", nil, func(t *testing.T, from int64) (values [][]byte) {
		next := fmt.Sprintf("%020d", from)
		for len(values) < 2 {
			r, err := c.Get(url + "/streams/orders?offset=" + next)
			require.NoError(t, err)
			var messages []struct{ Value string }
			err = json.NewDecoder(r.Body).Decode(&messages)
			_ = r.Body.Close()
			require.NoError(t, err)
			require.NotEmpty(t, messages)
			for _, m := range messages {
				values = append(values, []byte(m.Value))
			}
			next = r.Header.Get("Stream-Next-Offset")
		}
		return values[:2]
	}}
}

// sizedNode is a node with memory for the largest of everything, and a log named orders.
func sizedNode(t *testing.T) *Server {
	return startJSON(t, func(o *Options) { o.Node.Memory = largestTexts })
}

// sendsAppend makes one request to append, on a stream of its own.
type sendsAppend func(q *strandlinev1.AppendRequest) *strandlinev1.AppendResponse

func byStreams(t *testing.T, address string) map[string]sendsAppend {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	streams := &lean.Client{Codec: wire.Codec, MaxMessage: rpc.MaxRequestBytes, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	const method = "/strandline.v1.LogService/Append"
	by := func(open func(context.Context) (grpc.ClientStream, error)) sendsAppend {
		return func(q *strandlinev1.AppendRequest) *strandlinev1.AppendResponse {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := open(ctx)
			require.NoError(t, err)
			require.NoError(t, stream.SendMsg(q))
			answer := &strandlinev1.AppendResponse{}
			require.NoError(t, stream.RecvMsg(answer))
			return answer
		}
	}
	return map[string]sendsAppend{
		"streams without HTTP/2": by(func(ctx context.Context) (grpc.ClientStream, error) { return streams.NewStream(ctx, method) }),
		"gRPC": by(func(ctx context.Context) (grpc.ClientStream, error) {
			return conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		}),
	}
}

// The largest append whose records are durable together or not at all is taken by every port that takes such appends,
// and its batches are read as they were sent.
func TestTheLargestAtomicAppendPassesEveryPort(t *testing.T) {
	t.Parallel()
	node := sizedNode(t)
	reader := byClient(t, "streams without HTTP/2", node.GRPC())
	ports := byStreams(t, node.GRPC())
	ports["JSON over HTTP"] = func(q *strandlinev1.AppendRequest) *strandlinev1.AppendResponse {
		text, err := protojson.Marshal(q)
		require.NoError(t, err)
		status, line := post(t, node, "LogService/Append", string(text))
		require.Equal(t, http.StatusOK, status, line)
		var answer struct{ Result json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(line), &answer), line)
		made := &strandlinev1.AppendResponse{}
		require.NoError(t, protojson.Unmarshal(answer.Result, made))
		return made
	}
	const header, ofBatch = 40, 48 // bytes of an entry beside its batches
	batches, values := filled(t, record.MaxEntryBytes-header, ofBatch)
	for name, sends := range ports {
		q := &strandlinev1.AppendRequest{Log: "orders", Atomic: true, Batches: batches}
		answer := sends(q)
		require.NotNil(t, answer.GetAppended(), "%s: %v", name, answer.GetRefused())
		requireValues(t, reader, answer.GetAppended().GetFirstOffset(), values, name)

		q.Batches = slices.Concat(batches, batchOf(t, nil))
		require.Equal(t, "TOO_LARGE", sends(q).GetRefused().GetReason(), name)
	}
}

// The largest request, some of the largest batches, is taken by every port that takes batches.
func TestTheLargestRequestPassesEveryPort(t *testing.T) {
	t.Parallel()
	node := sizedNode(t)
	reader := byClient(t, "streams without HTTP/2", node.GRPC())
	beside := proto.Size(&strandlinev1.AppendRequest{Log: "orders", Batches: make([]byte, rpc.MaxRequestBytes/2)}) - rpc.MaxRequestBytes/2
	batches, values := filled(t, rpc.MaxRequestBytes-beside, 0)
	q := &strandlinev1.AppendRequest{Log: "orders", Batches: batches}
	require.Equal(t, rpc.MaxRequestBytes, proto.Size(q))
	for name, sends := range byStreams(t, node.GRPC()) {
		answer := sends(q)
		require.NotNil(t, answer.GetAppended(), "%s: %v", name, answer.GetRefused())
		requireValues(t, reader, answer.GetAppended().GetFirstOffset(), values, name)
	}

	// A Produce has one batch for each topic.
	p := kmsg.NewPtrProduceRequest()
	p.Version, p.Acks, p.TimeoutMillis = 9, -1, 60_000
	left := kafkaserver.MaxProduceBytes
	for i := 0; left > 0; i++ {
		topic := fmt.Sprint("topic-", i)
		status, answer := post(t, node, "CatalogService/CreateLog", `{"name":"`+topic+`"}`)
		require.Equal(t, http.StatusOK, status, answer)
		p.Topics = append(p.Topics, kmsg.ProduceRequestTopic{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batchOf(t, values[0])}}})
		if left = kafkaserver.MaxProduceBytes - len(produceFrame(p)); left < 0 {
			last := &p.Topics[i].Partitions[0]
			last.Records = batchOf(t, values[0][:len(values[0])+left])
			left = 0
		}
	}
	sent := produceFrame(p)
	require.Len(t, sent, kafkaserver.MaxProduceBytes)
	conn, err := net.Dial("tcp", node.Kafka())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(sent))), sent...))
	require.NoError(t, err)
	head := make([]byte, 9) // length, correlation id, no tags
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	body := make([]byte, binary.BigEndian.Uint32(head)-5)
	_, err = io.ReadFull(conn, body)
	require.NoError(t, err)
	answer := kmsg.NewPtrProduceResponse()
	answer.Version = p.Version
	require.NoError(t, answer.ReadFrom(body))
	require.Len(t, answer.Topics, len(p.Topics))
	for _, topic := range answer.Topics {
		require.Zero(t, topic.Partitions[0].ErrorCode, topic.Topic)
	}
}

// produceFrame is a request of Kafka's without its length.
func produceFrame(q kmsg.Request) []byte {
	return kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)[4:]
}

// requireValues reads the values of records from an offset on.
func requireValues(t *testing.T, by sizedPort, from int64, values [][]byte, name string) {
	t.Helper()
	for i := range len(values) - 1 {
		got := by.read(t, from+int64(i))
		require.True(t, bytes.Equal(values[i], got[0]), "record %d by %s", i, name)
		require.True(t, bytes.Equal(values[i+1], got[1]), "record %d by %s", i+1, name)
	}
}

// filled is batches of one record each that fill a room to its last byte, the largest ones first. Each takes so many
// bytes of it beside its own.
func filled(t *testing.T, room, ofBatch int) (batches []byte, values [][]byte) {
	t.Helper()
	framing := len(batchOf(t, make([]byte, client.MaxRecordBytes))) - client.MaxRecordBytes // as much with any value from 1 MiB on
	for room > 0 {
		size := min(client.MaxRecordBytes, room-ofBatch-framing)
		value := bytes.Repeat([]byte{'a' + byte(len(values))}, size)
		batch := batchOf(t, value)
		room -= ofBatch + len(batch)
		batches, values = append(batches, batch...), append(values, value)
	}
	require.Zero(t, room)
	return batches, values
}

func batchOf(t *testing.T, value []byte) record.Batch {
	t.Helper()
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: value}))
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	return batch
}

// The largest request as JSON, some records of almost 64 MiB of text, is taken by a node that has the memory for it.
func TestTheLargestRequestPassesAsJSON(t *testing.T) {
	t.Parallel()
	n := sizedNode(t)
	const spare = 2 << 10 // for what is beside the values: of a text the last KiB is for the cost of its objects
	value := bytes.Repeat([]byte("z"), (rpc.MaxRequestBytes-spare)/4)
	text := `{"log":"orders","records":[`
	for i := range 3 {
		text += map[bool]string{true: `,`}[i > 0] + `{"value":"` + base64.StdEncoding.EncodeToString(value) + `"}`
	}
	text += `]}`
	require.Greater(t, len(text), rpc.MaxRequestBytes-2*spare)
	status, answer := post(t, n, "LogService/Append", text)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"endOffset":"3"`)
	require.Zero(t, n.node.Memory().Texts.Used())
	status, answer = post(t, n, "LogService/Append", text[:len(text)-2]+strings.Repeat(" ", 2*spare)+`]}`)
	require.NotEqual(t, http.StatusOK, status)
	require.Contains(t, answer, `"reason":"TOO_LARGE"`)
	for _, got := range byJSON(n.HTTP(), nil).read(t, 1) {
		require.True(t, bytes.Equal(value, got))
	}
}

// A batch of few bytes that inflates to the most there may be is taken by every port that takes batches, and its records
// are read as they are and by an expression.
func TestTheBatchThatInflatesToTheMostPassesEveryPort(t *testing.T) {
	t.Parallel()
	node := sizedNode(t)
	reader := byClient(t, "streams without HTTP/2", node.GRPC())
	conn, err := grpc.NewClient(node.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	defer conn.Close()
	batch, records := inflatesToTheMost(t)
	stream, err := strandlinev1.NewLogServiceClient(conn).Append(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&strandlinev1.AppendRequest{Log: "orders", Batches: batch}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, records, answer.GetAppended().GetEndOffset(), answer.GetRefused())

	// The client sends the newest version that it may, whatever q has; later ones name no topics.
	kafka, err := kgo.NewClient(kgo.SeedBrokers(node.Kafka()), kgo.BrokerMaxWriteBytes(64<<20), kgo.MaxVersions(kversion.V3_9_0()))
	require.NoError(t, err)
	defer kafka.Close()
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = -1, 60_000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: "orders", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	produced, err := kafka.SeedBrokers()[0].Request(t.Context(), q)
	require.NoError(t, err)
	require.Zero(t, produced.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)

	for _, from := range []int64{0, int64(records)} {
		for _, got := range reader.read(t, from) {
			require.Len(t, got, inflatedValue)
		}
		selected, err := strandlinev1.NewLogServiceClient(conn).Read(t.Context(), &strandlinev1.ReadRequest{
			Log: "orders", From: &strandlinev1.ReadRequest_Offset{Offset: from}, MaxRecords: 1, Filter: &strandlinev1.Filter{Where: `size > 0`},
		})
		require.NoError(t, err)
		frame, err := selected.Recv()
		require.NoError(t, err)
		require.Len(t, frame.GetRecords(), 1)
		require.Len(t, frame.GetRecords()[0].GetValue(), inflatedValue)
	}
}

// inflatedValue is the size of each value of inflatesToTheMost: with what is beside it a record has 1 MiB.
const inflatedValue = 1<<20 - 11

// inflatesToTheMost is a batch whose records inflate to record.MaxInflatedBytes, and their number.
func inflatesToTheMost(t *testing.T) (record.Batch, int) {
	t.Helper()
	var records []byte
	count := 0
	for ; len(records) < record.MaxInflatedBytes; count++ {
		body := binary.AppendVarint([]byte{0, 0}, int64(count)) // attributes, timestamp, offset
		body = binary.AppendVarint(append(body, 1), inflatedValue)
		body = append(append(body, make([]byte, inflatedValue)...), 0)
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	require.Len(t, records, record.MaxInflatedBytes)
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	section := z.EncodeAll(records, nil)
	batch := (&kmsg.RecordBatch{
		Length: int32(record.BatchHeaderSize - 12 + len(section)), PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(record.Zstd),
		LastOffsetDelta: int32(count - 1), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(count), Records: section,
	}).AppendTo(nil)
	const checked = 21
	binary.BigEndian.PutUint32(batch[checked-4:], record.Checksum(batch[checked:]))
	return batch, count
}

// A client that asks for single records, as one of another language may, gets the largest too.
func TestTheLargestRecordIsReadAsASingleRecord(t *testing.T) {
	t.Parallel()
	node, err := Start(alone(t, t.TempDir()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	large := bytes.Repeat([]byte("r"), client.MaxRecordBytes)
	byClient(t, "streams without HTTP/2", node.GRPC()).append(t, large)
	conn, err := grpc.NewClient(node.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	defer conn.Close()
	stream, err := strandlinev1.NewLogServiceClient(conn).Read(t.Context(), &strandlinev1.ReadRequest{
		Log: "orders", From: &strandlinev1.ReadRequest_Offset{Offset: 0}, MaxRecords: 1, Format: strandlinev1.ReadFormat_READ_FORMAT_RECORDS,
	})
	require.NoError(t, err)
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, answer.Records, 1)
	require.True(t, bytes.Equal(large, answer.Records[0].Value))
}
