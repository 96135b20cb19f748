package core

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// bench is a core with its log, driven by the test: nothing is durable until
// the test says so.
type bench struct {
	t       *testing.T
	core    *Core
	log     segment.Log
	pending []Write
	now     Now
	answers []sequence.Answer
	hash    HashRange // to be hashed
	// unchecked: a benchmark, which does not check all invariants after each step.
	unchecked bool
}

func newCore(id uint64, log segment.Log, hard segment.HardState) (*Core, error) {
	return newCoreWithin(1<<30, id, log, hard)
}

func newCoreWithin(memory int64, id uint64, log segment.Log, hard segment.HardState) (*Core, error) {
	o := newConfig(id, log, hard)
	o.Memory = budget.New(memory)
	return New(o)
}

func newConfig(id uint64, log segment.Log, hard segment.HardState) Config {
	return Config{ID: id, Log: log, HardState: hard, Memory: budget.New(1 << 30), Logger: slog.New(slog.DiscardHandler)}
}

// inMemory returns the oldest index in memory, and how many bytes are there.
func inMemory(c *Core) (first uint64, bytes int) {
	for i := c.Group.storage.last; i > 0; i-- {
		e, ok := c.Group.storage.tail.At(i)
		if !ok {
			break
		}
		first, bytes = i, bytes+len(e.Data)
	}
	return first, bytes
}

func newBench(t *testing.T) *bench {
	b, err := Bootstrap([]uint64{1})
	require.NoError(t, err)
	log := memory.New(b)
	bench := &bench{t: t, log: log, now: Now{Monotonic: 1000, Unix: 1_700_000_000_000}}
	bench.open(b.HardState)
	return bench
}

func (b *bench) open(hard segment.HardState) {
	var err error
	b.core, err = newCore(1, b.log, hard)
	require.NoError(b.t, err)
	b.pending = nil
}

// step advances the core and delivers its answers; writes stay pending.
func (b *bench) step() {
	b.core.SetNow(b.now)
	out := b.core.Advance()
	b.core.Waiters.Wake()
	if !b.unchecked {
		require.NoError(b.t, b.core.CheckInvariants())
	}
	b.pending = append(b.pending, out.Writes...)
	if out.Hash.Until > 0 {
		b.hash = out.Hash
	}
	for _, a := range out.Answers {
		a.Done(a.Answer)
	}
	for _, s := range out.Snapshots {
		require.NoError(b.t, b.log.SaveSnapshot(s.Index, s.Term, s.Encode()))
	}
}

// sync makes everything pending durable, as one group.
func (b *bench) sync() {
	group := b.pending
	b.pending = nil
	writeAll(b.t, b.core, b.log, group)
	b.step()
}

// settle syncs until nothing is left to do.
func (b *bench) settle() {
	for b.step(); len(b.pending) > 0; {
		b.sync()
	}
}

func (b *bench) append(a *sequence.Append) *sequence.Answer {
	answer := &sequence.Answer{}
	done := false
	b.core.Append(&Request{Append: a, Done: func(got sequence.Answer) {
		require.False(b.t, done, "an append is answered once")
		done = true
		*answer = got
		b.answers = append(b.answers, got)
	}})
	return answer
}

func (b *bench) command(c record.Command) *sequence.Answer {
	answer := &sequence.Answer{}
	b.core.Append(&Request{Command: &c, Done: func(got sequence.Answer) { *answer = got }})
	return answer
}

func values(t *testing.T, texts ...string) *sequence.Append {
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

// stored reads the whole log back, by the path that tailing readers take.
func (b *bench) stored() []string {
	start, end, err := b.core.Group.storage.tail.Bounds()
	require.NoError(b.t, err)
	frames, ok := b.core.Group.storage.tail.Read(nil, start, end, 1<<30)
	if !ok && start < end {
		cursor, err := b.log.NewCursor(start)
		require.NoError(b.t, err)
		defer cursor.Close()
		for next := start; next < end; {
			more, err := cursor.Next(end, 1<<20)
			require.NoError(b.t, err)
			require.NotEmpty(b.t, more)
			frames = append(frames, more...)
			last := more[len(more)-1]
			next = last.First + record.Offset(last.Count)
		}
	}
	var texts []string
	for _, f := range frames {
		if f.Count == 0 {
			continue
		}
		e, err := record.ParseEntry(f.Payload)
		require.NoError(b.t, err)
		for rest := e.Body; len(rest) > 0; {
			var batch record.Batch
			batch, rest, err = record.Split(rest)
			require.NoError(b.t, err)
			for r, err := range batch.Records {
				require.NoError(b.t, err)
				texts = append(texts, fmt.Sprintf("%d:%s", r.Offset, r.Value))
			}
		}
	}
	return texts
}

func TestALoneVoterLeadsByItself(t *testing.T) {
	b := newBench(t)
	require.False(t, b.core.Group.role == leaderReady)
	b.settle()
	require.True(t, b.core.Group.role == leaderReady)
}

func TestNoAnswerLeavesBeforeItsBytesAreDurable(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	b.step()
	require.Empty(t, b.answers)
	_, end, _ := b.core.Group.storage.tail.Bounds()
	require.Zero(t, end, "readers must not see it either")
	b.sync()
	require.Len(t, b.answers, 1)
	require.Equal(t, sequence.Run{First: 0, Count: 1}, b.answers[0].First)
	require.Equal(t, []string{"0:a"}, b.stored())
}

func TestAllThatWaitsSharesOneEntryAndTwoAreInFlight(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	b.step()
	for range 10 {
		b.append(values(t, "b"))
		b.step()
	}
	// The first went out alone; the next one began the second bundle; the other
	// nine wait for their turn.
	require.Len(t, b.core.proposals.list, 2)
	require.Len(t, b.core.proposer.queue, 9)
	b.sync()
	require.Len(t, b.answers, 2)
	require.Len(t, b.core.proposals.list, 1, "nine appends are one entry")
	b.settle()
	require.Len(t, b.answers, 11)
	require.Len(t, b.stored(), 11)
}

func TestARefusalWaitsForWhatItRestsOn(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	wrong := values(t, "b")
	wrong.ExpectedEnd = 0
	refused := b.append(wrong)
	b.step()
	require.Nil(t, refused.Refusal, "the end that it does not match is not durable yet")
	b.sync()
	require.Equal(t, record.EndMismatch, refused.Refusal.Reason)
	require.Equal(t, record.Offset(1), refused.Refusal.End)

	again := b.append(wrong)
	b.step()
	require.Equal(t, record.EndMismatch, again.Refusal.Reason, "with nothing in flight a lone leader confirms itself at once")
}

func TestAFailedDiskAnswersEverythingThatWaits(t *testing.T) {
	b := newBench(t)
	b.settle()
	pending := b.append(values(t, "a"))
	b.step()
	second := b.append(values(t, "b"))
	b.step()
	queued := b.append(values(t, "c"))
	b.core.Lifecycle.Fail(record.Refuse(record.StorageFailed, "input/output error"))
	later := b.append(values(t, "d"))
	b.step()
	for _, a := range []*sequence.Answer{pending, second, queued, later} {
		require.Equal(t, record.StorageFailed, a.Refusal.Reason)
	}
	_, _, err := b.core.Group.storage.tail.Bounds()
	require.ErrorIs(t, err, &record.Refusal{Reason: record.StorageFailed})
}

// unreadable is a log whose entries cannot be read.
type unreadable struct{ segment.Log }

func (unreadable) Entries(uint64, uint64, int) ([]segment.Entry, error) {
	return nil, errors.New("input/output error")
}

func TestALogThatCannotBeReadEndsTheReplicaAndNotTheProcess(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	b.settle()
	_, err := newCore(1, unreadable{b.log}, b.log.HardState())
	require.ErrorIs(t, err, &record.Refusal{Reason: record.StorageFailed})
	require.ErrorContains(t, err, "input/output error")
}

func TestARestartFindsEverythingDurable(t *testing.T) {
	b := newBench(t)
	b.settle()
	session := b.command(record.Command{Kind: record.OpenSession, Session: 7, Lease: 1000})
	b.settle()
	require.Nil(t, session.Refusal)
	for i := range 20 {
		a := values(t, fmt.Sprint(i))
		a.Session, a.First = 7, record.Sequence(i)
		b.append(a)
		b.settle()
	}
	b.open(b.log.HardState())
	b.settle()
	require.True(t, b.core.Group.role == leaderReady)
	require.Len(t, b.stored(), 20)

	duplicate := values(t, "19")
	duplicate.Session, duplicate.First = 7, 19
	answer := b.append(duplicate)
	b.settle()
	require.True(t, answer.Duplicate)
	require.Equal(t, record.Offset(19), answer.First.First, "the first answer again")
}

func TestALeaseThatRunsOutEndsTheSession(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.command(record.Command{Kind: record.OpenSession, Session: 7, Lease: 1000})
	b.settle()
	require.Equal(t, 1, b.core.Group.storage.table.OpenSessions())
	for range 30 {
		b.now.Monotonic += TickMillis
		b.core.SetNow(b.now)
		b.core.Tick()
		b.settle()
	}
	require.Zero(t, b.core.Group.storage.table.OpenSessions())
	late := values(t, "late")
	late.Session = 7
	answer := b.append(late)
	b.settle()
	require.Equal(t, record.SessionExpired, answer.Refusal.Reason)
}

func TestATrimBeyondTheEndMovesTheLogOn(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a", "b"))
	moved := b.command(record.Command{Kind: record.Trim, Offset: 100, Flags: record.FlagFastForward})
	b.append(values(t, "c"))
	b.settle()
	require.Nil(t, moved.Refusal)
	start, end, err := b.core.Group.storage.tail.Bounds()
	require.NoError(t, err)
	require.Equal(t, []record.Offset{100, 101}, []record.Offset{start, end})
	require.Equal(t, []string{"100:c"}, b.stored())
}

func TestATickChangesNothingForAnIdleLog(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	b.settle()
	require.NotEqual(t, int64(Never), b.core.Activity.Due())
	for range idleMillis/TickMillis + 1 {
		b.now.Monotonic += TickMillis
		b.settle()
		b.core.Tick()
	}
	require.Equal(t, int64(Never), b.core.Activity.Due())
	_, kept := inMemory(b.core)
	require.Zero(t, kept, "an idle log keeps nothing in memory")
	require.Equal(t, []string{"0:a"}, b.stored())
}

// Raft reports a broken invariant by a panic of its logger.
func TestAReplicaThatRaftFindsContradictedEndsAndNotTheProcess(t *testing.T) {
	b := newBench(t)
	b.settle()
	answer := b.append(values(t, "in flight"))
	b.step()
	b.core.Group.protect(func() { raftLogger{b.core.Group.logger}.Panicf("entry %d conflict with committed entry", 3) })
	b.step()
	require.Equal(t, record.Corrupt, b.core.Lifecycle.Failed().Reason)
	require.ErrorContains(t, b.core.Lifecycle.Failed(), "entry 3 conflict with committed entry")
	require.Equal(t, record.MaybeDone, answer.Refusal.Reason.Outcome())
	require.Panics(t, func() { newBench(t).core.Group.protect(func() { panic("another bug") }) }, "no other panic is held up")
}

func TestAFollowerStopsWhenItsLeaderHasAnotherCommittedEntry(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "acknowledged"))
	c.settle()
	follower := c.all[l%3+1].core
	mine, err := follower.Group.storage.Term(follower.Group.storage.commit)
	require.NoError(t, err)
	message := func(term, before uint64) *raftpb.Message {
		return &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), From: new(l), To: new(follower.Group.id), Term: new(term),
			Index: new(follower.Group.storage.commit), LogTerm: new(before), Commit: new(follower.Group.storage.commit),
		}
	}
	require.NoError(t, follower.Step(message(follower.Group.term, mine)))
	require.NoError(t, follower.Step(message(follower.Group.term-1, mine-1)), "a deposed leader may have another entry")
	require.Nil(t, follower.Lifecycle.Failed())
	require.NoError(t, follower.Step(message(follower.Group.term+1, mine+1)))
	require.Equal(t, record.Corrupt, follower.Lifecycle.Failed().Reason)
	require.Contains(t, follower.Lifecycle.Failed().Error(), "contradict each other")
}

func TestAReplicaWhoseInvariantsDoNotHoldEndsAndNamesTheOne(t *testing.T) {
	for claim, breakIt := range map[string]func(c *Core){
		"entries up to 9 are durable, the log ends at 2":     func(c *Core) { c.Group.storage.durable = 9 },
		"entries up to 9 are committed":                      func(c *Core) { c.Group.storage.commit = 9 },
		"entries up to 2 are applied, up to 1 are committed": func(c *Core) { c.Group.storage.commit = 1 },
		"3 of 0 proposals have no index":                     func(c *Core) { c.proposals.unplaced = 3 },
	} {
		b := newBench(t)
		b.settle()
		breakIt(b.core)
		out := b.core.Advance()
		require.Empty(t, out.Writes, claim)
		require.Empty(t, out.Messages, claim)
		require.NotNil(t, b.core.Lifecycle.Failed(), claim)
		require.Equal(t, record.Corrupt, b.core.Lifecycle.Failed().Reason)
		require.Contains(t, b.core.Lifecycle.Failed().Detail, claim)
	}
}

func TestAGapInTheOffsetChainIsFound(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "one"))
	b.settle()
	b.append(values(t, "two"))
	b.settle()
	require.NoError(t, b.core.CheckInvariants())
	e, ok := b.core.Group.storage.tail.At(b.core.Group.storage.last)
	require.True(t, ok)
	e.First++
	b.core.Group.storage.tail.Append([]tail.Entry{e})
	require.ErrorContains(t, b.core.CheckInvariants(), "begins at offset 2, the one before ends at 1")
}

// digestedBench is a bench whose batches are hashed when the test calls hashed.
func digestedBench(t *testing.T) *bench {
	b := newBench(t)
	b.core.Hashing.every = 1
	b.settle()
	return b
}

func digested(a *sequence.Append) *sequence.Append {
	a.Digested = true
	return a
}

// hashed hands over the contents of all that was asked for.
func (b *bench) hashed() {
	require.Positive(b.t, b.hash.Until)
	h := b.hash
	b.hash = HashRange{}
	b.core.Hashing.Hashed(h.From, contents(b.t, b.log, h), nil)
}

func contents(t *testing.T, log segment.Log, h HashRange) (batches []record.HashedBatch) {
	frames, err := log.Entries(log.FirstIndex(), log.LastIndex()+1, 1<<30)
	require.NoError(t, err)
	for i := range frames {
		e, err := record.ParseEntry(frames[i].Payload)
		if err != nil || e.Kind != record.EntryBatches {
			continue
		}
		first := e.First
		for p, batch := range e.All {
			if first >= h.From && p.End <= h.Until {
				batches = append(batches, record.HashedBatch{First: first, Count: uint32(p.End - first), Size: uint32(p.Size), Content: batch.Content()})
			}
			first = p.End
		}
	}
	return batches
}

func TestBatchesAreHashedBehindTheirAnswerAndGoIntoTheNextEntry(t *testing.T) {
	b := digestedBench(t)
	answer := b.append(digested(values(t, "a", "b")))
	b.step()
	require.Zero(t, b.hash, "nothing has committed")
	b.settle()
	require.Nil(t, answer.Refusal)
	require.Equal(t, HashRange{0, 2}, b.hash)
	last := b.log.LastIndex()
	b.hashed()
	b.settle()
	require.Equal(t, last, b.log.LastIndex(), "no entry is made only for them")
	require.Zero(t, b.core.Hashing.Digest().Covered)
	require.Positive(t, b.core.Hashing.Digest().Uncovered)

	b.append(digested(values(t, "c")))
	b.settle()
	require.Equal(t, record.Offset(2), b.core.Hashing.Digest().Covered)
	require.Equal(t, HashRange{2, 3}, b.hash)
}

func TestAPieceThatCannotBeHashedIsTriedAgainAfterATick(t *testing.T) {
	b := digestedBench(t)
	b.append(digested(values(t, "a")))
	b.settle()
	first := b.hash
	b.hash = HashRange{}
	b.core.Hashing.Hashed(first.From, nil, errors.New("not now"))
	b.settle()
	require.Zero(t, b.hash)
	b.core.Tick()
	b.settle()
	require.Equal(t, first, b.hash)
}

func TestContentsThatCannotFollowAreHashedAgain(t *testing.T) {
	b := digestedBench(t)
	b.append(digested(values(t, "a")))
	b.settle()
	first := b.hash
	wrong := contents(t, b.log, first)
	wrong[0].First += 16
	b.hash = HashRange{}
	b.core.Hashing.Hashed(first.From, wrong, nil)
	b.settle()
	require.Zero(t, b.hash, "not before a tick")
	require.Nil(t, b.append(digested(values(t, "b"))).Refusal)
	b.settle()
	require.Zero(t, b.core.Hashing.Digest().Covered, "they are in no entry")
	b.core.Tick()
	b.settle()
	require.Equal(t, HashRange{first.From, 2}, b.hash)
	b.hashed()
	b.append(digested(values(t, "c")))
	b.settle()
	require.Equal(t, record.Offset(2), b.core.Hashing.Digest().Covered)
}

func TestTheDigestBeginsAnewWhereBatchesAreLost(t *testing.T) {
	b := digestedBench(t)
	b.append(digested(values(t, "a")))
	b.settle()
	b.core.Hashing.Hashed(b.hash.From, nil, segment.ErrTrimmed)
	b.hash = HashRange{}
	b.settle()
	require.Zero(t, b.hash)
	b.append(digested(values(t, "b")))
	b.settle()
	require.Equal(t, record.Offset(1), b.core.Hashing.Digest().Covered)
	require.Equal(t, HashRange{1, 2}, b.hash)
}

// appendUntilTheDigestIsAwaited appends so many times 8 MiB, and a record that waits for the digest. It
// returns how many have been answered before that.
func (b *bench) appendUntilTheDigestIsAwaited(count int) (answered int) {
	b.t.Helper()
	for range count {
		b.append(digested(big(b.t, "x", 8<<20)))
		b.settle()
	}
	answered = len(b.answers)
	b.append(digested(big(b.t, "y", 100)))
	b.settle()
	require.Len(b.t, b.answers, answered, "it waits")
	return answered
}

// failToHashUntil lets all pieces fail that are asked for, each within so many ticks of the one before, and counts them.
func (b *bench) failToHashUntil(done func() bool, within int) (failures int) {
	b.t.Helper()
	for ticks := 0; !done(); ticks++ {
		require.Less(b.t, ticks, within)
		if asked := b.hash; asked != (HashRange{}) {
			b.hash = HashRange{}
			b.core.Hashing.Hashed(asked.From, nil, errors.New("damaged"))
			failures++
			ticks = 0
		}
		b.settle()
		if !done() {
			b.core.Tick()
			b.settle()
		}
	}
	return failures
}

// A replica whose file is damaged has nobody to repair it where it is the only one.
func TestAppendsDoNotWaitForEverForWhatCannotBeHashed(t *testing.T) {
	b := digestedBench(t)
	answered := b.appendUntilTheDigestIsAwaited(sequence.MaxUncovered/(8<<20) + 1)
	failures := b.failToHashUntil(func() bool { return len(b.answers) > answered }, hashWait+2)
	require.Equal(t, hashTries, failures)
	require.Nil(t, b.answers[answered].Refusal)
	require.Less(t, b.core.Hashing.Digest().Uncovered, uint64(sequence.MaxUncovered))
}

// The digest is given up for what could not be read while it mattered, and no earlier.
func TestTriesCountFromWhenSomebodyWaitsForThem(t *testing.T) {
	b := digestedBench(t)
	b.append(digested(values(t, "a")))
	b.settle()
	failures := 0
	b.failToHashUntil(func() bool {
		if b.hash != (HashRange{}) {
			failures++
		}
		return failures > 2*hashTries
	}, 1<<hashDoublings+2)
	b.core.Hashing.Hashed(b.hash.From, nil, errors.New("damaged"))
	b.hash = HashRange{}
	b.settle()

	answered := b.appendUntilTheDigestIsAwaited(sequence.MaxUncovered/(8<<20) + 1)
	failures = b.failToHashUntil(func() bool { return len(b.answers) > answered }, hashWait+2)
	require.Equal(t, hashTries, failures)
	require.Nil(t, b.answers[answered].Refusal)
}

func TestAppendsWaitWhileTheDigestTrailsByTooMuch(t *testing.T) {
	b := digestedBench(t)
	answered := b.appendUntilTheDigestIsAwaited(sequence.MaxUncovered / (8 << 20))
	require.Greater(t, b.core.Hashing.Digest().Uncovered, uint64(sequence.MaxUncovered))
	for len(b.answers) == answered {
		b.hashed()
		b.settle()
	}
	require.Nil(t, b.answers[answered].Refusal)
	require.Less(t, b.core.Hashing.Digest().Uncovered, uint64(sequence.MaxUncovered))
}

func TestTrimsInOneTickAreCoveredByOneEntry(t *testing.T) {
	const trims = 8
	for claim, test := range map[string]struct {
		every  uint64
		pieces int
	}{"hashed for the trim": {DefaultHashEvery, 1}, "hashed before": {1, trims}} {
		t.Run(claim, func(t *testing.T) {
			b := digestedBench(t)
			b.core.Hashing.every = test.every
			pieces := 0
			hash := func() {
				if b.hash != (HashRange{}) {
					pieces++
					b.hashed()
					b.settle()
				}
			}
			last := b.log.LastIndex()
			for i := range trims {
				b.append(digested(values(t, "a")))
				b.settle()
				hash()
				b.command(record.Command{Kind: record.Trim, Offset: record.Offset(i + 1)})
				b.settle()
				hash()
			}
			require.Equal(t, last+2*trims+1, b.log.LastIndex(), "the first trim waits for no tick")
			require.Less(t, b.core.Applier.disposable(), record.Offset(trims))
			require.Equal(t, test.pieces, pieces)
			for range 2 {
				b.core.Tick()
				b.settle()
				hash()
				require.Equal(t, last+2*trims+2, b.log.LastIndex())
				require.Equal(t, record.Offset(trims), b.core.Applier.disposable(), "the last one waits for one tick")
			}
		})
	}
}
