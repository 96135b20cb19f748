package sequence

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
)

// contentsOf are those of the batches of an encoded entry.
func contentsOf(t testing.TB, data []byte) (contents []record.HashedBatch) {
	e, err := record.ParseEntry(data)
	require.NoError(t, err)
	if e.Kind != record.EntryBatches {
		return nil
	}
	first := e.First
	for p, b := range e.All {
		contents = append(contents, record.HashedBatch{First: first, Count: uint32(p.End - first), Size: uint32(p.Size), Content: b.Content()})
		first = p.End
	}
	return contents
}

// digested is a sequencer whose committed batches are hashed when the test wants it.
type digested struct {
	*Sequencer
	t       testing.TB
	entries []record.Entry
	batches []record.HashedBatch // committed
}

func newDigested(t testing.TB) *digested {
	s := &digested{Sequencer: New(NewTable()), t: t}
	s.StartLeading(1, 0)
	return s
}

func (s *digested) append(begins bool) {
	a := request(s.t, Append{})
	a.Digested = begins
	require.Nil(s.t, s.Append(a).Refusal)
}

// commit proposes and commits everything, and returns the entries.
func (s *digested) commit() (entries []record.Entry) {
	for _, d := range s.Propose(0) {
		data := slices.Clone(d.Data)
		e, err := record.ParseEntry(data)
		require.NoError(s.t, err)
		entries = append(entries, e)
		require.NoError(s.t, s.Committed(data, d.CRC))
		require.NoError(s.t, s.CheckInvariants())
		s.batches = append(s.batches, contentsOf(s.t, data)...)
	}
	s.entries = append(s.entries, entries...)
	return entries
}

// hash hands over so many of the contents that are not hashed yet.
func (s *digested) hash(most int) {
	from := s.HashedTo()
	batches := slices.DeleteFunc(slices.Clone(s.batches), func(h record.HashedBatch) bool { return h.First < from })
	require.NoError(s.t, s.Hashed(from, batches[:min(most, len(batches))]))
	require.NoError(s.t, s.CheckInvariants())
}

// whole is the tree over all batches, as who reads the entries gets it.
func (s *digested) whole() digest.Tree {
	w := digest.NewWalker(&digest.Tree{}, false, s.table.log.end, nil)
	for i := range s.entries {
		require.Empty(s.t, w.Add(&s.entries[i], uint64(i)))
	}
	tree, err := w.Finish()
	require.NoError(s.t, err)
	return tree
}

func TestADigestBeginsWithTheFirstRequestThatWantsIt(t *testing.T) {
	s := newDigested(t)
	s.append(false)
	require.False(t, s.commit()[0].Begins)
	require.False(t, s.table.digest.Begun)
	require.Equal(t, uint32(snapshotVersion), uint32(s.table.Snapshot(nil)[0]))

	s.append(false)
	s.append(true) // not into the entry of the one before
	s.append(true)
	var begins []bool
	for _, e := range s.commit() {
		begins = append(begins, e.Begins)
	}
	require.Equal(t, []bool{false, true}, begins)
	require.Equal(t, record.Offset(4), s.table.digest.From)
	require.Zero(t, s.table.digest.Batches)

	// Raft refuses the first that wants one: it has not begun.
	other := newDigested(t)
	other.append(true)
	other.Drop(other.Propose(0)[0].Number)
	require.NoError(t, other.CheckInvariants())
	other.append(false)
	require.False(t, other.commit()[0].Begins)
}

// Contents go into the next entry, whatever becomes of it, and only there.
func TestContentsGoIntoTheNextEntry(t *testing.T) {
	s := newDigested(t)
	s.append(true)
	s.commit()
	require.Equal(t, s.table.digest.Uncovered, s.Unhashed())
	s.hash(1)
	require.Zero(t, s.Unhashed())
	require.Empty(t, s.Propose(0), "nothing is proposed only for them")
	require.False(t, s.Cover(true))

	s.append(true)
	s.Drop(s.Propose(0)[0].Number)
	require.NoError(t, s.CheckInvariants())
	s.append(false)
	e := s.commit()
	require.Len(t, e[0].Hashed, record.HashedSize)
	require.Equal(t, []record.Offset{2, 4}, []record.Offset{s.table.digest.Covered, s.table.digest.End})
	require.EqualValues(t, 1, s.table.digest.Batches)
	s.append(true)
	require.Empty(t, s.commit()[0].Hashed)

	// Another leader begins where the table ends, and nothing of before comes late.
	from := s.HashedTo()
	s.hash(2)
	s.StopLeading()
	s.StartLeading(2, 0)
	require.Equal(t, from, s.HashedTo())
	require.NoError(t, s.Hashed(from+2, s.batches[2:3]))
	require.Equal(t, from, s.HashedTo(), "those that do not follow are ignored")
	s.hash(9)
	s.append(true)
	s.commit()
	require.Equal(t, s.whole().Batches, s.table.digest.Batches+1)
}

// An entry with such contents would commit, and stop every replica of the log for good.
func TestContentsThatCannotFollowAreNotProposed(t *testing.T) {
	s := newDigested(t)
	for range 4 {
		s.append(true)
	}
	s.commit()
	s.hash(1)
	s.append(true)
	s.commit()
	from, batches := s.HashedTo(), s.batches[1:]
	require.Equal(t, from, batches[0].First)
	for name, damage := range map[string]func([]record.HashedBatch) []record.HashedBatch{
		"below what is covered": func(b []record.HashedBatch) []record.HashedBatch { b[0].First--; return b },
		"further up":            func(b []record.HashedBatch) []record.HashedBatch { b[0].First++; return b },
		"above the end":         func(b []record.HashedBatch) []record.HashedBatch { b[0].First += 1 << 20; return b[:1] },
		"below zero":            func(b []record.HashedBatch) []record.HashedBatch { b[0].First = math.MinInt64; return b[:1] },
		"more records":          func(b []record.HashedBatch) []record.HashedBatch { b[0].Count++; return b },
		"more than there are":   func(b []record.HashedBatch) []record.HashedBatch { b[0].Count = math.MaxUint32; return b[:1] },
		"none":                  func(b []record.HashedBatch) []record.HashedBatch { b[0].Count = 0; return b },
		"more bytes":            func(b []record.HashedBatch) []record.HashedBatch { b[0].Size = math.MaxUint32; return b[:1] },
		"fewer bytes":           func(b []record.HashedBatch) []record.HashedBatch { b[0].Size--; return b },
		"one left out":          func(b []record.HashedBatch) []record.HashedBatch { return slices.Delete(b, 1, 2) },
		"in another order":      func(b []record.HashedBatch) []record.HashedBatch { slices.Reverse(b); return b },
	} {
		require.Error(t, s.Hashed(from, damage(slices.Clone(batches))), name)
		require.Equal(t, from, s.HashedTo(), name)
		require.NoError(t, s.CheckInvariants(), name)
	}
	require.NoError(t, s.Hashed(from, batches))
	s.append(true)
	s.commit()
	require.Equal(t, s.whole().Batches, s.table.digest.Batches+1)
}

// What is trimmed and not covered would wait for an append for ever.
func TestTheDigestCoversWhatIsTrimmedByItself(t *testing.T) {
	s := newDigested(t)
	s.append(true)
	s.append(true)
	s.commit()
	want := s.whole()
	require.Nil(t, s.Command(record.Command{Kind: record.Trim, Offset: 3}).Refusal)
	require.Nil(t, s.Command(record.Command{Kind: record.Seal}).Refusal)
	s.commit()
	require.Equal(t, record.Offset(3), s.table.Start())
	require.Zero(t, min(s.table.Start(), s.table.digest.Covered), "it has to be hashed first")
	require.False(t, s.Cover(true))
	s.hash(9)
	require.False(t, s.Cover(false), "what is trimmed does not count")
	require.True(t, s.Cover(true))
	require.False(t, s.Cover(true), "it is under way")
	e := s.commit()
	require.Zero(t, e[0].Batches)
	require.Equal(t, RoomForTrims, EntryRoom(encoded(e[0])), "a full disk takes it")
	require.Equal(t, []record.Offset{3, 4}, []record.Offset{min(s.table.Start(), s.table.digest.Covered), s.table.digest.Covered})
	require.Equal(t, want.Root(), s.table.digest.Root())
}

func encoded(e record.Entry) []byte {
	return append(record.AppendEntryHeader(nil, e), e.Hashed...)
}

func TestTheDigestTrailsTheEndByABound(t *testing.T) {
	s := newDigested(t)
	big := append(record.Batch{}, batchOf(t, 1, 8<<20)...)
	for !s.Behind() {
		require.Nil(t, s.Append(measured(&Append{ExpectedEnd: NoExpectation, Digested: true, Batches: []record.Batch{big}})).Refusal)
		s.commit()
		require.LessOrEqual(t, s.table.digest.Uncovered, uint64(MaxUncovered+len(big)))
	}
	require.False(t, s.Cover(false), "nothing is hashed yet")
	s.hash(1)
	require.True(t, s.Cover(false), "appends wait")
	require.False(t, s.Behind())
	s.commit()
	require.NoError(t, s.CheckInvariants())
}

// Batches that the digest does not cover are lost.
func TestADigestBeginsAnew(t *testing.T) {
	s := newDigested(t)
	for range 3 {
		s.append(true)
		s.commit()
	}
	s.hash(1)
	s.append(true) // with the content of the first
	s.RenewDigest()
	require.Zero(t, s.Unhashed())
	s.append(true)
	require.NoError(t, s.Hashed(s.HashedTo(), s.batches[1:2]))
	number := s.Propose(0)[1].Number
	s.Drop(number)
	require.NoError(t, s.CheckInvariants())
	require.Zero(t, s.Unhashed(), "it is not forgotten")
	s.append(true)
	s.RenewDigest() // of who does not know yet
	s.append(true)
	s.StopLeading()
	s.StartLeading(2, 0)
	s.RenewDigest()
	s.append(true)
	e := s.commit()
	require.True(t, e[0].Begins)
	require.Equal(t, record.Offset(6), s.table.digest.From)
	s.batches = s.batches[3:]
	s.hash(9)
	s.append(true)
	s.commit()
	require.EqualValues(t, 1, s.table.digest.Batches)
	require.NoError(t, s.CheckInvariants())
}

func TestADigestIsInTheSnapshot(t *testing.T) {
	s := newDigested(t)
	for range 21 {
		s.append(true)
		s.commit()
		s.hash(len(s.batches) % 3)
	}
	s.Command(record.Command{Kind: record.OpenSession, Session: 5, Lease: 1000})
	s.commit()
	want := s.table.digest.Clone()
	require.Positive(t, want.Batches)
	require.Positive(t, want.Uncovered)
	data := s.table.Snapshot(nil)
	restored, err := RestoreTable(data)
	require.NoError(t, err)
	require.Equal(t, data, restored.Snapshot(nil))
	require.Equal(t, want.Root(), restored.digest.Root())
	alone, err := RestoreDigest(data)
	require.NoError(t, err)
	require.Equal(t, want, alone)

	data[len(data)-1] ^= 1
	_, err = RestoreDigest(data)
	require.ErrorIs(t, err, ErrSnapshot)
	none, err := RestoreDigest(NewTable().Snapshot(nil))
	require.NoError(t, err)
	require.Equal(t, digest.Tree{}, none)
}

// What a restored table makes of more entries is what the one makes that saw all.
func TestARestoredTableContinuesTheDigest(t *testing.T) {
	s := newDigested(t)
	var tables []*Table
	for i := range 40 {
		s.append(i > 5)
		for _, d := range s.Propose(0) {
			data := slices.Clone(d.Data)
			for _, o := range tables {
				require.NoError(t, o.Fold(data, d.CRC))
			}
			require.NoError(t, s.Committed(data, d.CRC))
			s.batches = append(s.batches, contentsOf(t, data)...)
		}
		s.hash(i % 4)
		if i%7 == 0 {
			restored, err := RestoreTable(s.table.Snapshot(nil))
			require.NoError(t, err)
			tables = append(tables, restored)
		}
	}
	for _, o := range tables {
		require.Equal(t, s.table.digest.Clone(), o.digest.Clone())
	}
}
