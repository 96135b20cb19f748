package server

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
)

func TestFramesOfRecordsOfAFilteredReadFollowEachOther(t *testing.T) {
	t.Parallel()
	s, err := Start(alone(t, t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	c, err := client.Dial([]string{s.GRPC()})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	const batches, each = 60, 50
	for _, codec := range []client.Compression{client.None, client.Zstd} {
		p, err := c.Producer(t.Context(), "orders", client.WithCompression(codec))
		require.NoError(t, err)
		for range batches / 2 {
			var batch []client.Record
			for j := range each {
				value := fmt.Appendf(nil, `{"n": %d, "pad": %q}`, j, strings.Repeat("x", 1000))
				if j == 7 {
					value = []byte("no JSON")
				}
				batch = append(batch, client.Record{Key: fmt.Appendf(nil, "customer-%d", j%2), Value: value})
			}
			_, err := p.AppendBatch(t.Context(), batch)
			require.NoError(t, err)
		}
		require.NoError(t, p.Close(t.Context()))
	}
	conn, err := grpc.NewClient("passthrough:///"+s.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	stream, err := strandlinev1.NewLogServiceClient(conn).Read(t.Context(), &strandlinev1.ReadRequest{
		Log: "orders", Format: strandlinev1.ReadFormat_READ_FORMAT_RECORDS,
		Filter:     &strandlinev1.Filter{Keys: [][]byte{[]byte("customer-1")}, Where: "value.n >= 0", SkipFailed: true},
		Projection: &strandlinev1.Projection{DropKey: true},
	})
	require.NoError(t, err)
	next, frames := int64(0), 0
	var got, failed []int64
	for {
		f, err := stream.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.NotNil(t, f.NextOffset)
		require.Equal(t, next, f.FirstOffset)
		require.Len(t, f.Records, int(f.RecordCount))
		for _, r := range f.Records {
			require.GreaterOrEqual(t, r.Offset, f.FirstOffset)
			require.Less(t, r.Offset, f.GetNextOffset())
			require.Nil(t, r.Key)
			got = append(got, r.Offset)
		}
		for _, r := range f.Failed {
			require.GreaterOrEqual(t, r.Offset, f.FirstOffset)
			require.Less(t, r.Offset, f.GetNextOffset())
			failed = append(failed, r.Offset)
		}
		next = f.GetNextOffset()
		frames++
	}
	var want, wrong []int64
	for n := range int64(batches * each) {
		switch {
		case n%each == 7:
			wrong = append(wrong, n)
		case n%2 == 1:
			want = append(want, n)
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, wrong, failed)
	require.EqualValues(t, batches*each, next)
	require.Greater(t, frames, 1)
}
