package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) {
	// Nodes wait for elections and for the disk most of the time: more tests than processors go side by side.
	_ = flag.Set("test.parallel", "6")
	leaks.Main(m)
}

var anyone = verbs.Caller{}

func open(t *testing.T, dir string) *Node {
	t.Helper()
	n, err := Open(settings.Options{FormAlone: true, DataDir: dir, SegmentBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	return n
}

func create(t *testing.T, n *Node, name string, config settings.Config) {
	t.Helper()
	_, err := n.CreateLog(t.Context(), anyone, name, config)
	require.NoError(t, err)
}

func request(t testing.TB, texts ...string) *sequence.Append {
	t.Helper()
	var b record.Builder
	b.Reset(nil)
	for _, text := range texts {
		require.NoError(t, b.Add(record.Record{Timestamp: 1, Value: []byte(text)}))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	return &sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: len(texts), Bytes: len(batch),
	}
}

func appendTo(t testing.TB, n *Node, log string, a *sequence.Append) sequence.Answer {
	t.Helper()
	answers := make(chan sequence.Answer, 1)
	n.Append(anyone, log, a, nil, func(a sequence.Answer) { answers <- a })
	return <-answers
}

func mustAppend(t *testing.T, n *Node, log string, texts ...string) record.Offset {
	t.Helper()
	a := appendTo(t, n, log, request(t, texts...))
	require.Nil(t, a.Refusal)
	return a.First.First
}

func read(t testing.TB, n *Node, log string, q reading.Request) []string {
	t.Helper()
	r, err := n.Read(t.Context(), anyone, log, q)
	require.NoError(t, err)
	defer r.Close()
	var texts []string
	for {
		c, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		texts = append(texts, textsOf(t, c)...)
	}
}

// textsOf decodes the asked-for records of a chunk.
func textsOf(t testing.TB, c reading.Chunk) []string {
	t.Helper()
	var texts []string
	for r, err := range c.Records(t.Context()) {
		require.NoError(t, err)
		texts = append(texts, fmt.Sprintf("%d:%s", r.Offset, r.Value))
	}
	return texts
}

var everything = reading.Request{Until: reading.NoOffset}

func requireReason(t testing.TB, reason record.Reason, err error) *record.Refusal {
	t.Helper()
	var refusal *record.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, reason, refusal.Reason, refusal.Detail)
	return refusal
}

func TestWhatWasAppendedIsReadBackAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	require.Equal(t, record.Offset(0), mustAppend(t, n, "orders", "a", "b"))
	require.Equal(t, record.Offset(2), mustAppend(t, n, "orders", "c"))
	want := []string{"0:a", "1:b", "2:c"}
	require.Equal(t, want, read(t, n, "orders", everything))
	require.NoError(t, n.Close(t.Context()))

	n = open(t, dir)
	require.Equal(t, want, read(t, n, "orders", everything))
	require.Equal(t, record.Offset(3), mustAppend(t, n, "orders", "d"))
}

func TestReadLimitsCutBetweenRecords(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	mustAppend(t, n, "orders", "a", "b", "c")
	mustAppend(t, n, "orders", "d", "e")
	for name, c := range map[string]struct {
		request reading.Request
		want    []string
	}{
		"from an offset inside a batch": {reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 1}, Until: reading.NoOffset}, []string{"1:b", "2:c", "3:d", "4:e"}},
		"a count that ends in a batch":  {reading.Request{MaxRecords: 2, Until: reading.NoOffset}, []string{"0:a", "1:b"}},
		"until an offset":               {reading.Request{Until: 4}, []string{"0:a", "1:b", "2:c", "3:d"}},
		"bytes give at least one batch": {reading.Request{MaxBytes: 1, Until: reading.NoOffset}, []string{"0:a", "1:b", "2:c"}},
		"until the end":                 {reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 5}, Until: reading.NoOffset}, nil},
		"from the tail":                 {reading.Request{From: reading.From{Kind: reading.FromTail}, Until: reading.NoOffset}, nil},
		"until a time long ago":         {reading.Request{UntilTime: 1, Until: reading.NoOffset}, nil},
		"from a time long ago":          {reading.Request{From: reading.From{Kind: reading.FromTime, Time: 1}, MaxRecords: 1, Until: reading.NoOffset}, []string{"0:a"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, read(t, n, "orders", c.request)) })
	}
	_, err := n.Read(t.Context(), anyone, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 6}, Until: reading.NoOffset})
	require.Equal(t, record.Offset(5), requireReason(t, record.OffsetBeyondEnd, err).End)
}

func TestAFollowerOfTheTailGetsWhatIsAppendedLater(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Follow: true, Until: reading.NoOffset})
	require.NoError(t, err)
	defer r.Close()
	got := make(chan []string)
	go func() {
		c, err := r.Next(t.Context())
		if err != nil {
			close(got)
			return
		}
		got <- textsOf(t, c)
	}()
	mustAppend(t, n, "orders", "a")
	require.Equal(t, []string{"0:a"}, <-got)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestALongLogIsReadAcrossSegmentsFromEveryPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	payload := string(make([]byte, 32<<10))
	const count = 1200 // 38 MiB: beyond the tail in memory, over many segments
	for range count / 100 {
		texts := make([]string, 100)
		for i := range texts {
			texts[i] = payload
		}
		mustAppend(t, n, "orders", texts...)
	}
	for _, from := range []record.Offset{0, 1, 99, 100, 555, count - 1} {
		r, err := n.Read(t.Context(), anyone, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: from}, Until: reading.NoOffset})
		require.NoError(t, err)
		next := from
		for {
			c, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, next, c.First)
			next += record.Offset(c.Count)
		}
		r.Close()
		require.Equal(t, record.Offset(count), next)
	}
}

func TestATrimFreesTheDiskAndGivesReadersTheNewStart(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	payload := string(make([]byte, 256<<10))
	for range 64 {
		mustAppend(t, n, "orders", payload)
	}
	before, err := n.Info(t.Context(), anyone, "orders")
	require.NoError(t, err)
	start, end, err := n.Trim(t.Context(), anyone, "orders", 60, false)
	require.NoError(t, err)
	require.Equal(t, []record.Offset{60, 64}, []record.Offset{start, end})

	_, err = n.Read(t.Context(), anyone, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 3}, Until: reading.NoOffset})
	require.Equal(t, record.Offset(60), requireReason(t, record.OffsetTrimmed, err).Start)
	require.Len(t, read(t, n, "orders", everything), 4)
	require.Eventually(t, func() bool {
		now, err := n.Info(t.Context(), anyone, "orders")
		return err == nil && now.BytesUsed < before.BytesUsed/2
	}, time.Minute, 10*time.Millisecond, "whole segments below the start are given back")

	_, _, err = n.Trim(t.Context(), anyone, "orders", 1000, false)
	requireReason(t, record.OffsetBeyondEnd, err)
	start, end, err = n.Trim(t.Context(), anyone, "orders", 1000, true)
	require.NoError(t, err)
	require.Equal(t, []record.Offset{1000, 1000}, []record.Offset{start, end})
	require.Equal(t, record.Offset(1000), mustAppend(t, n, "orders", "later"))
}

func TestRetentionByAgeHoldsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "wal", settings.Config{Retention: time.Second})
	began := time.Now()
	mustAppend(t, n, "wal", "old")
	now, err := n.Info(t.Context(), anyone, "wal")
	require.NoError(t, err)
	for now.Start == 0 {
		now, err = n.WatchInfo(t.Context(), anyone, "wal", now)
		require.NoError(t, err)
	}
	require.Equal(t, record.Offset(1), now.Start)
	require.GreaterOrEqual(t, time.Since(began), time.Second-10*time.Millisecond, "not before its time")
	require.Equal(t, record.Offset(1), mustAppend(t, n, "wal", "new"))
}

func TestRetentionBySizeKeepsTheNewest(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "wal", settings.Config{RetentionBytes: 1 << 20})
	payload := string(make([]byte, 256<<10))
	for range 20 {
		mustAppend(t, n, "wal", payload)
	}
	require.Eventually(t, func() bool {
		i, err := n.Info(t.Context(), anyone, "wal")
		return err == nil && i.Start >= 16
	}, time.Minute, 10*time.Millisecond)
	require.LessOrEqual(t, len(read(t, n, "wal", everything)), 4)
}

func TestLogsAreCreatedListedConfiguredAndDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "b", settings.Config{Retention: time.Minute, RetentionBytes: 5})
	create(t, n, "a", settings.Config{})
	_, err := n.CreateLog(t.Context(), anyone, "a", settings.Config{})
	requireReason(t, record.LogExists, err)
	for _, bad := range []string{"", "_strandline-mine", "a/b", "..", string(make([]byte, 201))} {
		_, err := n.CreateLog(t.Context(), anyone, bad, settings.Config{})
		requireReason(t, record.Invalid, err)
	}
	_, err = n.ConfigureLog(t.Context(), anyone, "b", settings.Config{Retention: time.Hour})
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))

	n = open(t, dir)
	logs, err := n.ListLogs(t.Context(), anyone, false, nil)
	require.NoError(t, err)
	require.Len(t, logs, 2)
	require.Equal(t, "a", logs[0].Name)
	require.Equal(t, settings.Config{Retention: time.Hour, Replicas: 1, Revision: 2}, logs[1].Config)

	require.NoError(t, n.DeleteLog(t.Context(), anyone, "b"))
	_, err = n.Info(t.Context(), anyone, "b")
	requireReason(t, record.LogNotFound, err)
	requireReason(t, record.LogNotFound, n.DeleteLog(t.Context(), anyone, "b"))
	require.Eventually(t, func() bool {
		left, err := vfs.OS().ListDirs(filepath.Join(dir, "logs"))
		require.NoError(t, err)
		return len(left) == 2
	}, time.Minute, time.Millisecond, "the catalog's directory and that of log a")

	create(t, n, "b", settings.Config{})
	require.Empty(t, read(t, n, "b", everything), "a new log of an old name is empty")
}

func TestTheSystemsLogsAreNotForUsers(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	require.Equal(t, record.Invalid, appendTo(t, n, cluster.CatalogName, request(t, "x")).Refusal.Reason)
	_, _, err := n.Trim(t.Context(), anyone, cluster.CatalogName, 0, false)
	requireReason(t, record.Invalid, err)
	requireReason(t, record.Invalid, n.DeleteLog(t.Context(), anyone, cluster.CatalogName))
}

func TestASecondNodeOnTheSameDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(settings.Options{FormAlone: true, DataDir: dir})
	require.ErrorContains(t, err, "is another strandline running on it?")
}

func TestAMemoryLogGoesOnAboveWhatItLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "cache", settings.Config{Durability: settings.Memory})
	mustAppend(t, n, "cache", "a", "b")
	require.Equal(t, []string{"0:a", "1:b"}, read(t, n, "cache", everything))
	require.NoError(t, n.Close(t.Context()))

	n = open(t, dir)
	_, err := n.Read(t.Context(), anyone, "cache", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 1}, Until: reading.NoOffset})
	require.Equal(t, record.Offset(cluster.OffsetBlock), requireReason(t, record.DataLost, err).Start)
	require.Equal(t, record.Offset(cluster.OffsetBlock), mustAppend(t, n, "cache", "c"), "no offset is used twice")
}

func TestSessionsWriterTermsAndResolve(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	s, err := n.OpenSession(t.Context(), anyone, "orders", 0)
	require.NoError(t, err)
	require.Equal(t, verbs.DefaultLease, s.Lease)

	first := request(t, "a")
	first.Session = s.ID
	require.Nil(t, appendTo(t, n, "orders", first).Refusal)
	again := appendTo(t, n, "orders", first)
	require.True(t, again.Duplicate)
	require.Equal(t, record.Offset(0), again.First.First)

	found, _, err := n.Resolve(t.Context(), anyone, "orders", s.ID, 0, 0, false)
	require.NoError(t, err)
	require.Equal(t, sequence.Outcome{State: sequence.Committed, Offset: 0, Next: 1, Known: true}, found)
	found, epoch, err := n.Resolve(t.Context(), anyone, "orders", s.ID, 0, 1, true)
	require.NoError(t, err)
	require.Equal(t, sequence.Never, found.State)
	require.Equal(t, record.Epoch(1), epoch)
	late := request(t, "late")
	late.Session, late.First = s.ID, 1
	require.Equal(t, record.StaleEpoch, appendTo(t, n, "orders", late).Refusal.Reason, "never means never")

	term, end, err := n.AcquireWriter(t.Context(), anyone, "orders")
	require.NoError(t, err)
	require.Equal(t, record.Offset(1), end)
	newer, _, err := n.AcquireWriter(t.Context(), anyone, "orders")
	require.NoError(t, err)
	require.Greater(t, newer, term)
	old := request(t, "old")
	old.WriterTerm = term
	require.Equal(t, record.Fenced, appendTo(t, n, "orders", old).Refusal.Reason)

	require.NoError(t, n.KeepSession(t.Context(), anyone, "orders", s.ID))
	require.NoError(t, n.CloseSession(t.Context(), anyone, "orders", s.ID))
	requireReason(t, record.SessionExpired, n.KeepSession(t.Context(), anyone, "orders", s.ID))
}

func TestASealedLogKeepsItsRecordsAndTakesNoMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	s, err := n.OpenSession(t.Context(), anyone, "orders", 0)
	require.NoError(t, err)
	in := request(t, "a", "b")
	in.Session = s.ID
	require.Nil(t, appendTo(t, n, "orders", in).Refusal)

	for range 2 {
		start, end, err := n.Seal(t.Context(), anyone, "orders")
		require.NoError(t, err)
		require.Equal(t, []record.Offset{0, 2}, []record.Offset{start, end})
	}
	refused := func(n *Node) {
		require.Equal(t, record.Sealed, appendTo(t, n, "orders", request(t, "c")).Refusal.Reason)
		_, err := n.OpenSession(t.Context(), anyone, "orders", 0)
		requireReason(t, record.Sealed, err)
		_, _, err = n.Trim(t.Context(), anyone, "orders", 3, true)
		requireReason(t, record.Sealed, err)
		info, err := n.Info(t.Context(), anyone, "orders")
		require.NoError(t, err)
		require.True(t, info.Sealed)
		require.Equal(t, record.Offset(2), info.End)
	}
	refused(n)
	again := appendTo(t, n, "orders", in)
	require.Nil(t, again.Refusal, "what was appended before is answered again")
	require.Equal(t, record.Offset(0), again.First.First)
	require.NoError(t, n.Close(t.Context()))

	n = open(t, dir)
	refused(n)
	start, end, err := n.Trim(t.Context(), anyone, "orders", 1, false)
	require.NoError(t, err)
	require.Equal(t, []record.Offset{1, 2}, []record.Offset{start, end})

	create(t, n, "fleeting", settings.Config{Durability: settings.Memory})
	_, _, err = n.Seal(t.Context(), anyone, "fleeting")
	requireReason(t, record.Invalid, err)
	_, _, err = n.Seal(t.Context(), anyone, cluster.CatalogName)
	requireReason(t, record.Invalid, err)
}

// The changes come from another node, as far as this one knows: it decides none.
func TestTheLeaderOfTheCatalogMakesItsCheckpointsWhoeverDecidesTheChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	host := n.catalog.Load().Host()
	_, end, err := host.Replica.Tail().Bounds()
	require.NoError(t, err)
	var b record.Builder
	b.Reset(nil)
	for i := range catalog.CheckpointEvery + 5 {
		require.NoError(t, b.Add(record.Record{Value: fmt.Appendf(nil, `{"change":"other-%d","sessions":%d}`, i, i+2)}))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	require.NoError(t, host.AppendAt(t.Context(), end, batch))
	require.Eventually(t, func() bool {
		start, end, err := host.Replica.Tail().Bounds()
		return err == nil && end-start < catalog.CheckpointEvery
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, n.Close(t.Context()))

	n = open(t, dir)
	require.Empty(t, read(t, n, "orders", everything))
	first, err := n.catalog.Load().ReserveSessions(t.Context(), 1, verbs.ReserveTimeout)
	require.NoError(t, err)
	require.Equal(t, record.SessionID(catalog.CheckpointEvery+6), first)
}

func TestAListOfReplicasThatCouldNotBeSettledIsSettledByTheNextLook(t *testing.T) {
	t.Parallel()
	disk := &listDisk{FS: vfs.OS()}
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	c := n.catalog.Load()
	require.NoError(t, n.files.Created.Lose())
	disk.broken.Store(true)
	c.Current.Store(false)
	require.ErrorIs(t, c.Refresh(t.Context()), errBroken)
	require.False(t, c.Current.Load(), "a node must not take for current what its list of replicas does not know")
	disk.broken.Store(false)
	require.NoError(t, c.Refresh(t.Context()))
	require.True(t, c.Current.Load())
	require.False(t, n.files.Created.Has(1000))
}

// listDisk does not write replicas.json while it is broken.
type listDisk struct {
	vfs.FS
	broken atomic.Bool
}

func (d *listDisk) Create(name string) (vfs.File, error) {
	if d.broken.Load() && strings.HasPrefix(filepath.Base(name), "replicas.json") {
		return nil, errBroken
	}
	return d.FS.Create(name)
}

// Without a majority of the catalog each caller would hold the turn until it
// gives up, and the tenth would wait ten times as long.
func TestACallerWaitsForItsTurnToOpenASessionNoLongerThanForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verbs.SessionIDs{Turn: make(chan struct{}, 1)}
		s.Turn <- struct{}{} // somebody who does not come back
		began := time.Now()
		_, err := s.Next(t.Context(), nil)
		requireReason(t, record.Busy, err)
		require.Equal(t, verbs.ReserveTimeout, time.Since(began))
	})
}

// Its files cannot be opened, which says nothing of what is in them: the other
// nodes serve the log, and this one does as soon as it can.
func TestALogThatCannotBeOpenedSendsCallersElsewhereAndIsOpenedLater(t *testing.T) {
	t.Parallel()
	disk := &lockedDisk{FS: vfs.OS()}
	c := newClusterWith(t, func(o *settings.Options) {
		if o.Name == "c" {
			o.Disk = disk
		}
	}, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "one")
	c.healthy()
	c.stop("c")
	disk.locked.Store(true)
	c.start("c", nil)
	c.eventually("the log is not open on c", func() bool {
		h := c.nodes["c"].logs.Named("orders")
		return h != nil && h.Problem() != nil
	})
	_, err = c.nodes["c"].Read(t.Context(), anyone, "orders", everything)
	requireReason(t, record.NotLeader, err)
	require.ErrorContains(t, err, "cannot be opened on this node")
	c.eventually("readiness names the log", func() bool {
		err := c.nodes["c"].Ready()
		return err != nil && strings.Contains(err.Error(), "cannot be opened on this node")
	})

	disk.locked.Store(false)
	c.healthy()
	texts, err := c.values("c", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, texts)
}

// lockedDisk does not let anybody open the files of the first log while it is
// locked.
type lockedDisk struct {
	vfs.FS
	locked atomic.Bool
}

func (d *lockedDisk) Open(name string) (vfs.File, error) {
	if d.locked.Load() && strings.Contains(filepath.ToSlash(name), "/logs/1/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

// Each waits for the disk most of the time: one after the other, thousands of logs
// would take half a minute.
func TestLogsAreOpenedSeveralAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	for i := range 2 * replicas.OpenAtOnce {
		create(t, n, fmt.Sprintf("log-%d", i), settings.Config{})
	}
	require.NoError(t, n.Close(context.Background()))

	disk := &gateDisk{FS: vfs.OS(), logs: map[string]bool{}, open: make(chan struct{})}
	n, err := Open(settings.Options{DataDir: dir, Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	require.Equal(t, replicas.OpenAtOnce, disk.most)
	require.NoError(t, n.Ready())
}

// gateDisk lets logs be opened once so many of them are being opened at the same
// time.
type gateDisk struct {
	vfs.FS
	mu   sync.Mutex
	logs map[string]bool // that wait at the gate
	most int
	open chan struct{}
}

func (d *gateDisk) Open(name string) (vfs.File, error) {
	if log := filepath.Dir(filepath.Dir(name)); strings.HasSuffix(name, ".seg") && filepath.Base(log) != "0" {
		d.wait(log)
	}
	return d.FS.Open(name)
}

func (d *gateDisk) wait(log string) {
	d.mu.Lock()
	select {
	case <-d.open:
	default:
		d.logs[log] = true
		if d.most = len(d.logs); d.most == replicas.OpenAtOnce {
			close(d.open)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.open:
	case <-time.After(time.Minute): // the test has failed
	}
}
