package grpcserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

const ms = time.Millisecond

// timedNode takes its time before a log has a request, in each stage, and before it answers.
func timedNode(receive, answer time.Duration, times sequence.Times, acks ...sequence.Ack) *fakeNode {
	n := newFakeNode()
	n.append = func(a *sequence.Append, done func(sequence.Answer)) {
		time.Sleep(receive)
		if s := a.Stages; s != nil {
			*s = sequence.Stages{Arrived: time.Now(), Times: times, Proposed: times.Queue, Acks: acks}
		}
		go func() {
			time.Sleep(times.Total() + answer)
			done(at(7, 1))
		}()
	}
	return n
}

func sum(m *strandlinev1.AppendStages) (total time.Duration) {
	for _, d := range []*durationpb.Duration{m.Receive, m.Queue, m.Batch, m.Write, m.Sync, m.Replicas, m.Answer} {
		total += d.AsDuration()
	}
	return total
}

// On a clock that passes only while something waits, the stages are to the nanosecond what the
// client waited for.
func TestAnAnswerSaysWhereTheTimeOfARequestWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := sequence.Times{Queue: 1 * ms, Batch: 2 * ms, Write: 3 * ms, Sync: 4 * ms, Replicas: 5 * ms}
		acks := []sequence.Ack{{Node: "b", After: 14 * ms}, {Node: "c", Missing: true}}
		c := serve(t, timedNode(6*ms, 8*ms, times, acks...), rpc.Options{}).append(t)
		for range 2 {
			began := time.Now()
			c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value"), Explain: true})
			r := c.receive()
			require.Equal(t, time.Since(began), sum(r.Stages))
			require.Equal(t, 6*ms, r.Stages.Receive.AsDuration())
			require.Equal(t, 8*ms, r.Stages.Answer.AsDuration())
			require.Equal(t, 1*ms, r.Stages.Proposed.AsDuration())
			require.Len(t, r.Stages.Acknowledgements, 2)
			require.Equal(t, "b", r.Stages.Acknowledgements[0].Node)
			require.Equal(t, 14*ms, r.Stages.Acknowledgements[0].After.AsDuration())
			require.Nil(t, r.Stages.Acknowledgements[1].After, "it has not acknowledged")
		}
		// Who does not ask gets none, on the same stream.
		c.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "value")})
		require.Nil(t, c.receive().Stages)
		require.NoError(t, c.CloseSend())
		_ = c.end()
	})
}

func TestARefusalHasNoStages(t *testing.T) {
	t.Parallel()
	c := serve(t, newFakeNode(), rpc.Options{}).append(t)
	c.send(&wire.AppendRequest{Log: "none", Batches: batchOf(t, 0, "value"), Explain: true})
	r := c.receive()
	require.NotNil(t, r.Refused)
	require.Nil(t, r.Stages)
}
