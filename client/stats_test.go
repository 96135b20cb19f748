package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/transport/wire"
)

// The node says where its own time went; the client knows the rest, and all of it adds up to
// what the caller waited for.
func TestTheStagesOfAnAppendAddUpToWhatItsCallerWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	const onServer = 30 * time.Millisecond
	f.answer = func() { time.Sleep(onServer) }
	f.stages = &strandlinev1.AppendStages{
		Receive: durationpb.New(1), Queue: durationpb.New(2), Batch: durationpb.New(3), Write: durationpb.New(4),
		Sync: durationpb.New(5), Replicas: durationpb.New(6), Answer: durationpb.New(onServer - 21), Proposed: durationpb.New(7),
		Acknowledgements: []*strandlinev1.ReplicaAcknowledgement{{Node: "b", After: durationpb.New(8)}, {Node: "c"}},
	}
	p := f.producer(t, client.WithStages())
	began := time.Now()
	result, err := p.AppendResult(t.Context(), client.Record{Value: []byte("x")})
	took := time.Since(began)
	require.NoError(t, err)
	s := result.Stages
	require.EqualValues(t, 0, result.Offset)
	require.Equal(t, onServer, s.Server())
	require.Equal(t, []client.ReplicaAck{{Node: "b", After: 8}, {Node: "c", Missing: true}}, s.Acks)
	require.EqualValues(t, 7, s.Proposed)
	require.LessOrEqual(t, s.Total(), took)
	require.GreaterOrEqual(t, s.Total(), onServer)
	total, names := time.Duration(0), []string{}
	for name, stage := range s.All() {
		total += stage
		names = append(names, name)
	}
	require.Equal(t, s.Total(), total)
	require.Equal(t, []string{"gather", "network", "receive", "queue", "batch", "write", "sync", "replicas", "answer", "wake"}, names)

	future, err := p.Send(t.Context(), client.Record{Value: []byte("y")})
	require.NoError(t, err)
	later, err := future.Result(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, later.Offset)
	require.Equal(t, onServer, later.Stages.Server())
	require.Zero(t, later.Stages.Wake, "nobody waited")
	counted := p.Stats().Stages
	require.Len(t, counted, len(names))
	for i, name := range names {
		require.Equal(t, name, counted[i].Stage)
		require.EqualValues(t, 2, counted[i].Count)
	}
	require.EqualValues(t, 2*4, counted[5].Sum, "write")
}

// A record that the in-flight window has no room for is gathered for as long.
func TestWhatWaitsForTheWindowIsGathered(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.stages = &strandlinev1.AppendStages{}
	answers := make(chan struct{})
	f.answer = func() { <-answers }
	p := f.producer(t, client.WithStages(), client.WithMaxInFlightRequests(1))
	_, err := p.Send(t.Context(), client.Record{Value: []byte("first")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.Stats().InFlightRequests == 1 }, time.Minute, time.Millisecond)
	second, err := p.Send(t.Context(), client.Record{Value: []byte("second")})
	accepted := time.Now()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return time.Since(accepted) > time.Millisecond }, time.Minute, time.Millisecond)
	waited := time.Since(accepted)
	close(answers)
	result, err := second.Result(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, result.Stages.Gather, waited)
}

func TestStagesAreAskedForOnDemandOnly(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	asked := make(chan bool, 1)
	f.decide = func(_ int, m *wire.AppendRequest) fate {
		asked <- m.Explain
		return fate{}
	}
	result, err := f.producer(t).AppendResult(t.Context(), client.Record{Value: []byte("x")})
	require.NoError(t, err)
	require.Nil(t, result.Stages)
	require.False(t, <-asked)
	// A server that knows no stages leaves them out.
	result, err = f.producer(t, client.WithStages()).AppendResult(t.Context(), client.Record{Value: []byte("y")})
	require.NoError(t, err)
	require.EqualValues(t, 1, result.Offset)
	require.Nil(t, result.Stages)
	require.True(t, <-asked)
}

func TestAProducerNamesTheSpanAboveItsAppends(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p := f.producer(t, client.WithTraceparent(traceparent))
	_, err := p.Append(t.Context(), []byte("x"))
	require.NoError(t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, []string{traceparent}, f.metadata.Get("traceparent"))
}
