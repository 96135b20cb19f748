package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/client"
)

func texts(of ...string) (all [][]byte) {
	for _, text := range of {
		all = append(all, []byte(text))
	}
	return all
}

// Records that come over any port are seen by the checks of clients of either kind of stream.
func TestACheckSeesWhatCameOverEveryPort(t *testing.T) {
	t.Parallel()
	n, err := Start(alone(t, t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	for name, options := range map[string][]client.Option{"stream protocol": nil, "gRPC": {client.WithStreamsOverGRPC()}} {
		t.Run(name, func(t *testing.T) {
			c, err := client.Dial([]string{n.GRPC()}, options...)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			log := fmt.Sprint("orders", len(options))
			_, err = c.Admin().CreateLog(t.Context(), log, client.LogConfig{})
			require.NoError(t, err)
			kafka, err := kgo.NewClient(kgo.SeedBrokers(n.Kafka()), kgo.DefaultProduceTopic(log), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
			require.NoError(t, err)
			defer kafka.Close()
			p, err := c.Producer(t.Context(), log, client.WithCompression(client.Zstd))
			require.NoError(t, err)
			try := func(check client.Check, key string) (int64, *client.Error) {
				first, err := p.AppendBatch(t.Context(), []client.Record{{Key: []byte(key), Value: []byte("checked")}}, client.WithCheck(check))
				var e *client.Error
				if err != nil {
					require.ErrorAs(t, err, &e)
					require.Equal(t, client.NotDone, e.Outcome)
					require.False(t, e.Retryable)
				}
				return first, e
			}
			first, refused := try(client.Check{Keys: texts("a")}, "a")
			require.Nil(t, refused)
			require.Zero(t, first)
			require.NoError(t, kafka.ProduceSync(t.Context(), &kgo.Record{Key: []byte("k/1"), Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: "tag", Value: []byte("red")}}}).FirstErr())
			for _, check := range []client.Check{
				{Since: 1, Keys: texts("k/1")}, {Since: 1, KeyPrefixes: texts("k/")}, {Since: 1, Headers: []client.Header{{Key: "tag", Value: []byte("red")}}},
			} {
				_, refused = try(check, "b")
				require.NotNil(t, refused)
				require.ErrorIs(t, refused, client.ErrConflict)
				require.EqualValues(t, 1, refused.Offset)
				require.Equal(t, "k/1", string(refused.Key))
			}
			first, refused = try(client.Check{Since: 1, Keys: texts("a"), KeyPrefixes: texts("l")}, "b")
			require.Nil(t, refused)
			require.EqualValues(t, 2, first)
			_, refused = try(client.Check{Since: 9, Keys: texts("a")}, "b")
			require.ErrorIs(t, refused, client.ErrOffsetBeyondEnd)
			require.NoError(t, p.Close(t.Context()))
		})
	}
}

// Writers move money between few accounts, each deciding on what it has read, while leaders change. No
// balance falls below zero in the order of the log, whoever wrote what.
func TestManyWritersDecideOnWhatIsInTheLogWithoutALock(t *testing.T) {
	t.Parallel()
	cluster, err := StartCluster(t.Context(), trio(t, t.TempDir(), "a", "b", "c"))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	var addresses []string
	for _, n := range cluster.Nodes {
		addresses = append(addresses, n.GRPC())
	}
	c, err := client.Dial(addresses)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.Admin().CreateLog(t.Context(), "ledger", client.LogConfig{Replicas: 3})
	require.NoError(t, err)

	const accounts, writers, transfers = 4, 6, 40
	seed, err := c.Producer(t.Context(), "ledger")
	require.NoError(t, err)
	for i := range accounts {
		_, err := seed.AppendBatch(t.Context(), []client.Record{transferOf(-1, i, 100)})
		require.NoError(t, err)
	}
	require.NoError(t, seed.Close(t.Context()))

	var conflicts atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			l := &ledger{client: c}
			for i := range transfers {
				from := (w + i) % accounts
				for {
					if !l.catchUp(ctx, t) || l.balances[from] < 60 {
						break
					}
					p, err := c.Producer(ctx, "ledger")
					if err != nil {
						break
					}
					_, err = p.AppendBatch(ctx, []client.Record{transferOf(from, (from+1+i%3)%accounts, 60)},
						client.WithCheck(client.Check{Since: l.next, Headers: []client.Header{accountOf(from)}}))
					_ = p.Close(ctx)
					if errors.Is(err, client.ErrConflict) {
						conflicts.Add(1)
					}
					if !errors.Is(err, client.ErrConflict) && !errors.Is(err, client.ErrCheckTooOld) {
						break
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	for i := 0; ; i++ {
		select {
		case <-done:
		case <-time.After(300 * time.Millisecond):
			_ = c.Admin().TransferLeader(ctx, "ledger", []string{"a", "b", "c"}[i%3])
			continue
		}
		break
	}
	require.NoError(t, ctx.Err())
	final := &ledger{client: c}
	require.True(t, final.catchUp(ctx, t))
	require.NoError(t, final.overdrawn)
	sum := 0
	for _, b := range final.balances {
		sum += b
	}
	require.Equal(t, 100*accounts, sum)
	require.Positive(t, conflicts.Load(), "some decisions rested on what others had changed")
	t.Logf("%d records, %d conflicts", final.next, conflicts.Load())
}

func accountOf(i int) client.Header { return client.Header{Key: "account", Value: fmt.Append(nil, i)} }

func transferOf(from, to, amount int) client.Record {
	r := client.Record{Value: fmt.Appendf(nil, "%d %d %d", from, to, amount), Headers: []client.Header{accountOf(to)}}
	if from >= 0 {
		r.Headers = append(r.Headers, accountOf(from))
	}
	return r
}

// ledger is the balances below an offset.
type ledger struct {
	client    *client.Client
	balances  [4]int
	next      int64
	overdrawn error
}

func (l *ledger) catchUp(ctx context.Context, t *testing.T) bool {
	r, err := l.client.Reader(ctx, "ledger", client.WithStartOffset(l.next))
	if err != nil {
		return false
	}
	defer r.Close()
	for {
		record, err := r.Next(ctx)
		if err == io.EOF {
			return true
		}
		if err != nil {
			return false
		}
		var numbers [3]int
		for i, text := range strings.Fields(string(record.Value)) {
			if numbers[i], err = strconv.Atoi(text); err != nil {
				t.Error(err)
			}
		}
		from, to, amount := numbers[0], numbers[1], numbers[2]
		if from >= 0 {
			if l.balances[from] -= amount; l.balances[from] < 0 {
				l.overdrawn = fmt.Errorf("account %d has %d after offset %d", from, l.balances[from], record.Offset)
			}
		}
		l.balances[to] += amount
		l.next = record.Offset + 1
	}
}
