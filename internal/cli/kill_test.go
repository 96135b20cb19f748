package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// load is many producers that append numbered values until stop, and the answers
// that they got.
type load struct {
	t       *testing.T
	client  *client.Client
	acked   []map[string]int64 // of each producer: value and offset
	total   atomic.Int64
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startLoad appends with a few records in flight on each producer.
func startLoad(t *testing.T, address string, producers int) *load {
	c, err := client.Dial([]string{address}, client.WithRetryTime(5*time.Minute))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	l := &load{t: t, client: c, stop: stop}
	for i := range producers {
		acked := map[string]int64{}
		l.acked = append(l.acked, acked)
		// The server may be away for as long as it takes to end and to start.
		p, err := c.Producer(t.Context(), "orders", client.WithRequestTimeout(5*time.Minute))
		require.NoError(t, err)
		l.running.Go(func() { l.produce(ctx, p, i, acked) })
	}
	return l
}

func (l *load) produce(ctx context.Context, p *client.Producer, who int, acked map[string]int64) {
	defer func() { _ = p.Close(context.Background()) }()
	type sent struct {
		value  string
		future *client.Future
	}
	flying := make(chan sent, 16)
	l.running.Go(func() {
		for s := range flying {
			offset, err := s.future.Offset(context.Background())
			if err == nil {
				acked[s.value] = offset
				l.total.Add(1)
			} else if ctx.Err() == nil {
				l.t.Errorf("append %s: %v", s.value, err)
			}
		}
	})
	defer close(flying)
	for n := 0; ctx.Err() == nil; n++ {
		value := fmt.Sprintf("%d-%d", who, n)
		future, err := p.Send(ctx, client.Record{Value: []byte(value)})
		if err != nil {
			return
		}
		select {
		case flying <- sent{value, future}:
		case <-ctx.Done():
			return
		}
	}
}

// await waits until so many more appends are acknowledged.
func (l *load) await(more int64) {
	goal := l.total.Load() + more
	require.Eventually(l.t, func() bool { return l.total.Load() >= goal }, 2*time.Minute, time.Millisecond)
}

// finish stops the producers and proves that what was acknowledged is in the
// log, once, at its offset, and each producer's records in the order sent.
func (l *load) finish() {
	l.stop()
	l.running.Wait()
	r, err := l.client.Reader(l.t.Context(), "orders")
	require.NoError(l.t, err)
	stored, newest := map[string]int64{}, map[int]int{}
	for {
		record, err := r.Next(l.t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(l.t, err)
		value := string(record.Value)
		require.NotContains(l.t, stored, value, "a record is there twice")
		stored[value] = record.Offset
		var who, n int
		_, err = fmt.Sscanf(value, "%d-%d", &who, &n)
		require.NoError(l.t, err)
		require.Equal(l.t, newest[who], n, "producer %d's records are in the order sent, without a gap", who)
		newest[who] = n + 1
	}
	for _, acked := range l.acked {
		for value, offset := range acked {
			at, there := stored[value]
			require.True(l.t, there, "%s was acknowledged at %d and is not there", value, offset)
			require.Equal(l.t, offset, at, "%s", value)
		}
	}
	require.NoError(l.t, r.Close())
	require.NoError(l.t, l.client.Close())
}

func TestKillingTheServerLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	server := startNode(t, data, "--grpc", ownPort())
	server.must("", "log", "create", "orders")
	l := startLoad(t, server.grpc, 4)
	for range 5 {
		l.await(1 + random.Int64N(2000))
		require.NoError(t, server.command.Process.Kill())
		_ = server.command.Wait()
		server = startNode(t, data, "--grpc", server.grpc)
	}
	l.await(100)
	l.finish()
}

func TestSIGTERMFinishesWhatIsInFlightAndExitsZero(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := startNode(t, data, "--grpc", ownPort())
	server.must("", "log", "create", "orders")
	l := startLoad(t, server.grpc, 4)
	l.await(500)
	begin := time.Now()
	require.Equal(t, terminal.ExitOK, server.terminate())
	require.Less(t, time.Since(begin), time.Minute, "10 s on a machine that has nothing else to do")
	startNode(t, data, "--grpc", server.grpc)
	l.await(100)
	l.finish()
}
