package grpcserver

import (
	"bytes"
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

type readClient = grpc.ServerStreamingClient[strandlinev1.ReadResponse]

func (d *testServer) read(t *testing.T, q *strandlinev1.ReadRequest) readClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	q.Log = "orders"
	stream, err := strandlinev1.NewLogServiceClient(d.conn).Read(ctx, q)
	require.NoError(t, err)
	return stream
}

func receive(t *testing.T, c readClient) *strandlinev1.ReadResponse {
	t.Helper()
	f, err := c.Recv()
	require.NoError(t, err)
	return f
}

// chunkOf asks for [first, first+count) of a run of batches.
func chunkOf(first record.Offset, count int, batches ...record.Batch) reading.Chunk {
	c := reading.Chunk{First: first, Count: count, Start: 5, End: 1000}
	for _, b := range batches {
		c.Parts = append(c.Parts, b)
		c.Bytes += len(b)
	}
	return c
}

func TestBatchesAreSentAsTheyAreStored(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{Format: strandlinev1.ReadFormat_READ_FORMAT_BATCHES})
	<-n.reads
	one, two := batchOf(t, 10, "a", "b"), batchOf(t, 12, "c", "d")
	n.chunks <- chunkOf(11, 2, one, two)
	close(n.chunks)
	var f wire.ReadFrame
	require.NoError(t, c.RecvMsg(&f))
	require.Equal(t, wire.ReadFrame{LogID: 9, First: 11, Count: 2, Start: 5, End: 1000, HasAge: true, Batches: join(one, two)}, f)
	require.ErrorIs(t, c.RecvMsg(&f), io.EOF)
}

func TestRecordsAreCutExactly(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{})
	<-n.reads
	one, two := batchOf(t, 10, "a", "b"), batchOf(t, 12, "c", "d")
	n.chunks <- chunkOf(11, 2, one, two)
	f := receive(t, c)
	require.EqualValues(t, 11, f.FirstOffset)
	require.EqualValues(t, 2, f.RecordCount)
	require.EqualValues(t, 5, f.StartOffset)
	require.EqualValues(t, 1000, f.EndOffset)
	require.Len(t, f.Records, 2)
	require.EqualValues(t, 11, f.Records[0].Offset)
	require.Equal(t, "b", string(f.Records[0].Value))
	require.EqualValues(t, 1_700_000_000_001, f.Records[0].Timestamp.AsTime().UnixMilli())
	require.EqualValues(t, 12, f.Records[1].Offset)
	require.Equal(t, "c", string(f.Records[1].Value))

	// The next frame carries nothing over from the one before.
	n.chunks <- chunkOf(13, 1, two)
	close(n.chunks)
	f = receive(t, c)
	require.EqualValues(t, 13, f.FirstOffset)
	require.Len(t, f.Records, 1)
	require.Equal(t, "d", string(f.Records[0].Value))
	_, err := c.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestRecordsKeepNullsHeadersAndTimes(t *testing.T) {
	t.Parallel()
	var b record.Builder
	records := []record.Record{
		{Timestamp: -1500, Key: []byte{}, Headers: []record.Header{{Key: "a", Value: []byte{}}, {Key: "\xff"}}},
		{Timestamp: 0, Value: []byte("v")},
	}
	for _, r := range records {
		require.NoError(t, b.Add(r))
	}
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	n := newFakeNode()
	c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{})
	<-n.reads
	want := []*strandlinev1.Record{
		{Timestamp: &timestamppb.Timestamp{Seconds: -2, Nanos: 5e8}, Key: []byte{}, Headers: []*strandlinev1.Header{
			{Key: "a", Value: []byte{}}, {Key: "\uFFFD"},
		}},
		{Offset: 1, Timestamp: &timestamppb.Timestamp{}, Value: []byte("v")},
	}
	for range 2 { // the second frame uses the messages of the first again
		n.chunks <- chunkOf(0, 2, batch)
		got := receive(t, c).Records
		for i := range want {
			require.True(t, proto.Equal(want[i], got[i]), "%v\n%v", want[i], got[i])
		}
	}
}

func TestDecodedFramesStaySmallHoweverLargeTheBatch(t *testing.T) {
	t.Parallel()
	var b record.Builder
	const count = 10_000
	for range count {
		require.NoError(t, b.Add(record.Record{Value: bytes.Repeat([]byte("x"), 1000)}))
	}
	batch, err := b.Finish(record.Gzip)
	require.NoError(t, err)
	n := newFakeNode()
	c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{})
	<-n.reads
	go func() { n.chunks <- chunkOf(0, count, batch); close(n.chunks) }()
	next := int64(0)
	for {
		f, err := c.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Equal(t, next, f.FirstOffset)
		require.EqualValues(t, f.RecordCount, len(f.Records))
		require.LessOrEqual(t, proto.Size(f), frameBytes+1024)
		next += int64(f.RecordCount)
	}
	require.EqualValues(t, count, next)
}

func TestEveryFrameSaysHowOldItsKnowledgeIs(t *testing.T) {
	t.Parallel()
	for _, format := range []strandlinev1.ReadFormat{strandlinev1.ReadFormat_READ_FORMAT_RECORDS, strandlinev1.ReadFormat_READ_FORMAT_BATCHES} {
		n := newFakeNode()
		n.info.Age = time.Minute
		c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{Format: format, Follow: true})
		<-n.reads
		require.Equal(t, time.Minute, receive(t, c).Age.AsDuration(), "of a heartbeat")
		for age, want := range map[time.Duration]*durationpb.Duration{
			0: {}, 1500 * time.Millisecond: {Seconds: 1, Nanos: 5e8}, reading.UnknownAge: nil,
		} {
			chunk := chunkOf(10, 1, batchOf(t, 10, "a"))
			chunk.Age = age
			n.chunks <- chunk
			got := receive(t, c)
			for got.RecordCount == 0 {
				got = receive(t, c)
			}
			require.Equal(t, want == nil, got.Age == nil)
			require.Equal(t, want.AsDuration(), got.Age.AsDuration())
		}
	}
}

func TestAReadThatFollowsShowsSignsOfLife(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	n.info = verbs.Info{Start: 3, End: 7}
	c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{
		From: &strandlinev1.ReadRequest_Offset{Offset: 7}, Follow: true,
		Heartbeat: durationpb.New(time.Millisecond), // raised to the least
	})
	<-n.reads
	for range 2 { // at once, and when nothing comes
		f := receive(t, c)
		require.EqualValues(t, 7, f.FirstOffset)
		require.Zero(t, f.RecordCount)
		require.EqualValues(t, 3, f.StartOffset)
		require.EqualValues(t, 7, f.EndOffset)
	}
	n.chunks <- chunkOf(7, 1, batchOf(t, 7, "a"))
	f := receive(t, c)
	for f.RecordCount == 0 {
		f = receive(t, c)
	}
	require.EqualValues(t, 7, f.FirstOffset)
	require.EqualValues(t, 8, receive(t, c).FirstOffset)
}

func TestAReaderBehindATrimGetsTheNewStart(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	c := serve(t, n, rpc.Options{}).read(t, &strandlinev1.ReadRequest{})
	<-n.reads
	trimmed := record.Refuse(record.OffsetTrimmed, "gone")
	trimmed.Start = 42
	n.failed <- trimmed
	_, err := c.Recv()
	require.Equal(t, codes.OutOfRange, status.Code(err))
	info := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
	require.Equal(t, "OFFSET_TRIMMED", info.Reason)
	require.Equal(t, "42", info.Metadata["start_offset"])
}

func TestAFollowingReadEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	d := serve(t, n, rpc.Options{})
	c := d.read(t, &strandlinev1.ReadRequest{Follow: true})
	<-n.reads
	receive(t, c)
	stopped := make(chan struct{})
	go func() { d.server.Stop(context.Background()); close(stopped) }()
	_, err := c.Recv()
	requireShuttingDown(t, err)
	<-stopped
}

func TestAReadRequestIsPassedOnAsItIs(t *testing.T) {
	t.Parallel()
	second := &timestamppb.Timestamp{Seconds: 1}
	for name, row := range map[string]struct {
		request *strandlinev1.ReadRequest
		want    reading.Request
	}{
		"nothing": {
			&strandlinev1.ReadRequest{},
			reading.Request{From: reading.From{Kind: reading.FromStart}, Until: reading.NoOffset, Consistency: reading.ConsistencyLinearizable},
		},
		"an offset and limits": {
			&strandlinev1.ReadRequest{
				From: &strandlinev1.ReadRequest_Offset{Offset: 8}, MaxRecords: 1, MaxBytes: 2,
				UntilOffset: proto.Int64(0), UntilTime: second,
				Consistency: &strandlinev1.ReadRequest_Level{Level: strandlinev1.ReadConsistency_READ_CONSISTENCY_ANY},
			},
			reading.Request{
				From: reading.From{Kind: reading.FromOffset, Offset: 8}, MaxRecords: 1, MaxBytes: 2, Until: 0, UntilTime: 1000,
			},
		},
		"a time": {
			&strandlinev1.ReadRequest{
				From:        &strandlinev1.ReadRequest_Time{Time: second},
				Consistency: &strandlinev1.ReadRequest_AtLeastOffset{AtLeastOffset: 7},
			},
			reading.Request{
				From: reading.From{Kind: reading.FromTime, Time: 1000}, Until: reading.NoOffset,
				Consistency: reading.ConsistencyAtLeast, AtLeast: 7,
			},
		},
		"the tail": {
			&strandlinev1.ReadRequest{
				From:   &strandlinev1.ReadRequest_Position{Position: strandlinev1.ReadPosition_READ_POSITION_TAIL},
				Follow: true, UntilTime: new(timestamppb.Timestamp),
				Consistency: &strandlinev1.ReadRequest_MaxAge{MaxAge: durationpb.New(time.Second)},
			},
			reading.Request{
				From: reading.From{Kind: reading.FromTail}, Until: reading.NoOffset, UntilTime: 1, Follow: true,
				Consistency: reading.ConsistencyBounded, MaxAge: time.Second,
			},
		},
	} {
		got, refusal := decodeRead(row.request)
		require.Nil(t, refusal, name)
		require.Equal(t, row.want, got, name)
	}
}

func TestAReadThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	bad := &timestamppb.Timestamp{Nanos: -1}
	for name, q := range map[string]*strandlinev1.ReadRequest{
		"negative offset":  {From: &strandlinev1.ReadRequest_Offset{Offset: -1}},
		"negative until":   {UntilOffset: proto.Int64(-1)},
		"negative count":   {MaxRecords: -1},
		"negative bytes":   {MaxBytes: -1},
		"bad time":         {From: &strandlinev1.ReadRequest_Time{Time: bad}},
		"bad until time":   {UntilTime: bad},
		"bad heartbeat":    {Heartbeat: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		"unknown format":   {Format: 77},
		"negative end":     {Consistency: &strandlinev1.ReadRequest_AtLeastOffset{AtLeastOffset: -1}},
		"no age":           {Consistency: &strandlinev1.ReadRequest_MaxAge{MaxAge: new(durationpb.Duration)}},
		"bad age":          {Consistency: &strandlinev1.ReadRequest_MaxAge{MaxAge: &durationpb.Duration{Seconds: 1, Nanos: -1}}},
		"unknown level":    {Consistency: &strandlinev1.ReadRequest_Level{Level: 77}},
		"unknown position": {From: &strandlinev1.ReadRequest_Position{Position: 77}},
	} {
		_, refusal := decodeRead(q)
		require.NotNil(t, refusal, name)
	}
}

func TestALogThatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	d := serve(t, newFakeNode(), rpc.Options{})
	stream, err := strandlinev1.NewLogServiceClient(d.conn).Read(context.Background(), &strandlinev1.ReadRequest{Log: "others"})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.NotFound, status.Code(err))
	require.True(t, strings.Contains(err.Error(), "others"))

	c := d.append(t)
	c.send(&wire.AppendRequest{Log: "others", Batches: batchOf(t, 0, "v")})
	require.Equal(t, "LOG_NOT_FOUND", c.receive().Refused.GetReason())
}

// A producer may have stored any time. A client that reads plain records, and JSON above all, gets one that exists.
func TestEveryStoredTimeIsReadAsOneThatProtobufHas(t *testing.T) {
	for ms, want := range map[int64]string{
		0:                 "1970-01-01T00:00:00Z",
		-1:                "1969-12-31T23:59:59.999Z",
		lastMillis:        "9999-12-31T23:59:59.999Z",
		lastMillis + 1:    "9999-12-31T23:59:59.999Z",
		math.MaxInt64:     "9999-12-31T23:59:59.999Z",
		firstMillis:       "0001-01-01T00:00:00Z",
		firstMillis - 1:   "0001-01-01T00:00:00Z",
		math.MinInt64:     "0001-01-01T00:00:00Z",
		1_700_000_000_123: "2023-11-14T22:13:20.123Z",
	} {
		var at timestamppb.Timestamp
		at.Seconds, at.Nanos = splitMillis(ms)
		require.NoError(t, at.CheckValid())
		require.Equal(t, want, at.AsTime().Format(time.RFC3339Nano), ms)
	}
}
