package statemachine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/statemachine"
	"strandline.dev/test/cost"
)

// table is a machine with a state of a given size.
type table struct{ rows []byte }

const rowBytes = 100

func (t *table) Apply(r client.Record) (int, error) {
	if len(t.rows) > 0 {
		copy(t.rows[int(r.Offset)*rowBytes%len(t.rows):], r.Value)
	}
	return len(r.Value), nil
}

func (t *table) Snapshot() (io.WriterTo, error) { return bytes.NewBuffer(bytes.Clone(t.rows)), nil }

func (t *table) Restore(r io.Reader) (err error) {
	t.rows, err = io.ReadAll(r)
	return err
}

// Many replicas of a state of 200 KiB boot at once, each with a connection of its own, from a snapshot and 100 records
// behind it:
//
//	TMPDIR=/dev/shm go test ./statemachine -run XXX -bench Boot -benchtime 50x
func BenchmarkBoot(b *testing.B) {
	for _, replicas := range []int{1, 100} {
		b.Run(fmt.Sprint("replicas=", replicas), func(b *testing.B) { benchmarkBoot(b, replicas) })
	}
}

func benchmarkBoot(b *testing.B, replicas int) {
	e := newCluster(b)
	d := statemachine.Files(b.TempDir())
	results := make(chan statemachine.SnapshotResult, 1)
	first := e.open(&table{make([]byte, 200<<10)}, statemachine.WithSnapshots(d), statemachine.WithSchedule(1, 0), taken(results))
	e.propose(first, "a")
	require.NoError(b, (<-results).Err)
	e.close(first)
	p, err := e.c.Producer(b.Context(), logName)
	require.NoError(b, err)
	for range 100 {
		_, err := p.Append(b.Context(), make([]byte, rowBytes))
		require.NoError(b, err)
	}
	require.NoError(b, p.Close(b.Context()))
	var took []time.Duration
	var worked time.Duration
	for b.Loop() {
		b.StopTimer()
		var clients []*client.Client
		for range replicas {
			clients = append(clients, e.dial())
		}
		times := make([]time.Duration, replicas)
		opened := make([]*statemachine.Replica[int], replicas)
		before := cost.Worked()
		b.StartTimer()
		var working sync.WaitGroup
		for i := range replicas {
			working.Go(func() {
				began := time.Now()
				r, err := statemachine.Open(b.Context(), clients[i], logName, &table{}, statemachine.WithSnapshots(d), statemachine.WithSchedule(0, 0))
				times[i], opened[i] = time.Since(began), r
				if err != nil {
					b.Error(err)
				}
			})
		}
		working.Wait()
		b.StopTimer()
		worked += cost.Worked() - before
		took = append(took, times...)
		for i, r := range opened {
			if r != nil {
				e.close(r)
			}
			require.NoError(b, clients[i].Close())
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(worked.Microseconds())/1000/float64(len(took)), "cpu-ms/boot")
}

// Proposals, and appends to a log without a replica, one after the other in turns of 100: the difference is what the
// replica costs.
//
//	TMPDIR=/dev/shm go test ./statemachine -run XXX -bench Propose -benchtime 100x
func BenchmarkProposeAgainstAppend(b *testing.B) {
	e := newCluster(b)
	_, err := e.c.Admin().CreateLog(b.Context(), "plain", client.LogConfig{Durability: client.Memory})
	require.NoError(b, err)
	r := e.open(&table{make([]byte, 200<<10)}, statemachine.WithDigests(0))
	p, err := e.c.Producer(b.Context(), "plain")
	require.NoError(b, err)
	value := binary.BigEndian.AppendUint64(make([]byte, rowBytes-8), 1)
	const turn = 100
	var appends, proposals []time.Duration
	var appended, proposed time.Duration
	for b.Loop() {
		before := cost.Worked()
		for range turn {
			began := time.Now()
			if _, err := p.Append(b.Context(), value); err != nil {
				b.Fatal(err)
			}
			appends = append(appends, time.Since(began))
		}
		between := cost.Worked()
		for range turn {
			began := time.Now()
			if _, err := r.Propose(b.Context(), client.Record{Value: value}); err != nil {
				b.Fatal(err)
			}
			proposals = append(proposals, time.Since(began))
		}
		appended, proposed = appended+between-before, proposed+cost.Worked()-between
	}
	require.NoError(b, p.Close(b.Context()))
	n := float64(len(appends))
	slices.Sort(appends)
	slices.Sort(proposals)
	b.ReportMetric(float64(appended.Microseconds())/n, "append-cpu-us")
	b.ReportMetric(float64(proposed.Microseconds())/n, "propose-cpu-us")
	b.ReportMetric(float64(appends[len(appends)/2].Nanoseconds())/1000, "append-p50-us")
	b.ReportMetric(float64(proposals[len(proposals)/2].Nanoseconds())/1000, "propose-p50-us")
}
