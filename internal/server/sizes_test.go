package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"strandline.dev/api/logspec"
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
)

// sizedPort is a port of a node, as clients of one kind use it.
type sizedPort struct {
	name   string
	append func(t *testing.T, value []byte)        // behind what was appended before
	read   func(t *testing.T, from int64) [][]byte // two of them
}

// What a limit allows to be appended is taken and answered by every port: the largest record, with a small one in
// front of it. Each port reads what another has appended.
func TestTheLargestRecordPassesEveryPort(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(t *testing.T) {
			t.Parallel()
			o := alone(t, t.TempDir())
			o.LogspecLog = "orders"
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
			}
			largest := func(by int) []byte { return bytes.Repeat([]byte{'a' + byte(by)}, client.MaxRecordBytes) }
			for i, p := range ports {
				p.append(t, []byte(p.name))
				p.append(t, largest(i))
			}
			for i, p := range ports {
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
