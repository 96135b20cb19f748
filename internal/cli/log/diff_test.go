package log

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/embed"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/stopped"
	"strandline.dev/internal/record"
)

// The digests of two logs that differ from one batch on differ from its end on.
func TestTheFirstDifferenceIsFoundByHalving(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		ends := []int64{0} // of batches
		for range random.IntN(40) {
			ends = append(ends, ends[len(ends)-1]+1+random.Int64N(5))
		}
		last := ends[len(ends)-1]
		low := random.Int64N(last + 1)
		other := random.IntN(len(ends) + 1) // the batch that ends there is the first that differs; 0, or none: none
		asked := 0
		equal, differs, err := firstDifference(low, last, func(at int64) (bool, int64, error) {
			asked++
			require.GreaterOrEqual(t, at, low)
			covered := int64(0)
			for _, end := range ends {
				if end <= at {
					covered = end
				}
			}
			return other == 0 || other == len(ends) || ends[other] > at, covered, nil
		})
		require.NoError(t, err)
		switch {
		case other == 0 || other == len(ends):
			require.EqualValues(t, -1, differs)
			require.Equal(t, 1, asked)
		case ends[other] <= low:
			require.EqualValues(t, -1, equal)
			require.Equal(t, low, differs)
		default:
			require.Equal(t, ends[other], differs)
			require.Equal(t, ends[other-1], equal)
			require.LessOrEqual(t, asked, 10)
		}
	}
	_, _, err := firstDifference(0, 9, func(int64) (bool, int64, error) { return false, 0, context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
}

// begunSide is a log of batches of one record each, whose digest begins at an offset.
type begunSide struct {
	side
	name   string
	from   int64
	values []string
}

func (s *begunSide) String() string { return s.name }

func (s *begunSide) digest(_ context.Context, at int64) (client.Digest, error) {
	end := int64(len(s.values))
	if at == client.DigestAtEnd {
		at = end
	}
	if at <= s.from {
		return client.Digest{}, client.ErrPrecondition
	}
	return client.Digest{
		Hash: sha256.Sum256(fmt.Append(nil, s.values[s.from:at])), At: at, From: s.from, Covered: at, Batches: at - s.from, End: end,
	}, nil
}

func (s *begunSide) records(_ context.Context, from, to int64) (recordReader, error) {
	return pulled(func(yield func(record.Record, error) bool) {
		for i := from; i < to && yield(record.Record{Offset: record.Offset(i), Value: []byte(s.values[i])}, nil); i++ {
		}
	}), nil
}

func TestLogsOfBeforeThereWereDigestsAreComparedFromWhereTheyBegin(t *testing.T) {
	values := strings.Fields("a b c d e f g h")
	for at := 3; at < len(values); at++ {
		other := slices.Clone(values)
		other[at] = "forged"
		d, err := compare(t.Context(), &begunSide{name: "one", from: 3, values: values}, &begunSide{name: "other", from: 3, values: other})
		require.NoError(t, err)
		require.False(t, d.Equal)
		require.EqualValues(t, at, *d.Offset)
		require.Equal(t, "another value", d.Detail)
	}
	d, err := compare(t.Context(), &begunSide{from: 3, values: values}, &begunSide{from: 3, values: values[:5]})
	require.NoError(t, err)
	require.True(t, d.Equal)
	require.EqualValues(t, []int64{3, 5}, []int64{d.From, d.To})
}

// A hash says nothing of offsets that no record has: of two logs with the same batches below
// an offset one may have skipped what the other has in a batch that reaches beyond.
func TestALogThatSkippedOffsetsDiffersFromOneWithRecordsThere(t *testing.T) {
	n, err := embed.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer n.Close()
	c, err := n.Client()
	require.NoError(t, err)
	defer c.Close()
	for log, batch := range map[string]int{"skipped": 0, "also skipped": 0, "filled": 5} {
		_, err := c.Admin().CreateLog(t.Context(), strings.ReplaceAll(log, " ", "-"), client.LogConfig{})
		require.NoError(t, err)
		p, err := c.Producer(t.Context(), strings.ReplaceAll(log, " ", "-"))
		require.NoError(t, err)
		at := time.UnixMilli(1)
		_, err = p.AppendRecord(t.Context(), client.Record{Timestamp: at, Value: []byte("first")})
		require.NoError(t, err)
		if batch > 0 {
			_, err = p.AppendBatch(t.Context(), slices.Repeat([]client.Record{{Timestamp: at, Value: []byte("more")}}, batch))
		} else {
			_, _, err = c.Admin().Trim(t.Context(), strings.ReplaceAll(log, " ", "-"), 3, true)
		}
		require.NoError(t, err)
		require.NoError(t, p.Close(t.Context()))
	}
	of := func(log string) side { return &servedSide{name: log, connection: c, log: log} }
	for _, pair := range [][2]string{{"skipped", "filled"}, {"filled", "skipped"}} {
		d, err := compare(t.Context(), of(pair[0]), of(pair[1]))
		require.NoError(t, err)
		require.False(t, d.Equal, "%+v", d)
	}
	d, err := compare(t.Context(), of("skipped"), of("also-skipped"))
	require.NoError(t, err)
	require.True(t, d.Equal, "%+v", d)
}

// The leader's digests and records are of one replica, also where another one leads meanwhile.
func TestEachReplicaOfALogIsASideOfItsOwn(t *testing.T) {
	const anyPort = "127.0.0.1:0"
	n, err := embed.Open(t.Context(), t.TempDir(), embed.WithNodes(3), embed.WithLeadersKept(), embed.WithGRPC(anyPort, anyPort, anyPort))
	require.NoError(t, err)
	defer n.Close()
	connection, err := n.Client()
	require.NoError(t, err)
	defer connection.Close()
	_, err = connection.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	for _, node := range n.Nodes() {
		// Another one leads when nodes have not heard of each other for a while.
		require.Eventually(t, func() (ordered bool) {
			sides, err := openSides(&terminal.Terminal{Servers: []string{node.GRPC}}, t.Context(), []string{"orders"})
			if err != nil {
				return false
			}
			require.Len(t, sides, 3)
			ordered = true
			for i, s := range sides {
				served := s.(*servedSide)
				require.True(t, served.alone, "%s, from node %s", s, node.Name)
				known, err := served.connection.Admin().Info(t.Context(), "orders")
				leads := slices.ContainsFunc(known.Replicas, func(r client.ReplicaAddress) bool { return r.Leader && "orders@"+r.Node == s.String() })
				ordered = ordered && err == nil && leads == (i == 0)
				require.NoError(t, s.Close())
			}
			return ordered
		}, time.Minute, time.Millisecond, "the leader is the first, from node %s", node.Name)
	}
}

var (
	diffBytes = flag.Int64("diff-bytes", 64<<20, "how large each log of BenchmarkDiff is")
	diffDir   = flag.String("diff-dir", "", "where the logs of BenchmarkDiff are kept for the next time; empty: nowhere")
)

// BenchmarkDiff compares logs by batches of 32 records of 2 KiB, on a node and then in its files: two that are
// equal, and two that differ in one record, at a third.
//
//	go test ./internal/cli/log -run - -bench Diff -benchtime 5x -timeout 0 -diff-bytes 1000000000 -diff-dir /var/tmp/diff
//
// There are two logs, made both at once and batch by batch, so that memory does not grow with them. They take 2.03 times
// -diff-bytes of disk and some files made ahead: 41 GiB for 20 GiB each.
func BenchmarkDiff(b *testing.B) {
	dir := *diffDir
	if dir == "" {
		dir = b.TempDir()
	}
	n, err := embed.Open(b.Context(), dir)
	require.NoError(b, err)
	c, err := n.Client()
	require.NoError(b, err)
	batches := *diffBytes >> 16
	filled := make(chan error)
	for _, log := range []string{"orders", "other"} {
		go func() { filled <- fillForDiff(b.Context(), c, log, batches, log == "other") }()
	}
	require.NoError(b, errors.Join(<-filled, <-filled))
	benchmarkDiff(b, "node", batches, func(log string) side { return &servedSide{name: log, connection: c, log: log} })
	require.NoError(b, c.Close())
	require.NoError(b, n.Close())
	benchmarkDiff(b, "files", batches, func(log string) side {
		l, err := stopped.OpenLog(b.Context(), filepath.Join(dir, "a"), log, slog.Default())
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, l.Close()) })
		return &storedSide{log, l}
	})
}

func benchmarkDiff(b *testing.B, where string, batches int64, open func(log string) side) {
	for _, other := range []string{"orders", "other"} {
		b.Run(fmt.Sprintf("%s/%dMiB/%s", where, batches>>4, other), func(b *testing.B) {
			exchanges := 0
			for b.Loop() {
				d, err := compare(b.Context(), open("orders"), open(other))
				require.NoError(b, err)
				require.Equal(b, other == "orders", d.Equal)
				if !d.Equal {
					require.Equal(b, batches/3*32+7, *d.Offset)
				}
				exchanges = d.Exchanges
			}
			b.ReportMetric(float64(exchanges), "exchanges")
		})
	}
}

// fillForDiff makes a log of so many batches, unless it is there.
func fillForDiff(ctx context.Context, c *client.Client, log string, batches int64, another bool) error {
	info, err := c.Admin().CreateLog(ctx, log, client.LogConfig{})
	if errors.Is(err, client.ErrLogExists) {
		if info, err = c.Admin().Info(ctx, log); err == nil && info.End != 32*batches {
			err = fmt.Errorf("log %s ends at %d and not at %d: it was created with another -diff-bytes", log, info.End, 32*batches)
		}
		return err
	}
	if err != nil {
		return err
	}
	p, err := c.Producer(ctx, log)
	if err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{})
	values := make([]byte, 32*2<<10)
	records := make([]client.Record, 32)
	for k := range batches {
		_, _ = random.Read(values)
		for i := range records {
			records[i] = client.Record{Timestamp: time.UnixMilli(1), Value: values[i*2<<10:][:2<<10]}
		}
		if another && k == batches/3 {
			records[7].Value[100] ^= 1
		}
		if _, err := p.AppendBatch(ctx, records); err != nil {
			return err
		}
	}
	return p.Close(ctx)
}
