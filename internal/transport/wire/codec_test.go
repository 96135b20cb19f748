package wire_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/transport/wire"
	"strandline.dev/test/corpus"
)

// pair is one message in both forms: ours and the generated one.
type pair struct {
	name      string
	ours      any
	generated proto.Message
}

var end = int64(77)

func pairs() []pair {
	long := bytes.Repeat([]byte("strandline"), 5000)
	return []pair{
		{"an empty append request", &wire.AppendRequest{}, &strandlinev1.AppendRequest{}},
		{
			"an append request with every field but records",
			&wire.AppendRequest{
				Log: "orders", SessionID: 1 << 63, Epoch: 1<<32 - 1, FirstSequence: 300, LowWater: 299,
				WriterTerm: 5, ExpectedEnd: 77, HasExpectedEnd: true, Atomic: true, Batches: long, LogID: 1<<64 - 1,
			},
			&strandlinev1.AppendRequest{
				Log: "orders", SessionId: 1 << 63, Epoch: 1<<32 - 1, FirstSequence: 300, LowWater: 299,
				WriterTerm: 5, ExpectedEnd: &end, Atomic: true, Batches: long, LogId: 1<<64 - 1,
			},
		},
		{
			"an append request that expects an empty log",
			&wire.AppendRequest{HasExpectedEnd: true},
			&strandlinev1.AppendRequest{ExpectedEnd: new(int64)},
		},
		{
			"an append request with plain records",
			&wire.AppendRequest{Log: "orders", Records: records()},
			&strandlinev1.AppendRequest{Log: "orders", Records: records()},
		},
		{
			"an append request that asks for its stages",
			&wire.AppendRequest{Batches: long, Explain: true},
			&strandlinev1.AppendRequest{Batches: long, Explain: true},
		},
		{
			"plain records of a log with an id that ask for their stages",
			&wire.AppendRequest{Records: records(), LogID: 9, Explain: true},
			&strandlinev1.AppendRequest{Records: records(), LogId: 9, Explain: true},
		},
		{
			"a checked append",
			&wire.AppendRequest{Log: "orders", Atomic: true, LogID: 9, Explain: true, Batches: long, Check: check()},
			&strandlinev1.AppendRequest{Log: "orders", Atomic: true, LogId: 9, Explain: true, Checked: withRecords(long, nil)},
		},
		{
			"a checked append of plain records",
			&wire.AppendRequest{Records: records(), Check: check()},
			&strandlinev1.AppendRequest{Checked: withRecords(nil, records())},
		},
		{
			"an answer",
			&wire.AppendResponse{FirstOffset: 1 << 40, EndOffset: 1<<40 + 128, Duplicate: true},
			appended(&strandlinev1.Appended{FirstOffset: 1 << 40, EndOffset: 1<<40 + 128, Duplicate: true}),
		},
		{
			"an answer with the largest numbers",
			&wire.AppendResponse{FirstOffset: -1, EndOffset: -1, Duplicate: true},
			appended(&strandlinev1.Appended{FirstOffset: -1, EndOffset: -1, Duplicate: true}),
		},
		{
			"the answer to the first append of a log",
			&wire.AppendResponse{EndOffset: 1},
			appended(&strandlinev1.Appended{EndOffset: 1}),
		},
		{
			"an answer in several ranges",
			&wire.AppendResponse{FirstOffset: 1, EndOffset: 9, Ranges: []*strandlinev1.OffsetRange{{First: 1, End: 2}, {First: 8, End: 9}}},
			appended(&strandlinev1.Appended{FirstOffset: 1, EndOffset: 9, Ranges: []*strandlinev1.OffsetRange{{First: 1, End: 2}, {First: 8, End: 9}}}),
		},
		{
			"an answer with stages",
			&wire.AppendResponse{FirstOffset: 1, EndOffset: 9, Stages: stages()},
			&strandlinev1.AppendResponse{
				Result: &strandlinev1.AppendResponse_Appended{Appended: &strandlinev1.Appended{FirstOffset: 1, EndOffset: 9}}, Stages: stages(),
			},
		},
		{
			"a refusal",
			&wire.AppendResponse{Refused: &strandlinev1.Refusal{Code: 9, Reason: "FENCED", Metadata: map[string]string{"writer_term": "4"}}},
			&strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Refused{
				Refused: &strandlinev1.Refusal{Code: 9, Reason: "FENCED", Metadata: map[string]string{"writer_term": "4"}},
			}},
		},
		{
			"a frame of a filtered read",
			&wire.ReadFrame{First: 7, Count: 1, End: 90, Batches: long, Next: 60, HasNext: true, Parts: [][]byte{long}},
			&strandlinev1.ReadResponse{FirstOffset: 7, RecordCount: 1, EndOffset: 90, Batches: long, NextOffset: new(int64(60))},
		},
		{
			"a frame of a filtered read with failed records",
			&wire.ReadFrame{First: 7, Next: 9, HasNext: true, Failed: []*strandlinev1.FailedRecord{{Offset: 8, Message: "no such key"}}},
			&strandlinev1.ReadResponse{FirstOffset: 7, NextOffset: new(int64(9)), Failed: []*strandlinev1.FailedRecord{{Offset: 8, Message: "no such key"}}},
		},
		{"a heartbeat", &wire.ReadFrame{LogID: 300, First: 9, End: 9, Start: 2}, &strandlinev1.ReadResponse{LogId: 300, FirstOffset: 9, EndOffset: 9, StartOffset: 2}},
		{
			"a heartbeat of a leader",
			&wire.ReadFrame{First: 9, HasAge: true},
			&strandlinev1.ReadResponse{FirstOffset: 9, Age: &durationpb.Duration{}},
		},
		{
			"a frame of a follower",
			&wire.ReadFrame{First: 9, Count: 4, Parts: [][]byte{long}, Batches: long, Age: 3*time.Second + 7, HasAge: true},
			&strandlinev1.ReadResponse{FirstOffset: 9, RecordCount: 4, Batches: long, Age: &durationpb.Duration{Seconds: 3, Nanos: 7}},
		},
		{
			"a frame",
			&wire.ReadFrame{First: 9, Count: 4, End: 1 << 50, Start: 2, Parts: [][]byte{long[:1], {}, long[1:40000], long[40000:]}, Batches: long},
			&strandlinev1.ReadResponse{FirstOffset: 9, RecordCount: 4, EndOffset: 1 << 50, StartOffset: 2, Batches: long},
		},
	}
}

func records() []*strandlinev1.Record {
	return []*strandlinev1.Record{
		{Value: []byte("plain")},
		{
			Timestamp: &timestamppb.Timestamp{Seconds: 5}, Key: []byte{}, Value: []byte("all of it"),
			Headers: []*strandlinev1.Header{{Key: "k", Value: []byte("v")}, {Key: "null"}},
		},
	}
}

func stages() *strandlinev1.AppendStages {
	return &strandlinev1.AppendStages{
		Queue: &durationpb.Duration{Nanos: 5}, Sync: &durationpb.Duration{Seconds: 1},
		Acknowledgements: []*strandlinev1.ReplicaAcknowledgement{{Node: "b", After: &durationpb.Duration{Nanos: 7}}, {Node: "c"}},
	}
}

func appended(a *strandlinev1.Appended) *strandlinev1.AppendResponse {
	return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Appended{Appended: a}}
}

func TestTheBytesAreThoseOfTheGeneratedMessages(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			encoded, err := wire.Codec.Marshal(p.ours)
			require.NoError(t, err)
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.generated)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, encoded.Materialize()), "want %x, got %x", want, encoded.Materialize())
		})
	}
}

func TestWhatTheGeneratedMessagesEncodeIsUnderstood(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			encoded, err := proto.Marshal(p.generated)
			require.NoError(t, err)
			for _, size := range []int{1, 2, 7, 16 << 10, 1 << 20} {
				ours := empty(p.ours)
				require.NoError(t, wire.Codec.Unmarshal(pieces(encoded, size), ours))
				require.True(t, proto.Equal(p.generated, toGenerated(ours)), "%v\n%v", p.generated, ours)
			}
		})
	}
}

func TestOtherMessagesTakeTheOrdinaryPath(t *testing.T) {
	sent := &strandlinev1.TrimRequest{Log: "orders", Before: 9}
	encoded, err := wire.Codec.Marshal(sent)
	require.NoError(t, err)
	got := new(strandlinev1.TrimRequest)
	require.NoError(t, wire.Codec.Unmarshal(encoded, got))
	require.True(t, proto.Equal(sent, got))
	require.Equal(t, "proto", wire.Codec.Name())
}

func TestBatchesAreReferencedWhenSentAndCopiedWhenReceived(t *testing.T) {
	batch := []byte("a batch, as far as this package knows")
	encoded, err := wire.Codec.Marshal(&wire.AppendRequest{Batches: batch})
	require.NoError(t, err)
	require.Same(t, &batch[0], &encoded[1].ReadOnlyData()[0])

	encoded, err = wire.Codec.Marshal(&wire.ReadFrame{Count: 1, Parts: [][]byte{batch}})
	require.NoError(t, err)
	require.Same(t, &batch[0], &encoded[1].ReadOnlyData()[0])

	frame := &wire.ReadFrame{Batches: make([]byte, 0, 100)}
	own := &frame.Batches[:1][0]
	require.NoError(t, wire.Codec.Unmarshal(encoded, frame))
	require.Equal(t, batch, frame.Batches)
	require.Same(t, own, &frame.Batches[0], "memory that is large enough is used again")
}

func TestALengthThatIsNotThereCostsNothing(t *testing.T) {
	claim := []byte{9<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0x07} // 2 GiB of batches
	require.Error(t, wire.Codec.Unmarshal(pieces(claim, 2), &wire.AppendRequest{}))
	claim[0] = 6<<3 | 2
	require.Error(t, wire.Codec.Unmarshal(pieces(claim, 2), &wire.ReadFrame{}))
	require.Less(t, testing.AllocsPerRun(10, func() {
		_ = wire.Codec.Unmarshal(pieces(claim, 2), &wire.ReadFrame{})
	}), 30.0)
}

func TestAnAnswerWithoutAResultIsNotTakenForAnAppend(t *testing.T) {
	answer := &wire.AppendResponse{}
	require.NoError(t, wire.Codec.Unmarshal(nil, answer))
	require.NotNil(t, answer.Refused)
}

func FuzzAppendRequestAgreesWithTheGeneratedMessage(f *testing.F) {
	fuzz(f, func() any { return new(wire.AppendRequest) }, func() proto.Message { return new(strandlinev1.AppendRequest) })
}

func FuzzAppendResponseAgreesWithTheGeneratedMessage(f *testing.F) {
	fuzz(f, func() any { return new(wire.AppendResponse) }, func() proto.Message { return new(strandlinev1.AppendResponse) })
}

func FuzzReadFrameAgreesWithTheGeneratedMessage(f *testing.F) {
	fuzz(f, func() any { return new(wire.ReadFrame) }, func() proto.Message { return new(strandlinev1.ReadResponse) })
}

// fuzz holds ours against the generated message: both refuse the same bytes,
// and read the same fields from the others.
func fuzz(f *testing.F, ours func() any, generated func() proto.Message) {
	corpus.Add(f)
	for _, p := range pairs() {
		encoded, err := proto.Marshal(p.generated)
		require.NoError(f, err)
		f.Add(encoded[:min(len(encoded), 300)], uint8(3))
		f.Add(append(encoded[:len(encoded):len(encoded)], 20<<3, 1), uint8(200)) // an unknown field
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		want := generated()
		wantErr := proto.Unmarshal(data, want)
		got := ours()
		err := wire.Codec.Unmarshal(pieces(data, max(1, int(size))), got)
		require.Equal(t, wantErr == nil, err == nil, "generated: %v, ours: %v", wantErr, err)
		if err != nil {
			return
		}
		want.ProtoReflect().SetUnknown(nil)
		switch w := want.(type) {
		case *strandlinev1.AppendRequest:
			mixed := w.Checked != nil && (len(w.Batches) > 0 || len(w.Records) > 0)
			require.Equal(t, mixed, got.(*wire.AppendRequest).Mixed)
			if mixed {
				w.Batches, w.Records = nil, nil // refused, whatever they are
			}
		case *strandlinev1.ReadResponse:
			w.Records = nil // left to the generated type: see ReadFrame
			if w.Age != nil {
				w.Age = durationpb.New(max(w.Age.AsDuration(), 0))
			}
		case *strandlinev1.AppendResponse:
			if w.Result == nil {
				w.Result = &strandlinev1.AppendResponse_Refused{Refused: &strandlinev1.Refusal{}}
			}
			if a := w.GetAppended(); a != nil {
				a.ProtoReflect().SetUnknown(nil)
			}
		}
		require.True(t, proto.Equal(want, toGenerated(got)), "%v\n%v", want, got)
	})
}

// pieces cuts data the way a transport does.
func pieces(data []byte, size int) mem.BufferSlice {
	var out mem.BufferSlice
	for len(data) > size {
		out = append(out, mem.SliceBuffer(data[:size]), mem.SliceBuffer(nil))
		data = data[size:]
	}
	return append(out, mem.SliceBuffer(data))
}

func empty(like any) any {
	switch like.(type) {
	case *wire.AppendRequest:
		return new(wire.AppendRequest)
	case *wire.AppendResponse:
		return new(wire.AppendResponse)
	default:
		return new(wire.ReadFrame)
	}
}

func toGenerated(ours any) proto.Message {
	switch m := ours.(type) {
	case *wire.AppendRequest:
		g := &strandlinev1.AppendRequest{
			Log: m.Log, SessionId: m.SessionID, Epoch: m.Epoch, FirstSequence: m.FirstSequence, LowWater: m.LowWater,
			WriterTerm: m.WriterTerm, Atomic: m.Atomic, Batches: m.Batches, Records: m.Records, LogId: m.LogID, Explain: m.Explain,
		}
		if m.HasExpectedEnd {
			g.ExpectedEnd = &m.ExpectedEnd
		}
		if m.Check != nil {
			g.Checked = proto.CloneOf(m.Check)
			g.Checked.Batches, g.Checked.Records, g.Batches, g.Records = m.Batches, m.Records, nil, nil
		}
		return g
	case *wire.AppendResponse:
		if m.Refused != nil {
			return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Refused{Refused: m.Refused}, Stages: m.Stages}
		}
		g := appended(&strandlinev1.Appended{FirstOffset: m.FirstOffset, EndOffset: m.EndOffset, Ranges: m.Ranges, Duplicate: m.Duplicate})
		g.Stages = m.Stages
		return g
	default:
		m2 := ours.(*wire.ReadFrame)
		g := &strandlinev1.ReadResponse{
			FirstOffset: m2.First, RecordCount: m2.Count, EndOffset: m2.End, StartOffset: m2.Start, Batches: m2.Batches, LogId: m2.LogID,
		}
		if m2.HasAge {
			g.Age = durationpb.New(m2.Age)
		}
		if g.Failed = m2.Failed; m2.HasNext {
			g.NextOffset = &m2.Next
		}
		return g
	}
}

func check() *strandlinev1.CheckedAppend {
	return &strandlinev1.CheckedAppend{
		Since: 1 << 40, Keys: [][]byte{[]byte("a"), {}}, KeyPrefixes: [][]byte{{0xff}}, Headers: []*strandlinev1.Header{{Key: "tag", Value: []byte("red")}, {Key: "none"}},
	}
}

func withRecords(batches []byte, records []*strandlinev1.Record) *strandlinev1.CheckedAppend {
	c := check()
	c.Batches, c.Records = batches, records
	return c
}

// A node that does not know the field of checks finds no records, and refuses the request.
func TestACheckedAppendHasNoRecordsForWhoDoesNotKnowChecks(t *testing.T) {
	for _, q := range []*wire.AppendRequest{{Log: "orders", Batches: []byte("batch"), Check: check()}, {Records: records(), Check: check()}} {
		data, err := wire.Codec.Marshal(q)
		require.NoError(t, err)
		var got strandlinev1.AppendRequest
		require.NoError(t, proto.Unmarshal(data.Materialize(), &got))
		require.NotNil(t, got.Checked)
		require.Empty(t, got.Batches)
		require.Empty(t, got.Records)
	}
}

// What is received takes memory besides the message once, whether it has a check or not: that is what a server counts.
func TestBatchesOfACheckAreCopiedOnce(t *testing.T) {
	const size = 8 << 20
	for _, q := range []*wire.AppendRequest{{Batches: make([]byte, size)}, {Batches: make([]byte, size), Check: check()}} {
		encoded, err := wire.Codec.Marshal(q)
		require.NoError(t, err)
		received := pieces(encoded.Materialize(), 16<<10)
		var before, after runtime.MemStats
		got := new(wire.AppendRequest)
		runtime.ReadMemStats(&before)
		require.NoError(t, wire.Codec.Unmarshal(received, got))
		runtime.ReadMemStats(&after)
		require.Len(t, got.Batches, size)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size+size/4))

		own := &got.Batches[0]
		require.NoError(t, wire.Codec.Unmarshal(received, got))
		require.Same(t, own, &got.Batches[0], "memory that is large enough is used again")
	}
}

// A field of a check that claims to be longer than the check is not read on into what follows the check.
func TestAFieldOfACheckEndsWithIt(t *testing.T) {
	behind := []byte{4 << 3, 1, 5 << 3, 1, 6 << 3, 1, 8 << 3, 1, 4 << 3, 1, 5 << 3, 1}
	for _, checked := range [][]byte{{1 << 3}, {1 << 3, 0x80}, {2<<3 | 2, 1}, {2<<3 | 2}, {4<<3 | 2, 2, 1<<3 | 2}, {5<<3 | 2, 2, 0}} {
		data := append([]byte{12<<3 | 2, byte(len(checked))}, checked...)
		for _, size := range []int{1, 100} {
			require.Error(t, wire.Codec.Unmarshal(pieces(append(data, behind...), size), new(wire.AppendRequest)), "%x", checked)
		}
	}
}

// A request with records both with a check and without says so, in whatever order its fields come.
func TestARequestWithRecordsBesideItsCheckIsMixed(t *testing.T) {
	one, err := proto.Marshal(&strandlinev1.AppendRequest{Batches: []byte("unchecked")})
	require.NoError(t, err)
	other, err := proto.Marshal(&strandlinev1.AppendRequest{Checked: withRecords([]byte("batch"), nil)})
	require.NoError(t, err)
	for _, data := range [][]byte{append(one, other...), append(other, one...)} {
		var got wire.AppendRequest
		require.NoError(t, wire.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &got))
		require.True(t, got.Mixed)
		require.Equal(t, "batch", string(got.Batches))
	}
}
