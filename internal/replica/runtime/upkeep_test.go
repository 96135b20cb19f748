package runtime

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// startOn runs a replica alone on a log.
func startOn(t *testing.T, log segment.Log, damaged func(error)) *Replica {
	t.Helper()
	r, err := Start(Options{ID: 1, Log: log, HardState: log.HardState(), Logger: slog.New(slog.DiscardHandler), Damaged: damaged})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close(context.Background()))
		require.NoError(t, log.Close())
	})
	require.NoError(t, r.AwaitLeaderReady(t.Context()))
	return r
}

func values(t *testing.T, texts ...string) *sequence.Append {
	t.Helper()
	var builder record.Builder
	builder.Reset(nil)
	for _, text := range texts {
		require.NoError(t, builder.Add(record.Record{Timestamp: 1, Value: []byte(text)}))
	}
	batch, err := builder.Finish(record.None)
	require.NoError(t, err)
	return &sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: len(texts), Bytes: len(batch),
	}
}

func bootstrapOf(t testing.TB, voters ...uint64) segment.Bootstrap {
	b, err := core.Bootstrap(voters)
	require.NoError(t, err)
	return b
}

func (r *Replica) answerTo(q *core.Request) sequence.Answer {
	answer := make(chan sequence.Answer, 1)
	q.Done = func(a sequence.Answer) { answer <- a }
	r.Append(q)
	return <-answer
}

// keptLog is a log whose upkeep waits for release.
type keptLog struct {
	segment.Log
	recycling chan struct{}
	release   chan struct{}
}

func (l *keptLog) Trim(uint64) (bool, error) {
	l.recycling <- struct{}{}
	<-l.release
	return false, nil
}

func TestAppendsDoNotWaitForUpkeep(t *testing.T) {
	log := &keptLog{memory.New(bootstrapOf(t, 1)), make(chan struct{}, 1), make(chan struct{})}
	r := startOn(t, log, nil)
	require.Nil(t, r.answerTo(&core.Request{Append: values(t, "one", "two")}).Refusal)
	require.Nil(t, r.answerTo(&core.Request{Command: &record.Command{Kind: record.Trim, Offset: 1}}).Refusal)
	<-log.recycling
	require.Nil(t, r.answerTo(&core.Request{Append: values(t, "three")}).Refusal)
	close(log.release)
}

// savedLog reports which snapshots are saved.
type savedLog struct {
	segment.Log
	saved chan uint64
}

func (l *savedLog) SaveSnapshot(index, term uint64, data []byte) error {
	l.saved <- index
	return l.Log.SaveSnapshot(index, term, data)
}

func snapshotAt(index uint64) core.Snapshot {
	return core.Snapshot{Index: index, Term: 1, Table: sequence.NewTable()}
}

func TestEachSegmentGetsASnapshotOfItsStart(t *testing.T) {
	log := &savedLog{memory.New(bootstrapOf(t, 1)), make(chan uint64)}
	u := upkeep{log: log}
	require.True(t, u.add([]core.Snapshot{snapshotAt(5), snapshotAt(7)}))
	require.False(t, u.add([]core.Snapshot{snapshotAt(9)}))
	u.trim = false
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.run(nil, func(err error) { t.Error(err) })
	}()
	for _, index := range []uint64{5, 7, 9} {
		require.Equal(t, index, <-log.saved)
	}
	<-done
	require.False(t, u.pending())

	// More than are kept: the newest are.
	for i := range uint64(2 * maxSnapshots) {
		u.add([]core.Snapshot{snapshotAt(i)})
	}
	require.Equal(t, uint64(maxSnapshots), u.snapshots[0].Index)
	require.Len(t, u.snapshots, maxSnapshots)
}

// rottenLog meets damage when it is written to, as a log does that looks for the
// place of a suffix to truncate.
type rottenLog struct{ segment.Log }

func (l rottenLog) Write(ws []segment.Write) (segment.Result, error) {
	for i := range ws {
		if len(ws[i].Entries) > 0 && ws[i].Entries[0].Count > 0 {
			return segment.Result{}, &segment.CorruptError{File: "some.seg"}
		}
	}
	return l.Log.Write(ws)
}

func TestDamageThatTheWriterMeetsIsReported(t *testing.T) {
	found := make(chan error, 1)
	r := startOn(t, rottenLog{memory.New(bootstrapOf(t, 1))}, func(err error) { found <- err })
	a := r.answerTo(&core.Request{Append: values(t, "one")})
	require.Equal(t, record.MaybeDone, a.Refusal.Reason.Outcome())
	require.ErrorAs(t, <-found, new(*segment.CorruptError))
	require.Equal(t, record.Corrupt, r.Status().Failed.Reason)
}

// rottenFront is damaged where recycling looks.
type rottenFront struct{ segment.Log }

func (rottenFront) Trim(uint64) (bool, error) {
	return false, errors.Join(errors.New("recycle"), &segment.CorruptError{File: "some.seg"})
}

func TestDamageThatUpkeepMeetsIsReported(t *testing.T) {
	found := make(chan error, 1)
	r := startOn(t, rottenFront{memory.New(bootstrapOf(t, 1))}, func(err error) { found <- err })
	require.Nil(t, r.answerTo(&core.Request{Append: values(t, "one", "two")}).Refusal)
	require.Nil(t, r.answerTo(&core.Request{Command: &record.Command{Kind: record.Trim, Offset: 1}}).Refusal)
	require.ErrorAs(t, <-found, new(*segment.CorruptError))
	require.Nil(t, r.Status().Failed, "the log goes on")
}
