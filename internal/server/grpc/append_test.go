package grpcserver

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// pending is an append that the fake log has not decided yet. Its batches are
// copies: the server may use their memory again once done was called.
type pending struct {
	sequence.Append
	done func(sequence.Answer)
}

func holding(n *fakeNode, capacity int) chan pending {
	held := make(chan pending, capacity)
	n.append = func(a *sequence.Append, done func(sequence.Answer)) {
		p := pending{*a, done}
		p.Batches = nil
		for _, b := range a.Batches {
			p.Batches = append(p.Batches, bytes.Clone(b))
		}
		held <- p
	}
	return held
}

func at(first record.Offset, count uint32) sequence.Answer {
	return sequence.Answer{First: sequence.Run{First: first, Count: count}}
}

func TestAnswersComeInTheOrderOfRequests(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 3)
	c := serve(t, n, rpc.Options{}).append(t)
	for range 3 {
		c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
	}
	first, second, third := <-held, <-held, <-held
	third.done(at(30, 1))
	second.done(at(20, 1))
	first.done(at(10, 1))
	for _, want := range []int64{10, 20, 30} {
		r := c.receive()
		require.Nil(t, r.Refused)
		require.Equal(t, want, r.FirstOffset)
		require.Equal(t, want+1, r.EndOffset)
	}
	require.NoError(t, c.CloseSend())
	require.ErrorIs(t, c.end(), io.EOF)
}

func TestARequestReachesTheLogAsItWasSent(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	c := serve(t, n, rpc.Options{}).append(t)
	one, two := batchOf(t, 0, "a", "b"), batchOf(t, 0, "c")
	c.send(&wire.AppendRequest{
		Log: "orders", SessionID: 1, Epoch: 2, FirstSequence: 3, LowWater: 2, WriterTerm: 5,
		ExpectedEnd: 0, HasExpectedEnd: true, Atomic: true, Batches: join(one, two),
	})
	p := <-held
	require.Equal(t, sequence.Append{
		Session: 1, Epoch: 2, First: 3, LowWater: 2, WriterTerm: 5, ExpectedEnd: 0, Atomic: true,
		Batches: []record.Batch{one, two}, Records: 3, Bytes: len(one) + len(two),
	}, p.Append)
	p.done(sequence.Answer{
		First: sequence.Run{First: 7, Count: 2}, More: []sequence.Run{{First: 100, Count: 1}}, Duplicate: true,
	})
	r := c.receive()
	require.EqualValues(t, 7, r.FirstOffset)
	require.EqualValues(t, 101, r.EndOffset)
	require.True(t, r.Duplicate)
	require.Len(t, r.Ranges, 2)
	require.EqualValues(t, 9, r.Ranges[0].End)
	require.EqualValues(t, 100, r.Ranges[1].First)

	// What one request sets does not show in the next.
	c.send(&wire.AppendRequest{Batches: one})
	p = <-held
	require.Equal(t, sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{one}, Records: 2, Bytes: len(one),
	}, p.Append)
	p.done(at(0, 2))
	c.receive()
}

// A check comes with batches or with plain records, which are then one atomic append.
func TestACheckReachesTheLogAndNotTheNextRequest(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	c := serve(t, n, rpc.Options{}).append(t)
	check := func() *strandlinev1.CheckedAppend {
		return &strandlinev1.CheckedAppend{Since: 7, Keys: [][]byte{[]byte("a")}, KeyPrefixes: [][]byte{[]byte("b")}, Headers: []*strandlinev1.Header{{Key: "tag", Value: []byte("red")}}}
	}
	want, err := sequence.NewCheck(7, [][]byte{[]byte("a")}, [][]byte{[]byte("b")}, []record.Header{{Key: "tag", Value: []byte("red")}})
	require.NoError(t, err)
	one := batchOf(t, 0, "a", "b")
	conflict := record.Refuse(record.Conflict, "it is there")
	conflict.At, conflict.Key = 9, []byte("a")
	for _, q := range []*wire.AppendRequest{{Log: "orders", Batches: one, Check: check()}, {Records: []*strandlinev1.Record{{Key: []byte("x")}}, Check: check()}} {
		c.send(q)
		p := <-held
		require.Equal(t, want, p.Check)
		require.True(t, p.Atomic)
		require.Len(t, p.Batches, 1)
		p.done(sequence.Answer{Refusal: conflict})
		r := c.receive()
		require.Equal(t, "CONFLICT", r.Refused.GetReason())
		require.Equal(t, map[string]string{"offset": "9", "key": "a", "retryable": "false", "outcome": "not_done"}, r.Refused.GetMetadata())

		c.send(&wire.AppendRequest{Batches: one})
		p = <-held
		require.Nil(t, p.Check)
		require.False(t, p.Atomic)
		p.done(at(0, 2))
		c.receive()
	}
}

// Fields that this release does not know are not charged until the answer, and not kept either.
func TestNothingIsKeptOfACheckThatTheAppendDoesNotNeed(t *testing.T) {
	const requests, unknown = 12, 4 << 20
	more := protowire.AppendBytes(protowire.AppendTag(nil, 100, protowire.BytesType), make([]byte, unknown))
	inCheck := func() *strandlinev1.CheckedAppend {
		c := &strandlinev1.CheckedAppend{Keys: [][]byte{[]byte("a")}}
		c.ProtoReflect().SetUnknown(more)
		return c
	}
	inHeader := func() *strandlinev1.CheckedAppend {
		h := &strandlinev1.Header{Key: "tag"}
		h.ProtoReflect().SetUnknown(more)
		return &strandlinev1.CheckedAppend{Headers: []*strandlinev1.Header{h}}
	}
	n := newFakeNode()
	held := holding(n, requests)
	d := serve(t, n, rpc.Options{})
	c := d.append(t)
	resident := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what is in pools goes with the second
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := resident()
	for i := range requests {
		check := inCheck()
		if i%2 == 0 {
			check = inHeader()
		}
		check.Records = []*strandlinev1.Record{{Value: []byte("v")}}
		// Not as this client encodes it, which knows no unknown fields.
		require.NoError(t, c.SendMsg(&strandlinev1.AppendRequest{Log: "orders", Checked: check}))
	}
	var all []pending
	for range requests {
		all = append(all, <-held)
	}
	require.Less(t, resident()-before, int64(requests*unknown/4))
	require.Less(t, d.server.Appends.Used(), int64(requests*unknown/4))
	for i, p := range all {
		p.done(at(record.Offset(i), 1))
		c.receive()
	}
}

func TestACheckForTooMuchIsRefusedBeforeItIsDecoded(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	n.append = func(*sequence.Append, func(sequence.Answer)) { t.Error("the log was asked") }
	c := serve(t, n, rpc.Options{}).append(t)
	for _, keys := range []int{sequence.MaxCheckConditions + 1, 1 << 20} { // the second has 2 MiB on the wire, and 24 once decoded
		c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value"), Check: &strandlinev1.CheckedAppend{Keys: make([][]byte, keys)}})
		r := c.receive()
		require.Equal(t, "TOO_LARGE", r.Refused.GetReason())
		require.Equal(t, "100", r.Refused.GetMetadata()["limit"])
	}
	empty := make([]*strandlinev1.Record, 1<<20)
	for i := range empty {
		empty[i] = new(strandlinev1.Record)
	}
	c.send(&wire.AppendRequest{Records: empty, Check: &strandlinev1.CheckedAppend{Keys: [][]byte{{}}}})
	require.Equal(t, "TOO_LARGE", c.receive().Refused.GetReason(), "records of a checked append count as others do")
}

func TestARefusedRequestDoesNotEndTheStream(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 2)
	c := serve(t, n, rpc.Options{}).append(t)
	c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
	c.send(&wire.AppendRequest{Batches: []byte("garbage")})
	c.send(&wire.AppendRequest{Batches: batchOf(t, 0, "value")})
	first, third := <-held, <-held
	gap := record.Refuse(record.SequenceGap, "gap")
	gap.Expected = 17
	third.done(at(5, 1))
	first.done(sequence.Answer{Refusal: gap})

	r := c.receive()
	require.Equal(t, "SEQUENCE_GAP", r.Refused.GetReason())
	require.Equal(t, "17", r.Refused.GetMetadata()["expected_sequence"])
	require.Equal(t, "INVALID", c.receive().Refused.GetReason())
	require.EqualValues(t, 5, c.receive().FirstOffset)
}

func TestMalformedRequestsNeverReachTheLog(t *testing.T) {
	t.Parallel()
	good := batchOf(t, 0, "value")
	flipped := bytes.Clone(good)
	flipped[len(flipped)-2] ^= 1
	control := bytes.Clone(good)
	control[22] |= 1 << 5
	cases := map[string]*wire.AppendRequest{
		"no records":          {Log: "orders"},
		"flipped bit":         {Log: "orders", Batches: flipped},
		"changed attributes":  {Log: "orders", Batches: control},
		"cut short":           {Log: "orders", Batches: good[:len(good)-1]},
		"second batch is bad": {Log: "orders", Batches: append(bytes.Clone(good), flipped...)},
		"trailing bytes":      {Log: "orders", Batches: append(bytes.Clone(good), 0)},
		"both forms":          {Log: "orders", Batches: good, Records: []*strandlinev1.Record{{}}},
		"negative end":        {Log: "orders", Batches: good, ExpectedEnd: -1, HasExpectedEnd: true},
		"no log":              {Batches: good},
		"check since below 0": {Log: "orders", Batches: good, Check: &strandlinev1.CheckedAppend{Since: -1, Keys: [][]byte{good}}},
		"check for nothing":   {Log: "orders", Batches: good, Check: &strandlinev1.CheckedAppend{}},
		"check alone":         {Log: "orders", Check: &strandlinev1.CheckedAppend{Keys: [][]byte{good}}},
		"impossible time": {Log: "orders", Records: []*strandlinev1.Record{
			{Timestamp: &timestamppb.Timestamp{Nanos: -1}},
		}},
	}
	for name, q := range cases {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode()
			n.append = func(*sequence.Append, func(sequence.Answer)) { t.Error("the log was asked") }
			c := serve(t, n, rpc.Options{}).append(t)
			c.send(q)
			r := c.receive()
			require.Equal(t, "INVALID", r.Refused.GetReason())
			require.Equal(t, int32(codes.InvalidArgument), r.Refused.GetCode())
			require.Equal(t, "not_done", r.Refused.GetMetadata()["outcome"])
		})
	}
}

func TestAStreamBelongsToOneLog(t *testing.T) {
	t.Parallel()
	c := serve(t, newFakeNode(), rpc.Options{}).append(t)
	batch := batchOf(t, 0, "value")
	c.send(&wire.AppendRequest{Log: "orders", Batches: batch})
	require.Nil(t, c.receive().Refused)
	c.send(&wire.AppendRequest{Log: "others", Batches: batch})
	require.Equal(t, "INVALID", c.receive().Refused.GetReason())
	c.send(&wire.AppendRequest{Batches: batch})
	require.Nil(t, c.receive().Refused)
}

// gRPC itself ends the stream, at once: whether answers that were on their way
// still arrive is open, and so is the outcome of what they were about.
func TestAnOversizedMessageEndsTheStream(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	c := serve(t, n, rpc.Options{}).append(t)
	c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
	p := <-held
	_ = c.SendMsg(&wire.AppendRequest{Batches: make([]byte, rpc.MaxRequestBytes+1)})
	p.done(at(3, 1))
	err := c.end()
	if err == nil {
		err = c.end() // the answer came first
	}
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}

func TestAnOversizedRecordIsRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	c := serve(t, newFakeNode(), rpc.Options{}).append(t)
	c.send(&wire.AppendRequest{Log: "orders", Records: []*strandlinev1.Record{{Value: make([]byte, record.MaxRecordBytes+1)}}})
	r := c.receive()
	require.Equal(t, "TOO_LARGE", r.Refused.GetReason())
	require.Equal(t, "16777216", r.Refused.GetMetadata()["limit"])
	c.send(&wire.AppendRequest{Log: "orders", Records: []*strandlinev1.Record{{Value: make([]byte, record.MaxRecordBytes)}}})
	require.Nil(t, c.receive().Refused)
}

func TestPlainRecordsBecomeBatches(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	c := serve(t, n, rpc.Options{}).append(t)
	before := time.Now().UnixMilli()
	c.send(&wire.AppendRequest{Log: "orders", Records: []*strandlinev1.Record{
		{Offset: 99, Value: []byte("no key, no time")},
		{Key: []byte{}, Timestamp: timestamppb.New(time.UnixMilli(1234)), Headers: []*strandlinev1.Header{
			{Key: "a", Value: []byte("1")}, {Key: "b"},
		}},
		{Key: []byte("key"), Value: []byte{}},
	}})
	p := <-held
	p.done(at(0, 3))
	require.Len(t, p.Batches, 1)
	require.NoError(t, p.Batches[0].Check())
	var got []record.Record
	for r, err := range p.Batches[0].Records {
		require.NoError(t, err)
		got = append(got, r)
	}
	require.Len(t, got, 3)
	require.Nil(t, got[0].Key)
	require.Equal(t, "no key, no time", string(got[0].Value))
	require.GreaterOrEqual(t, got[0].Timestamp, before)
	require.NotNil(t, got[1].Key)
	require.Nil(t, got[1].Value)
	require.EqualValues(t, 1234, got[1].Timestamp)
	require.Equal(t, []record.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}, got[1].Headers)
	require.Empty(t, got[2].Headers)
	require.NotNil(t, got[2].Value)
}

func TestManyPlainRecordsAreCutIntoBatchesThatFitAnEntry(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	c := serve(t, n, rpc.Options{}).append(t)
	const count = 5000
	q := &wire.AppendRequest{Log: "orders"}
	for i := range count {
		q.Records = append(q.Records, &strandlinev1.Record{Value: bytes.Repeat([]byte{byte(i)}, 1000)})
	}
	for range 3 { // the second and third use memory of the one before again
		c.send(q)
		p := <-held
		p.done(at(0, count))
		require.Equal(t, count, p.Records)
		require.Len(t, p.Batches, 5)
		size, seen := 0, 0
		for _, b := range p.Batches {
			require.NoError(t, b.Check())
			require.LessOrEqual(t, len(b), record.EntryTargetBytes)
			size += len(b)
			for r := range b.Records {
				require.Equal(t, byte(seen), r.Value[999])
				seen++
			}
		}
		require.Equal(t, p.Bytes, size)
		require.Equal(t, count, seen)
		require.Nil(t, c.receive().Refused)
	}
}

func TestARequestThatDecodesIntoTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t, newFakeNode(), rpc.Options{}).append(t)
	empty := new(strandlinev1.Record)
	q := &wire.AppendRequest{Log: "orders", Records: make([]*strandlinev1.Record, 1<<20)}
	for i := range q.Records {
		q.Records[i] = empty
	}
	c.send(q) // 2 MiB on the wire
	require.Equal(t, "TOO_LARGE", c.receive().Refused.GetReason())
	c.send(&wire.AppendRequest{Log: "orders", Records: q.Records[:1000]})
	require.Nil(t, c.receive().Refused)
}

// A log without a majority answers nothing. The shortest record takes two bytes, and two hundred once it is decoded.
func TestRequestsOfShortRecordsTakeNoMoreThanTheyCount(t *testing.T) {
	for records, requests := range map[int]int{64<<10/2 - 8: 8, 4<<10/2 - 8: 100} {
		n := newFakeNode()
		waiting := make(chan func(sequence.Answer), 1)
		n.append = func(_ *sequence.Append, done func(sequence.Answer)) { waiting <- done }
		d := serve(t, n, rpc.Options{Appends: budget.NewPool(64 << 20)})
		c := d.append(t)
		q := &wire.AppendRequest{Log: "orders", Records: slices.Repeat([]*strandlinev1.Record{{}}, records)}
		before := inUse()
		var answers []func(sequence.Answer)
		for range requests {
			c.send(q)
			answers = append(answers, <-waiting)
		}
		held, counted := inUse()-before, d.server.Appends.Used()
		// A request's memory may be larger by a third than what is in it. And the streams have buffers.
		require.Less(t, held, counted+counted/3+1<<20, "of %d records", records)
		for _, answer := range answers {
			answer(at(0, uint32(records)))
		}
	}
}

func TestAnExhaustedBudgetHoldsClientsUp(t *testing.T) {
	t.Parallel()
	const size, request, requests = 1 << 20, 256 << 10, 64
	n := newFakeNode()
	held := holding(n, requests)
	var inFlight, most atomic.Int64
	hold := n.append
	n.append = func(a *sequence.Append, done func(sequence.Answer)) {
		most.Store(max(most.Load(), inFlight.Add(int64(a.Bytes))))
		hold(a, done)
	}
	d := serve(t, n, rpc.Options{Appends: budget.NewPool(size)})
	batch := batchOf(t, 0, strings.Repeat("x", request-200))
	var senders sync.WaitGroup
	for range 2 {
		c := d.append(t)
		senders.Go(func() {
			for range requests / 2 {
				if c.SendMsg(&wire.AppendRequest{Log: "orders", Batches: batch}) != nil {
					t.Error("send failed")
				}
			}
		})
	}
	const atOnce = 3 // as many as there is room for
	unanswered := []pending{<-held, <-held, <-held}
	for i := range requests {
		p := unanswered[0]
		unanswered = unanswered[1:]
		inFlight.Add(-int64(p.Bytes))
		p.done(at(0, 1))
		if i+atOnce < requests {
			unanswered = append(unanswered, <-held)
		}
	}
	senders.Wait()
	require.LessOrEqual(t, most.Load(), int64(size))
	require.Greater(t, most.Load(), int64(size/2))
}

func TestAnswersThatNobodyFetchesHoldNoBudget(t *testing.T) {
	t.Parallel()
	d := serve(t, newFakeNode(), rpc.Options{Appends: budget.NewPool(1 << 20)})
	c := d.append(t)
	batch := batchOf(t, 0, strings.Repeat("x", 10_000))
	for range maxUnanswered { // ten times the budget
		c.send(&wire.AppendRequest{Log: "orders", Batches: batch})
	}
	require.Eventually(t, func() bool { return d.server.Appends.Used() == 0 }, time.Minute, time.Millisecond)
	for range maxUnanswered {
		require.Nil(t, c.receive().Refused)
	}
}

func TestAnAppendInFlightOutlivesAClientThatGoesAway(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	d := serve(t, n, rpc.Options{})
	c := d.append(t)
	c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
	p := <-held
	c.cancel()
	require.Equal(t, codes.Canceled, status.Code(c.end()))
	// The stream is gone before the log has decided. A server that stops before it has noticed
	// that the client is gone waits for the log.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	d.server.Stop(ctx)
	require.NotZero(t, d.server.Appends.Used())
	p.done(at(0, 1))
	require.Zero(t, d.server.Appends.Used())
	require.NoError(t, p.Batches[0].Check())
}

func TestAStoppingServerAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	held := holding(n, 1)
	d := serve(t, n, rpc.Options{})
	idle, busy := d.append(t), d.append(t)
	idle.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
	p := <-held
	p.done(at(0, 1))
	idle.receive()
	busy.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
	p = <-held

	stopped := make(chan struct{})
	go func() { d.server.Stop(context.Background()); close(stopped) }()
	requireShuttingDown(t, idle.end())
	p.done(at(8, 1))
	require.EqualValues(t, 8, busy.receive().FirstOffset)
	requireShuttingDown(t, busy.end())
	<-stopped
}

func requireShuttingDown(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, status.Convert(err).Message(), "shutting down")
}

// inUse is the memory that is not garbage.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A log may answer long after the client has gone, and gRPC keeps with a stream what has been received of it.
func TestARequestThatWaitsForItsAnswerKeepsNothingOfItsStream(t *testing.T) {
	n := newFakeNode()
	held := holding(n, 1)
	inflow := budget.NewInflow(64 << 20)
	c := serve(t, n, rpc.Options{Appends: budget.NewPool(1), Inflow: inflow}).append(t)
	c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "it takes the budget")})
	first := <-held
	const behind = 16 << 20
	for range behind >> 20 {
		c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, strings.Repeat("x", 1<<20))})
	}
	require.Eventually(t, func() bool { return inflow.Used() > behind/8*7 }, time.Minute, 10*time.Millisecond)
	before := inUse()
	c.cancel()
	require.Eventually(t, func() bool { return inUse() < before-behind/2 }, time.Minute, 100*time.Millisecond)
	first.done(at(0, 1))
}
