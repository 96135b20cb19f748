package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
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

// Many small batches are in an entry, a large one and others; compressed ones become larger where a part of them is
// selected.
func TestFramesOfBatchesAsJSONAreSmallOrOneBatch(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	conn, err := grpc.NewClient("passthrough:///"+n.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	appends, err := strandlinev1.NewLogServiceClient(conn).Append(t.Context())
	require.NoError(t, err)
	all := 0
	for _, batches := range [][]int{slices.Repeat([]int{10}, 60), {100, 45, 20}, {45, 45, 45, 100}, slices.Repeat([]int{1, 30}, 20)} {
		for _, codec := range []record.Codec{record.None, record.Zstd} {
			request := &strandlinev1.AppendRequest{Log: "orders"}
			for _, records := range batches {
				var b record.Builder
				for range records {
					require.NoError(t, b.Add(record.Record{Key: []byte("a"), Value: bytes.Repeat([]byte("x"), 1<<10)}))
				}
				batch, err := b.Finish(codec)
				require.NoError(t, err)
				request.Batches = append(request.Batches, batch...)
				all += records
			}
			require.NoError(t, appends.Send(request))
			answer, err := appends.Recv()
			require.NoError(t, err)
			require.NotNil(t, answer.GetAppended(), answer)
		}
	}
	for _, more := range []string{"", `,"projection":{"dropKey":true}`} {
		r, err := http.Post("http://"+n.HTTP()+"/strandline.v1.LogService/Read", "application/json", strings.NewReader(`{"log":"orders","format":"READ_FORMAT_BATCHES"`+more+"}"))
		require.NoError(t, err)
		defer r.Body.Close()
		lines, records, frames := json.NewDecoder(r.Body), 0, 0
		for {
			var frame struct {
				Result struct {
					RecordCount int
					Batches     []byte
				}
			}
			if err := lines.Decode(&frame); err == io.EOF {
				break
			}
			require.NoError(t, err)
			records += frame.Result.RecordCount
			frames++
			if len(frame.Result.Batches) > 64<<10 {
				_, rest, err := record.Split(frame.Result.Batches)
				require.NoError(t, err)
				require.Zero(t, len(rest), "%d bytes of more than one batch%s", len(frame.Result.Batches), more)
			}
		}
		require.Equal(t, all, records)
		require.Less(t, frames, 150, "several batches fit into one")
	}
}
