package sequence

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestAProposalIsAnEntryWithTheProducersBytes(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(5, 0)
	a := request(t, Append{})
	a.Batches = append(a.Batches, batchOf(t, 3, 9))
	sent := []record.Batch{slices.Clone(a.Batches[0]), slices.Clone(a.Batches[1])}
	require.Nil(t, s.Append(measured(a)).Refusal)
	require.Equal(t, sent, a.Batches, "the caller's bytes are left alone")

	proposals := s.Propose(77)
	require.Len(t, proposals, 1)
	require.Equal(t, record.Checksum(proposals[0].Data), proposals[0].CRC)
	e, err := record.ParseEntry(proposals[0].Data)
	require.NoError(t, err)
	require.Equal(t, [3]int64{77, 0, 5}, [3]int64{e.Time, int64(e.First), int64(e.Count)})
	rest := e.Body
	for i, first := range []record.Offset{0, 2} {
		var b record.Batch
		b, rest, err = record.Split(rest)
		require.NoError(t, err)
		require.NoError(t, b.Verify())
		require.Equal(t, first, b.BaseOffset())
		require.EqualValues(t, 5, b.LeaderEpoch())
		b = slices.Clone(b)
		b.SetBaseOffset(sent[i].BaseOffset())
		b.SetLeaderEpoch(sent[i].LeaderEpoch())
		require.Equal(t, sent[i], b)
	}
	require.Empty(t, rest)
}

// The room for metadata is made larger when a proposal of many small batches
// needs it, again and again in the same buffer.
func TestAProposalOfManySmallBatchesMakesRoomForTheirMetadata(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	a := request(t, Append{})
	for round := range 3 {
		for range 5000 {
			require.Nil(t, s.Append(a).Refusal)
		}
		total := 0
		for _, d := range s.Propose(0) {
			e, err := record.ParseEntry(d.Data)
			require.NoError(t, err)
			require.LessOrEqual(t, len(d.Data), record.EntryTargetBytes)
			total += e.Batches
			require.NoError(t, s.Committed(slices.Clone(d.Data), d.CRC))
		}
		require.Equal(t, 5000, total, "round %d", round)
	}
}

// Kafka's sequences are int32 and wrap after 2^31-1.
func TestAKafkaSequenceWraps(t *testing.T) {
	for _, c := range []struct{ next, sent, want record.Sequence }{
		{0, 0, 0}, {0, 5, 5}, {7, 5, 5}, {7, 9, 9},
		{0, kafkaSequences - 1, kafkaSequences - 1}, // below 0 there is nothing
		{kafkaSequences, 0, kafkaSequences},
		{kafkaSequences - 1, 0, kafkaSequences},
		{kafkaSequences + 3, kafkaSequences - 1, kafkaSequences - 1},
		{5*kafkaSequences + 3, 4, 5*kafkaSequences + 4},
		{5 * kafkaSequences, kafkaSequences - 2, 5*kafkaSequences - 2},
	} {
		require.Equal(t, c.want, unwrap(c.next, c.sent), "%+v", c)
	}

	table, _ := busyReplica(t)
	table.openSession(9, MaxLeaseMs, true).next = kafkaSequences - 1
	s := New(table)
	s.StartLeading(2, 0)
	across := s.Append(request(t, Append{Session: 9, Implicit: true, First: kafkaSequences - 1}))
	require.Nil(t, across.Refusal)
	behind := s.Append(request(t, Append{Session: 9, Implicit: true, First: 1}))
	require.Nil(t, behind.Refusal)
	again := s.Append(request(t, Append{Session: 9, Implicit: true, First: kafkaSequences - 1}))
	require.True(t, again.Duplicate)
	require.Equal(t, across.First, again.First)
	for _, d := range s.Propose(2000) {
		require.NoError(t, s.Committed(slices.Clone(d.Data), d.CRC))
	}
}

func TestMalformedAppendsAreRefusedWhateverTheLogHolds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Append)
		want   record.Reason
	}{
		"no batches":          {func(a *Append) { a.Batches = nil }, record.Invalid},
		"no records":          {func(a *Append) { a.Records = 0 }, record.Invalid},
		"too many records":    {func(a *Append) { a.Records = math.MaxUint32 + 1 }, record.TooLarge},
		"sequences overflow":  {func(a *Append) { a.First = math.MaxUint64 - 1 }, record.Invalid},
		"mark above sequence": {func(a *Append) { a.LowWater = 1 }, record.Invalid},
		"Kafka's sequence":    {func(a *Append) { a.Implicit, a.First = true, kafkaSequences }, record.Invalid},
	} {
		s := New(NewTable())
		s.StartLeading(1, 0)
		a := request(t, Append{Session: 1})
		c.change(a)
		answer := s.Append(a)
		require.NotNil(t, answer.Refusal, name)
		require.Equal(t, c.want, answer.Refusal.Reason, name)
	}
}

func TestOpenSessionsAreBounded(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	open := func(id int) Answer {
		return s.Command(record.Command{Kind: record.OpenSession, Session: record.SessionID(id), Lease: 1000})
	}
	for id := 1; id <= MaxOpenSessions; id++ {
		if r := open(id).Refusal; r != nil {
			t.Fatal(r)
		}
		if id%1000 == 0 {
			commitAll(t, s)
		}
	}
	require.Equal(t, record.Busy, open(MaxOpenSessions+1).Refusal.Reason)
	require.Equal(t, record.Busy, s.Append(request(t, Append{Session: MaxOpenSessions + 1, Implicit: true})).Refusal.Reason)
	commitAll(t, s)
	require.Equal(t, MaxOpenSessions, s.table.OpenSessions())

	// All leases run out at once; expiry comes in portions.
	for now := int64(0); now <= 2000; now += TickMs {
		s.Tick(now)
	}
	expired := s.Expired()
	require.Len(t, expired, maxExpiredAtOnce)
	require.Equal(t, expired, s.Expired(), "named again until their end is in flight")
	for range MaxOpenSessions/maxExpiredAtOnce + 1 {
		for _, id := range s.Expired() {
			require.Nil(t, s.Command(record.Command{Kind: record.ExpireSession, Session: id}).Refusal)
		}
		commitAll(t, s)
	}
	require.Empty(t, s.Expired())
	require.Empty(t, s.leases.byID)
	require.Zero(t, s.table.OpenSessions())
	require.Equal(t, MaxEndedSessions, s.table.EndedSessions())

	// One more end pushes out the oldest.
	open(MaxOpenSessions + 1)
	s.Command(record.Command{Kind: record.CloseSession, Session: MaxOpenSessions + 1})
	commitAll(t, s)
	require.Equal(t, MaxEndedSessions, s.table.EndedSessions())
	require.Nil(t, s.table.sessions.get(expired[0]))
	snapshot := s.table.Snapshot(nil)
	restored, err := RestoreTable(snapshot)
	require.NoError(t, err)
	require.True(t, bytes.Equal(snapshot, restored.Snapshot(nil))) // megabytes: no difference to print
}

// Producers that come once and never again do not lock others out for a day.
func TestSilentProducersMakeRoomForOthers(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	appendTo := func(id int) *record.Refusal {
		return s.Append(request(t, Append{Session: record.SessionID(id), Implicit: true})).Refusal
	}
	now := int64(0)
	pass := func(ms int64) {
		for until := now + ms; now < until; now += TickMs {
			s.Tick(now + TickMs)
		}
	}
	for id := 1; id <= MaxOpenSessions; id++ {
		require.Nil(t, appendTo(id))
	}
	commitAll(t, s)
	require.Equal(t, record.Busy, appendTo(MaxOpenSessions+1).Reason)
	pass(EvictSilentMs - TickMs)
	require.Empty(t, s.Expired(), "all may still send their batches again")
	require.Nil(t, s.KeepSession(1, now).Refusal)
	pass(2 * TickMs)
	ended := map[record.SessionID]bool{}
	for range MaxOpenSessions {
		for _, id := range s.Expired() {
			require.False(t, ended[id])
			ended[id] = true
			require.Nil(t, s.Command(record.Command{Kind: record.ExpireSession, Session: id}).Refusal)
		}
		commitAll(t, s)
		pass(TickMs)
		if s.table.OpenSessions() <= evictAbove {
			break
		}
	}
	require.Equal(t, MaxOpenSessions-evictAbove, len(ended))
	require.False(t, ended[1], "it has shown a sign of life")
	pass(evictEveryMs)
	require.Empty(t, s.Expired(), "there is room")
	require.Nil(t, appendTo(MaxOpenSessions+1))
}

func commitAll(t testing.TB, s *Sequencer) {
	for _, d := range s.Propose(0) {
		require.NoError(t, s.Committed(d.Data, d.CRC))
	}
}

func TestPastEpochsAreBounded(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	s.Command(record.Command{Kind: record.OpenSession, Session: 1, Lease: 1000})
	for epoch := range record.Epoch(MaxPastEpochs + 3) {
		require.Nil(t, s.Append(request(t, Append{Session: 1, Epoch: epoch})).Refusal)
	}
	commitAll(t, s)
	require.Equal(t, Forgotten, s.Resolve(1, 0, 0).State)
	require.Equal(t, Forgotten, s.Resolve(1, 1, 9).State, "whether it took 9 is forgotten too")
	require.Equal(t, Outcome{State: Committed, Offset: 4, Next: 2, Known: true}, s.Resolve(1, 2, 0))
	require.Equal(t, Never, s.Resolve(1, 2, 2).State)
	require.Equal(t, record.StaleEpoch, s.Append(request(t, Append{Session: 1, Epoch: 0})).Refusal.Reason)
	require.Equal(t, MaxPastEpochs+1, s.table.sessions.spans)
}

// A damaged entry, or one in the wrong place, is an error and never guessed at.
func TestAnEntryThatDoesNotFitIsAnError(t *testing.T) {
	_, entries := busyReplica(t)
	fold := func(es ...[]byte) error {
		table := NewTable()
		for _, e := range es {
			if err := table.Fold(e, record.Checksum(e)); err != nil {
				return err
			}
		}
		return nil
	}
	changed := func(i, at int, to byte) []byte {
		e := slices.Clone(entries[i])
		e[at] = to
		return e
	}
	const meta = 40 // of the first batch
	for name, es := range map[string][][]byte{
		"repeated":               {entries[0], entries[0]},
		"skipped":                {entries[0], entries[2]},
		"not from the start":     {entries[3]},
		"unknown version":        {changed(0, 0, 2)},
		"unknown kind":           {changed(0, 1, 9)},
		"unknown command":        {changed(0, meta, 99)},
		"time runs backwards":    {entries[0], changed(1, 8, 0)},
		"first offset":           {changed(0, 24, 1)},
		"record count":           {entries[0], entries[1], entries[2], changed(3, 32, 9)},
		"count in the metadata":  {entries[0], entries[1], entries[2], changed(3, meta+40, 9)},
		"sequence":               {entries[0], entries[1], entries[2], changed(3, meta+16, 1)},
		"epoch and sequence":     {entries[0], entries[1], entries[2], changed(3, meta+16+1, 1)},
		"unknown session":        {entries[0], entries[1], entries[2], changed(3, meta+8, 3)},
		"low-water mark":         {entries[0], entries[1], entries[2], changed(3, meta+24, 1)},
		"writer term":            {entries[0], entries[1], entries[2], changed(3, meta+32, 2)},
		"unknown batch flag":     {entries[0], entries[1], entries[2], changed(3, meta+44, 2)},
		"implicit on the other":  {entries[0], entries[1], entries[2], changed(3, meta+44, 1)},
		"base offset of a batch": {entries[0], entries[1], entries[2], changed(3, meta+3*48+7, 1)},
		"empty":                  {nil},
	} {
		var failed *FoldError
		require.ErrorAs(t, fold(es...), &failed, name)
	}
	require.NoError(t, fold(entries...))
}

func TestOneFlippedBitInASnapshotIsNoticed(t *testing.T) {
	table, _ := busyReplica(t)
	snapshot := table.Snapshot(nil)
	_, err := RestoreTable(snapshot)
	require.NoError(t, err)
	for i := range snapshot {
		damaged := slices.Clone(snapshot)
		damaged[i] ^= 1
		_, err := RestoreTable(damaged)
		require.ErrorIs(t, err, ErrSnapshot, "byte %d", i)
		_, err = RestoreTable(snapshot[:i])
		require.ErrorIs(t, err, ErrSnapshot, "cut at %d", i)
	}
}

func TestASessionThatWasKeptAfterItsEndWasDueStaysOpen(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	require.Nil(t, s.Command(record.Command{Kind: record.OpenSession, Session: 7, Lease: 1000}).Refusal)
	commitAll(t, s)
	now := int64(0)
	for len(s.Expired()) == 0 {
		now += TickMs
		s.Tick(now)
	}
	require.Nil(t, s.KeepSession(7, now).Refusal, "its end has not been decided")
	require.True(t, s.Expire(7).Duplicate)
	commitAll(t, s)
	require.Nil(t, s.KeepSession(7, now).Refusal)
	for len(s.Expired()) == 0 {
		now += TickMs
		s.Tick(now)
	}
	require.False(t, s.Expire(7).Duplicate)
	commitAll(t, s)
	require.Equal(t, record.SessionExpired, s.KeepSession(7, now).Refusal.Reason)
}

func TestABrokenSequencerIsNamed(t *testing.T) {
	for claim, breakIt := range map[string]func(s *Sequencer){
		"2 of 1 proposals are proposed":         func(s *Sequencer) { s.proposed = 2 },
		"before what has committed":             func(s *Sequencer) { s.table.log.end = 9 },
		"does not lead":                         func(s *Sequencer) { s.leading = false },
		"not among the oldest and proposed":     func(s *Sequencer) { (*s.proposals.at(0)).proposed = true },
		"proposal 1 begins at 4, the one":       func(s *Sequencer) { (*s.proposals.at(0)).first = 4 },
		"1 changes of proposals are in no view": func(s *Sequencer) { clear(s.views) },
	} {
		s := New(NewTable())
		s.StartLeading(1, 0)
		require.Nil(t, s.Append(request(t, Append{Session: 1 << 40, Implicit: true})).Refusal)
		require.NoError(t, s.CheckInvariants())
		breakIt(s)
		require.ErrorContains(t, s.CheckInvariants(), claim)
	}
}
