package kafkaserver

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/client"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	grpcserver "strandline.dev/internal/server/grpc"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// beside serves gRPC on the same node, and returns a client of it.
func (d *testServer) beside() *client.Client {
	d.Helper()
	s := rpc.New(rpc.Options{Logger: d.server.logger})
	grpcserver.Register(s, guard.New(d.node, guard.Options{}))
	l, err := net.Listen("tcp", "127.5.0.1:0")
	require.NoError(d, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := client.Dial([]string{l.Addr().String()})
	require.NoError(d, err)
	d.Cleanup(func() {
		_ = c.Close()
		s.Stop(context.Background())
		require.NoError(d, <-served)
	})
	return c
}

func TestWhatOneProtocolWritesTheOtherReadsUnderTheSameOffsetsAndBytes(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.beside()
	_, err := d.node.CreateLog(d.ctx(), verbs.Caller{}, "orders", settings.Config{})
	require.NoError(t, err)

	p, err := c.Producer(d.ctx(), "orders")
	require.NoError(t, err)
	kafka := d.client(kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"))
	want := []struct{ key, value string }{}
	for i := range 10 {
		key, value := string(rune('a'+i)), "through "+[]string{"gRPC", "Kafka"}[i%2]
		want = append(want, struct{ key, value string }{key, value})
		if i%2 == 0 {
			offset, err := p.AppendRecord(d.ctx(), client.Record{Key: []byte(key), Value: []byte(value)})
			require.NoError(t, err)
			require.EqualValues(t, i, offset)
			continue
		}
		r, err := kafka.ProduceSync(d.ctx(), &kgo.Record{Key: []byte(key), Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}).First()
		require.NoError(t, err)
		require.EqualValues(t, i, r.Offset)
	}
	require.NoError(t, p.Close(d.ctx()))

	r, err := c.Reader(d.ctx(), "orders")
	require.NoError(t, err)
	defer r.Close()
	throughKafka := d.poll(kafka, len(want))
	for i, w := range want {
		g, err := r.Next(d.ctx())
		require.NoError(t, err)
		k := throughKafka[i]
		require.EqualValues(t, i, g.Offset)
		require.EqualValues(t, i, k.Offset)
		require.Equal(t, w.key, string(g.Key))
		require.Equal(t, w.key, string(k.Key))
		require.Equal(t, w.value, string(g.Value))
		require.Equal(t, w.value, string(k.Value))
		require.Equal(t, len(g.Headers), len(k.Headers))
		require.Equal(t, g.Timestamp.UnixMilli(), k.Timestamp.UnixMilli())
	}
}
