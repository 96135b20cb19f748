package kafkaserver

import (
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) {
	// Clients and groups wait for each other in most tests: more of them than processors go side by side.
	_ = flag.Set("test.parallel", "4")
	leaks.Main(m)
}

// testServer is a node with a Kafka port, in this process.
type testServer struct {
	testing.TB
	node    *node.Node
	server  *Server
	address string
	stop    func() // of a member of a cluster
}

func open(t testing.TB, dir string, o Options) *testServer {
	t.Helper()
	return openOn(t, dir, o, nil)
}

func openOn(t testing.TB, dir string, o Options, disk vfs.FS) *testServer {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	n, err := node.Open(settings.Options{DataDir: dir, FormAlone: true, GRPCAddress: "self", SegmentBytes: 4 << 20, Disk: disk, Logger: quiet})
	require.NoError(t, err)
	o.Logger = cmp.Or(o.Logger, quiet)
	d := &testServer{TB: t, node: n, server: New(guard.New(n, guard.Options{}), o)}
	l, err := net.Listen("tcp", "127.5.0.1:0")
	require.NoError(t, err)
	d.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(l) }()
	t.Cleanup(func() {
		d.server.Stop(context.Background())
		require.NoError(t, <-served)
		require.NoError(t, n.Close(context.Background()))
	})
	return d
}

// over opens another server to the same node, as n shows it.
func (d *testServer) over(n backend.Node) *testServer { return d.overWith(n, Options{}) }

func (d *testServer) overWith(n backend.Node, o Options) *testServer {
	d.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	other := &testServer{TB: d.TB, node: d.node, server: New(n, o)}
	l, err := net.Listen("tcp", "127.5.0.1:0")
	require.NoError(d, err)
	other.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- other.server.Serve(l) }()
	d.Cleanup(func() {
		other.server.Stop(context.Background())
		require.NoError(d, <-served)
	})
	return other
}

func openNew(t *testing.T) *testServer { return open(t, t.TempDir(), Options{}) }

// client is franz-go's, which picks versions and codecs by itself.
func (d *testServer) client(options ...kgo.Opt) *kgo.Client {
	d.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(d.address), kgo.DialTimeout(time.Minute)}, options...)...)
	require.NoError(d, err)
	d.Cleanup(c.Close)
	return c
}

// ctx ends a test that hangs.
func (d *testServer) ctx() context.Context {
	ctx, cancel := context.WithTimeout(d.Context(), 2*time.Minute)
	d.Cleanup(cancel)
	return ctx
}

// request sends one request of kmsg to the server, at its version.
func request[R any](d *testServer, c *kgo.Client, q kmsg.Request) R {
	d.Helper()
	r, err := c.Request(d.ctx(), q)
	require.NoError(d, err)
	return any(r).(R)
}

func (d *testServer) create(topic string, partitions int32) {
	d.Helper()
	d.createReplicated(topic, partitions, 1)
}

func (d *testServer) createReplicated(topic string, partitions int32, replicas int16) {
	d.Helper()
	q := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, replicas
	q.Topics = append(q.Topics, t)
	r := request[*kmsg.CreateTopicsResponse](d, d.client(), q)
	require.Zero(d, r.Topics[0].ErrorCode, r.Topics[0].ErrorMessage)
}

// poll reads records until there are n.
func (d *testServer) poll(c *kgo.Client, n int) []*kgo.Record {
	d.Helper()
	var records []*kgo.Record
	for ctx := d.ctx(); len(records) < n; {
		fetches := c.PollFetches(ctx)
		require.NoError(d, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

func values(records []*kgo.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return all
}

// raw is a connection that requests are written to byte by byte.
type raw struct {
	testing.TB
	net.Conn
	correlation int32
}

func (d *testServer) raw() *raw {
	d.Helper()
	conn, err := net.Dial("tcp", d.address)
	require.NoError(d, err)
	d.Cleanup(func() { _ = conn.Close() })
	c := &raw{TB: d.TB, Conn: conn}
	c.limit()
	return c
}

// limit ends a test that hangs: reading and writing may take a minute from now on.
func (c *raw) limit() {
	c.Helper()
	require.NoError(c, c.SetDeadline(time.Now().Add(time.Minute)))
}

// frame is a whole request with its length and header.
func (c *raw) frame(q kmsg.Request) []byte {
	c.correlation++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, q, c.correlation)
}

func (c *raw) send(q kmsg.Request) {
	c.Helper()
	c.limit()
	_, err := c.Write(c.frame(q))
	require.NoError(c, err)
}

// receive reads an answer into the type that q expects, and returns its
// correlation id.
func (c *raw) receive(q kmsg.Request) (kmsg.Response, int32) {
	c.Helper()
	body, correlation := c.receiveBytes()
	r := q.ResponseKind()
	if r.IsFlexible() && r.Key() != apiVersionsKey {
		body = body[1:]
	}
	require.NoError(c, r.ReadFrom(body))
	return r, correlation
}

func (c *raw) receiveBytes() (body []byte, correlation int32) {
	c.Helper()
	c.limit()
	var prefix [4]byte
	_, err := io.ReadFull(c, prefix[:])
	require.NoError(c, err)
	body = make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err = io.ReadFull(c, body)
	require.NoError(c, err)
	return body[4:], int32(binary.BigEndian.Uint32(body))
}

// closed waits for the server to close the connection.
func (c *raw) closed() {
	c.Helper()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(c, err, io.EOF)
}

// received counts the requests of a kind that wait for their answer or got it.
func (d *testServer) received(key int16) int {
	return int(testutil.ToFloat64(d.server.metrics.byAPI[apis[key]]))
}

// receivedUnserved counts requests that are not served and got an answer.
func (d *testServer) receivedUnserved() int {
	return int(testutil.ToFloat64(d.server.metrics.byAPI[unserved]))
}

// batchOf builds one batch.
func batchOf(t testing.TB, codec record.Codec, values ...string) record.Batch {
	t.Helper()
	var b record.Builder
	b.Reset(nil)
	for _, v := range values {
		require.NoError(t, b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(v)}))
	}
	batch, err := b.Finish(codec)
	require.NoError(t, err)
	return batch
}

// produceRequest holds one batch for one partition.
func produceRequest(topic string, acks int16, batch []byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 9, acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return q
}

// appendDirectly appends as another server would.
func (d *testServer) appendDirectly(log string, batch record.Batch) record.Offset {
	d.Helper()
	first, refusal := d.tryAppend(log, batch)
	require.Nil(d, refusal)
	return first
}

func (d *testServer) tryAppend(log string, batch record.Batch) (record.Offset, *record.Refusal) {
	answers := make(chan sequence.Answer, 1)
	d.node.Append(verbs.Caller{}, log, &sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch),
	}, nil, func(a sequence.Answer) { answers <- a })
	a := <-answers
	return a.First.First, a.Refusal
}

// stored reads the whole log as it is stored.
func (d *testServer) stored(log string) []byte {
	d.Helper()
	r, err := d.node.Read(d.Context(), verbs.Caller{}, log, reading.Request{Until: reading.NoOffset})
	require.NoError(d, err)
	defer r.Close()
	var all []byte
	for {
		c, err := r.Next(d.Context())
		if err == io.EOF {
			return all
		}
		require.NoError(d, err)
		for _, part := range c.Parts {
			all = append(all, part...)
		}
	}
}
