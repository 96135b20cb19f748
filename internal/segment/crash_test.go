package segment_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// model is what a log must hold. A crash leaves open what becomes of calls
// that were not durable; so the model keeps every state that may be found.
type model struct {
	durable state   // what must be there at least
	maybe   []state // what may be there instead: states since, in order
}

type state struct {
	frames []segment.Entry // from index 2 on
	hard   segment.HardState
	first  uint64 // at most this far is recycled
}

func newModel() *model { return &model{durable: state{hard: bootstrap().HardState, first: 2}} }

// now is the newest state.
func (m *model) now() state {
	if len(m.maybe) > 0 {
		return m.maybe[len(m.maybe)-1]
	}
	return m.durable
}

// begin adds all states that lie on the way from now to what ws makes of it.
// The last hard state comes after all frames.
func (m *model) begin(ws []segment.Write) {
	hard := m.now().hard
	for _, w := range ws {
		for _, f := range w.Entries {
			next := m.now()
			if cut := int(f.Index) - 2; cut < len(next.frames) {
				// A segment that begins at f hides what it truncates, even
				// if f itself did not make it.
				next.frames = next.frames[:cut:cut]
				m.maybe = append(m.maybe, next)
			}
			next.frames = append(next.frames, f) // states share what they agree on
			m.maybe = append(m.maybe, next)
		}
		if w.HardState != nil {
			hard = *w.HardState
		}
	}
	next := m.now()
	next.hard = hard
	m.maybe = append(m.maybe, next)
}

// synced: everything so far is durable.
func (m *model) synced() { m.durable, m.maybe = m.now(), nil }

// check compares a recovered log with all states, and takes the one it is in.
func (m *model) check(s *store.Store) error {
	var reasons []error
	for _, candidate := range append([]state{m.durable}, m.maybe...) {
		err := candidate.matches(s)
		if err == nil {
			m.durable, m.maybe = candidate, nil
			m.durable.hard = s.HardState()
			return nil
		}
		reasons = append(reasons, err)
	}
	return errors.Join(reasons...)
}

func (c state) matches(s *store.Store) error {
	if s.LastIndex() != uint64(len(c.frames))+1 {
		return fmt.Errorf("last index %d, want %d", s.LastIndex(), len(c.frames)+1)
	}
	if s.FirstIndex() > c.first {
		return fmt.Errorf("first index %d, want at most %d", s.FirstIndex(), c.first)
	}
	if err := sameEntries(s, c.frames[s.FirstIndex()-2:]); err != nil {
		return err
	}
	hard, want := s.HardState(), c.hard
	hard.Commit, want.Commit = 0, 0 // kept within the log, see another test
	if hard != want {
		return fmt.Errorf("hard state %v, want %v", hard, want)
	}
	return nil
}

// walk makes random calls until one fails or steps are done.
type walk struct {
	random *rand.Rand
	model  *model
	term   uint64
	// snapshot is the highest index of a snapshot: what it covers is
	// committed, and never truncated.
	snapshot uint64
}

func (w *walk) step(s *store.Store) error {
	switch w.random.IntN(12) {
	case 0:
		return s.Mark()
	case 1:
		_, err := s.Prepare()
		return err
	case 2:
		return w.trim(s)
	}
	var ws []segment.Write
	next := w.model.now()
	last := uint64(len(next.frames)) + 1
	for range 1 + w.random.IntN(3) {
		var write segment.Write
		from := last + 1
		if w.random.IntN(10) == 0 && last > w.snapshot {
			from -= uint64(w.random.IntN(int(min(30, last-w.snapshot))))
			w.term++
		}
		count := uint64(w.random.IntN(6))
		if count > 0 || w.random.IntN(3) == 0 {
			w.term = max(w.term, 1)
			write.HardState = &segment.HardState{Term: w.term, Vote: w.term, Commit: 1}
		}
		write.Entries = entries(from, from+count, w.term, w.random.IntN(1500))
		if count > 0 {
			last = from + count - 1
		}
		write.MustSync = w.random.IntN(2) == 0
		ws = append(ws, write)
	}
	w.model.begin(ws)
	_, err := s.Write(ws)
	for _, write := range ws {
		if write.MustSync && err == nil {
			w.model.synced()
		}
	}
	return err
}

// trim drops about half of the log. A crash may leave any of it.
func (w *walk) trim(s *store.Store) error {
	durable := uint64(len(w.model.durable.frames)) + 1
	for _, m := range w.model.maybe {
		durable = min(durable, uint64(len(m.frames))+1)
	}
	first := s.FirstIndex()
	if durable <= first+10 {
		return nil
	}
	at := first + uint64(w.random.IntN(int(durable-first)))
	term, err := s.Term(at)
	if err != nil {
		return err
	}
	w.snapshot = max(w.snapshot, at)
	w.model.durable.first = max(at, w.model.durable.first)
	for i := range w.model.maybe {
		w.model.maybe[i].first = max(at, w.model.maybe[i].first)
	}
	if err := s.SaveSnapshot(at, term, []byte("state")); err != nil {
		return err
	}
	return trim(s, at)
}

func TestAPowerCutAtEveryOperation(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for n := 1; ; n += sparse {
				disk := faultdisk.New(uint64(n))
				s := create(t, disk)
				disk.StopAt(n)
				w := &walk{random: rand.New(rand.NewPCG(1, 1)), model: newModel(), term: 1, snapshot: 1}
				steps := 0
				for ; steps < 50; steps++ {
					if err := w.step(s); err != nil {
						require.ErrorIs(t, err, faultdisk.ErrStopped)
						break
					}
				}
				if steps == 50 {
					require.Greater(t, n, 100)
					return
				}
				disk.PowerCut(remains)
				s = open(t, disk)
				require.NoError(t, w.model.check(s), "operation %d", n)
				for range 5 {
					require.NoError(t, w.step(s), "operation %d", n)
				}
				last := []segment.Write{{HardState: &segment.HardState{Term: 99, Commit: 1}, MustSync: true}}
				w.model.begin(last)
				write(t, s, last)
				w.model.synced()
				disk.PowerCut(faultdisk.Nothing)
				s = open(t, disk)
				require.NoError(t, w.model.check(s), "operation %d, second start", n)
				require.NoError(t, s.Close())
			}
		})
	}
}

// TestRandomFaults runs seeded histories of calls, power cuts, kills and
// failed calls. SEGMENT_SEED replays one.
func TestRandomFaults(t *testing.T) {
	seeds := []uint64{}
	if text := os.Getenv("SEGMENT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		seeds = append(seeds, seed)
	} else {
		for i := uint64(0); i < 12; i += sparse {
			seeds = append(seeds, i, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomFaults(t, seed) })
	}
}

func randomFaults(t *testing.T, seed uint64) {
	t.Logf("replay with SEGMENT_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	disk := faultdisk.New(seed)
	s := create(t, disk)
	w := &walk{random: random, model: newModel(), term: 1, snapshot: 1}
	for range 25 {
		switch random.IntN(3) {
		case 0:
			disk.StopAt(1 + random.IntN(60))
		case 1:
			ops := []faultdisk.Op{faultdisk.Write, faultdisk.Datasync, faultdisk.Rename, faultdisk.SyncDir, faultdisk.Create}
			disk.FailNth(ops[random.IntN(len(ops))], 1+random.IntN(20), syscall.EIO)
		}
		for range 40 {
			if err := w.step(s); err != nil {
				break
			}
		}
		if random.IntN(3) == 0 {
			disk.Restart()
		} else {
			disk.PowerCut(faultdisk.Remains(random.IntN(3)))
		}
		s = open(t, disk)
		require.NoError(t, w.model.check(s))
	}
}

func TestAFailedCallStopsTheLog(t *testing.T) {
	for _, reason := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, op := range []faultdisk.Op{faultdisk.Write, faultdisk.Datasync, faultdisk.Rename, faultdisk.SyncDir} {
			t.Run(fmt.Sprint(op, " ", reason), func(t *testing.T) {
				for n := 1; ; n++ {
					disk := faultdisk.New(uint64(n))
					s := create(t, disk)
					disk.FailNth(op, n, reason)
					written, failed := uint64(1), error(nil)
					for i := uint64(2); i < 60 && failed == nil; i++ {
						if _, failed = s.Write(synced(entry(i, 1, 900))); failed == nil {
							written = i
						}
					}
					if failed == nil {
						require.Greater(t, n, 2)
						return
					}
					require.ErrorIs(t, failed, reason)

					// From here on everything answers with the first error.
					_, err := s.Write(synced(entry(written+1, 1, 10)))
					require.Equal(t, failed, err)
					require.Equal(t, failed, s.Mark())
					_, err = s.Entries(2, 3, 100)
					require.Equal(t, failed, errors.Unwrap(fmt.Errorf("%w", err)))
					_, err = s.NewCursor(0)
					require.Equal(t, failed, err)
					require.Error(t, s.Close())

					disk.PowerCut(faultdisk.Nothing)
					s = open(t, disk)
					require.GreaterOrEqual(t, s.LastIndex(), written)
					requireEntries(t, s, entries(2, s.LastIndex()+1, 1, 900))
				}
			})
		}
	}
}

func TestAFullDiskTakesCommandsAndVotes(t *testing.T) {
	disk := faultdisk.New(1)
	o := options(disk)
	o.SegmentBytes = 256 << 10
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)

	// The disk fills up; the replica refuses appends from now
	// on, but trims and votes continue for a good while.
	disk.Capacity(disk.Used() + 1000)
	i := uint64(2)
	for range 3000 {
		write(t, s, synced(entry(i, 1, 50)))
		i++
	}
	require.Greater(t, len(segmentsOn(disk)), 1, "the spare is in use")
	_, err = s.Prepare()
	require.ErrorIs(t, err, syscall.ENOSPC, "there is no spare, and no room for one")

	// A full disk can be started from, even with a torn tail.
	disk.PowerCut(faultdisk.Nothing)
	s, err = repair.Open(disk, dir, o)
	require.NoError(t, err)
	require.Equal(t, i-1, s.LastIndex())

	// A trim makes room again.
	require.NoError(t, trim(s, i))
	require.Equal(t, uint64(2), s.FirstIndex(), "no snapshot covers it")
	disk.Capacity(0)
	require.NoError(t, s.SaveSnapshot(i-1, 1, nil))
	require.NoError(t, trim(s, i))
	_, err = s.Prepare()
	require.NoError(t, err)
}

func TestATornTailOnAFullDiskIsFollowedByTheSpare(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 5, 1, 100)...))
	write(t, s, []segment.Write{{Entries: entries(5, 7, 1, 100)}})
	disk.Capacity(disk.Used())
	disk.Restart()
	disk.Capacity(disk.Used())
	flipPayload(t, disk, "entry", 5)
	s = open(t, disk)
	write(t, s, synced(entry(5, 2, 100)))
	requireEntries(t, s, append(entries(2, 5, 1, 100), entry(5, 2, 100)))
}

func TestAnInterruptedResetLeavesTheOldLogOrTheNew(t *testing.T) {
	for name, index := range map[string]uint64{
		"far above the last entry": 1000,
		// The log has entries there, but of a leader that lost its leadership.
		"among entries of another term": 30,
	} {
		for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
			t.Run(fmt.Sprint(name, "/", remains), func(t *testing.T) {
				for seed := range uint64(8) {
					interruptedReset(t, seed, index, remains)
				}
			})
		}
	}
}

func interruptedReset(t *testing.T, seed, index uint64, remains faultdisk.Remains) {
	t.Helper()
	for n := 1; ; n++ {
		disk := faultdisk.New(seed<<32 + uint64(n))
		s := create(t, disk)
		old := entries(2, 40, 1, 900)
		result := write(t, s, synced(old...))
		require.NoError(t, s.SaveSnapshot(result.Rolled[0]-1, 1, []byte("old state")))
		disk.StopAt(n)
		err := s.Reset(index, 5, record.Offset(9000), segment.HardState{Term: 6, Commit: index}, []byte("new state"))
		if err == nil {
			break
		}
		disk.PowerCut(remains)
		s = open(t, disk)
		found, _, data, err := s.LoadSnapshot()
		require.NoError(t, err)
		base, _, _, err := s.LoadBase()
		require.NoError(t, err)
		require.Equal(t, s.FirstIndex()-1, base)
		if s.FirstIndex() == 2 {
			requireEntries(t, s, old)
			require.Equal(t, result.Rolled[0]-1, found, "stopped at operation %d", n)
		} else {
			require.Equal(t, index+1, s.FirstIndex())
			require.Equal(t, record.Offset(9000), s.StartOffset())
			require.Equal(t, index, found)
			require.Equal(t, []byte("new state"), data)
			require.Len(t, segmentsOn(disk), 1)
			require.Len(t, filesOn(disk, ".snap"), 1, "what came before the reset is gone")
			requireEntries(t, s, nil)
		}
		require.Empty(t, filesOn(disk, ".tmp"))
		require.NoError(t, s.Close())
	}
}

// What is opened for reading is what a start would find, whatever a crash has left, and nothing
// on the disk is changed for it.
func TestOpeningForReadingFindsWhatAStartFindsAndChangesNothing(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for n := 1; ; n += 11 {
				disk := faultdisk.New(uint64(n))
				s := create(t, disk)
				disk.StopAt(n)
				w := &walk{random: rand.New(rand.NewPCG(1, 1)), model: newModel(), term: 1, snapshot: 1}
				steps := 0
				for ; steps < 50 && w.step(s) == nil; steps++ {
				}
				if steps == 50 {
					require.Greater(t, n, 100)
					return
				}
				disk.PowerCut(remains)
				before := contents(disk)
				stored, err := repair.OpenReadOnly(disk, dir, options(disk))
				require.NoError(t, err, "operation %d", n)
				found := foundIn(t, stored)
				require.NoError(t, stored.Close())
				_, err = stored.Entries(stored.FirstIndex(), stored.FirstIndex()+1, 1)
				require.ErrorIs(t, err, segment.ErrClosed)
				require.True(t, maps.Equal(before, contents(disk)), "operation %d has changed a file", n)
				s = open(t, disk)
				require.Equal(t, found, foundIn(t, s), "operation %d", n)
				require.NoError(t, s.Close())
			}
		})
	}
}

// stored is all that a log has.
type stored struct {
	first, last uint64
	start       record.Offset
	hard        segment.HardState
	snapshots   []uint64
	entries     []segment.Entry
}

func foundIn(t *testing.T, s *store.Store) stored {
	t.Helper()
	f := stored{first: s.FirstIndex(), last: s.LastIndex(), start: s.StartOffset(), hard: s.HardState(), snapshots: s.Snapshots()}
	for next := f.first; next <= f.last; next = f.first + uint64(len(f.entries)) {
		more, err := s.Entries(next, f.last+1, 10_000)
		require.NoError(t, err)
		f.entries = append(f.entries, more...)
	}
	return f
}
