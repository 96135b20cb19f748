package embed_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/embed"
)

// What a limit allows to be appended is answered by every port: the largest record, alone and with a small one
// in front of it.
func TestTheLargestRecordIsReadThroughEveryPort(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithGRPC("127.0.0.1:0"), embed.WithKafka("127.0.0.1:0"))
	defer func() { require.NoError(t, cluster.Close()) }()
	node := cluster.Nodes()[0]
	c, err := client.Dial([]string{node.GRPC})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	large := bytes.Repeat([]byte("r"), client.MaxRecordBytes)
	want := [][]byte{[]byte("small"), large, large}
	for i, value := range want {
		require.EqualValues(t, i, appendTo(t, c, "orders", string(value)))
	}

	for port, read := range map[string]func(*testing.T) [][]byte{
		"streams without HTTP/2": func(t *testing.T) (values [][]byte) {
			r, err := c.Reader(t.Context(), "orders")
			require.NoError(t, err)
			defer r.Close()
			for range want {
				record, err := r.Next(t.Context())
				require.NoError(t, err)
				values = append(values, bytes.Clone(record.Value))
			}
			return values
		},
		"gRPC": func(t *testing.T) (values [][]byte) {
			conn, err := grpc.NewClient(node.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
			require.NoError(t, err)
			defer conn.Close()
			stream, err := strandlinev1.NewLogServiceClient(conn).Read(t.Context(), &strandlinev1.ReadRequest{
				Log: "orders", From: &strandlinev1.ReadRequest_Offset{Offset: 0}, MaxRecords: int64(len(want)), Format: strandlinev1.ReadFormat_READ_FORMAT_RECORDS,
			})
			require.NoError(t, err)
			for len(values) < len(want) {
				answer, err := stream.Recv()
				require.NoError(t, err)
				for _, record := range answer.Records {
					values = append(values, record.Value)
				}
			}
			return values
		},
		"Kafka": func(t *testing.T) (values [][]byte) {
			consumer, err := kgo.NewClient(kgo.SeedBrokers(node.Kafka), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(0)}}))
			require.NoError(t, err)
			defer consumer.Close()
			for len(values) < len(want) {
				fetched := consumer.PollFetches(t.Context())
				require.NoError(t, fetched.Err())
				fetched.EachRecord(func(r *kgo.Record) { values = append(values, r.Value) })
			}
			return values
		},
	} {
		got := read(t)
		require.Len(t, got, len(want), port)
		for i := range want {
			require.True(t, bytes.Equal(want[i], got[i]), "record %d by %s", i, port)
		}
	}
}
