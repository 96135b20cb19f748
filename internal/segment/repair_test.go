package segment_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// damagedIn returns the file that an error of reading a log names.
func damagedIn(err error) string {
	var corrupt *segment.CorruptError
	var missing *fs.PathError
	switch {
	case errors.As(err, &corrupt):
		return corrupt.File
	case errors.Is(err, fs.ErrNotExist) && errors.As(err, &missing):
		return missing.Path
	}
	return ""
}

// repairOpen reads the whole of an open log and repairs what proves damaged, with
// what giver has. during is called while each repair is under way.
func repairOpen(s, giver *store.Store, committed uint64, during func()) (repairs int, err error) {
	for i := s.FirstIndex(); i <= s.LastIndex(); {
		frames, err := s.Entries(i, s.LastIndex()+1, 4000)
		if err == nil {
			i += uint64(len(frames))
			continue
		}
		name := damagedIn(err)
		if name == "" || repairs > 100 {
			return repairs, err
		}
		if err := repairFile(s, giver, name, committed, during); err != nil {
			return repairs, err
		}
		repairs++
	}
	return repairs, nil
}

func repairFile(s, giver *store.Store, name string, committed uint64, during func()) error {
	m, err := repair.BeginOnline(s, name, committed, 0)
	if err != nil {
		return err
	}
	during()
	for {
		wants := m.Wants(3)
		if len(wants) == 0 {
			_, err := m.Finish()
			return err
		}
		for _, w := range wants {
			for lo := w.First; lo <= w.Last; {
				frames, err := giver.Entries(lo, min(w.Last+2, giver.LastIndex()+1), 3000)
				if err != nil {
					return errors.Join(err, m.Close())
				}
				if _, err := m.Give(frames, committed); err != nil {
					return errors.Join(err, m.Close())
				}
				lo += uint64(len(frames))
			}
		}
	}
}

// completeOn are segments in the middle, all of whose entries are committed.
func (c *copies) completeOn() []string {
	names := segmentsOn(c.disks[0])
	return names[1 : len(names)-4]
}

// A log that is open is repaired while it is written to and read.
func TestAnOpenLogIsRepaired(t *testing.T) {
	rows := map[string]func(t *testing.T, c *copies, name string){
		"a payload": func(t *testing.T, c *copies, name string) {
			f := frameIn(t, c.disks[0], name, "entry", 2)
			c.disks[0].FlipBit(name, f.Position+f.Size/2)
		},
		"a frame's header": func(t *testing.T, c *copies, name string) {
			c.disks[0].FlipBit(name, frameIn(t, c.disks[0], name, "entry", 1).Position+20)
		},
		"several frames": func(t *testing.T, c *copies, name string) {
			f := frameIn(t, c.disks[0], name, "entry", 1)
			zero(t, c.disks[0], name, f.Position+8, 4000)
		},
		"the footer and a payload": func(t *testing.T, c *copies, name string) {
			footer := frameIn(t, c.disks[0], name, "footer", -1)
			f := frameIn(t, c.disks[0], name, "entry", 2)
			c.disks[0].FlipBit(name, footer.Position+10)
			c.disks[0].FlipBit(name, f.Position+10)
		},
		"the segment's header": func(t *testing.T, c *copies, name string) {
			c.disks[0].FlipBit(name, 50)
		},
		"all of it": func(t *testing.T, c *copies, name string) {
			zero(t, c.disks[0], name, 0, 1<<20)
		},
		"the file": func(t *testing.T, c *copies, name string) { // Open would have missed it
			require.NoError(t, c.disks[0].Remove(name))
			require.NoError(t, c.disks[0].SyncDir(dir))
		},
		"a sector": func(t *testing.T, c *copies, name string) {
			c.disks[0].Unreadable(name, frameIn(t, c.disks[0], name, "entry", 2).Position+100, 1)
		},
		"another segment in its place": func(t *testing.T, c *copies, name string) {
			replaceFile(t, c.disks[0], name, c.disks[0].Content(c.completeOn()[0]))
		},
	}
	for what, damage := range rows {
		t.Run(what, func(t *testing.T) {
			c := newCopies(t, 7, 60)
			complete := c.completeOn()
			name := complete[len(complete)/2]
			if what != "the file" {
				damage(t, c, name)
			}
			giver := c.giver(t)
			s := open(t, c.disks[0])
			if what == "the file" {
				damage(t, c, name)
			}
			want := c.want[s.FirstIndex()-2:]
			whole, err := s.Entries(s.FirstIndex(), s.LastIndex()+1, 1)
			require.NoError(t, err)
			require.True(t, sameFrame(whole[0], want[0]))

			// A reader holds the damaged file.
			reader, err := s.NewCursor(s.StartOffset())
			require.NoError(t, err)
			defer reader.Close()
			repairs, err := repairOpen(s, giver, c.commit, func() {
				more := entry(s.LastIndex()+1, c.hard.Term, 100)
				write(t, s, synced(more))
				want = append(want[:len(want):len(want)], more)
				c.want = append(c.want[:len(c.want):len(c.want)], more)
			})
			require.NoError(t, err)
			require.Positive(t, repairs)
			requireEntries(t, s, want)
			require.NoError(t, s.Close())
			c.disks[0].PowerCut(faultdisk.Nothing)
			c.requireWhole(t)
		})
	}
}

// The directory is listed for a repair while the filler makes spares, whose numbers
// it must not give twice. The race detector sees it.
func TestSparesAreMadeBesideTheRepairOfAnOpenLog(t *testing.T) {
	c := newCopies(t, 7, 60)
	complete := c.completeOn()
	name := complete[len(complete)/2]
	f := frameIn(t, c.disks[0], name, "entry", 2)
	c.disks[0].FlipBit(name, f.Position+f.Size/2)
	giver, s := c.giver(t), open(t, c.disks[0])
	stop, done := make(chan struct{}), make(chan error, 1)
	repairs, err := repairOpen(s, giver, c.commit, func() {
		last := s.LastIndex()
		go func() {
			for i := last + 1; ; i++ {
				_, err := s.Write(synced(entry(i, c.hard.Term, 3000)))
				if err == nil {
					_, err = s.Prepare()
				}
				select {
				case <-stop:
					done <- err
					return
				default:
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
	})
	close(stop)
	require.NoError(t, err)
	require.Equal(t, 1, repairs)
	require.NoError(t, <-done)
	require.NoError(t, s.Close())
}

func TestOnlyCompleteSegmentsOfCommittedEntriesAreRepairedOpen(t *testing.T) {
	c := newCopies(t, 7, 60)
	s := open(t, c.disks[0])
	names := segmentsOn(c.disks[0])
	_, err := repair.BeginOnline(s, names[len(names)-1], c.commit, 0)
	require.ErrorIs(t, err, segment.ErrNotCommitted)
	_, err = repair.BeginOnline(s, names[1], 2, 0)
	require.ErrorIs(t, err, segment.ErrNotCommitted)
	_, err = repair.BeginOnline(s, dir+"/watermark", c.commit, 0)
	require.ErrorIs(t, err, segment.ErrNotComplete)
	require.NoError(t, s.Close())
}

// A segment that is trimmed while it is repaired stays away.
func TestARepairedSegmentThatWasTrimmedMeanwhileIsNotBroughtBack(t *testing.T) {
	c := newCopies(t, 7, 60)
	name := c.completeOn()[0]
	c.disks[0].FlipBit(name, frameIn(t, c.disks[0], name, "entry", 2).Position+100)
	s := open(t, c.disks[0])
	m, err := repair.BeginOnline(s, name, c.commit, 0)
	require.NoError(t, err)
	for _, w := range m.Wants(10) {
		frames, err := c.giver(t).Entries(w.First, w.Last+1, 1<<20)
		require.NoError(t, err)
		_, err = m.Give(frames, c.commit)
		require.NoError(t, err)
	}
	require.NoError(t, trim(s, c.commit))
	first := s.FirstIndex()
	_, err = m.Finish()
	require.Error(t, err)
	requireEntries(t, s, c.want[first-2:])
	require.NoError(t, s.Close())
	s = open(t, c.disks[0])
	require.Equal(t, first, s.FirstIndex())
	requireEntries(t, s, c.want[first-2:])
	require.NoError(t, s.Close())
}

// A repair that fails leaves no file behind, while the log runs: it may have failed
// for want of room.
func TestAFailedRepairLeavesNoFile(t *testing.T) {
	for n := 1; ; n++ {
		c := newCopies(t, 7, 60)
		name := c.completeOn()[1]
		c.disks[0].FlipBit(name, 50) // the header: the segment before is rewritten too
		giver := c.giver(t)
		s := open(t, c.disks[0])
		err := repairFile(s, giver, name, c.commit, func() { c.disks[0].FailNth(faultdisk.Any, n, syscall.ENOSPC) })
		if err == nil {
			require.Greater(t, n, 20)
			require.NoError(t, errors.Join(s.Close(), giver.Close()))
			return
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Empty(t, filesOn(c.disks[0], ".tmp"), "operation %d", n)
		_ = s.Close() // it has stopped if the files could not be exchanged
		c.disks[0].Restart()
		s = open(t, c.disks[0])
		_, err = repairOpen(s, giver, c.commit, func() {})
		require.NoError(t, err, "operation %d", n)
		require.NoError(t, errors.Join(s.Close(), giver.Close()))
		c.requireWhole(t)
	}
}

// A crash anywhere leaves the log as it was, or repaired.
func TestAPowerCutAtEveryOperationOfAnOpenRepair(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for n := 1; ; n++ {
				c := newCopies(t, 7, 60)
				complete := c.completeOn()
				name := complete[len(complete)/2]
				c.disks[0].FlipBit(name, frameIn(t, c.disks[0], name, "entry", 0).Position+20)
				giver := c.giver(t)
				s := open(t, c.disks[0])
				c.disks[0].StopAt(n)
				_, err := repairOpen(s, giver, c.commit, func() {})
				finished := err == nil
				if !finished {
					require.ErrorIs(t, err, faultdisk.ErrStopped)
				}
				c.disks[0].PowerCut(remains)
				s = open(t, c.disks[0])
				_, err = repairOpen(s, giver, c.commit, func() {})
				require.NoError(t, err, "operation %d", n)
				require.NoError(t, s.Close())
				require.NoError(t, giver.Close())
				c.requireWhole(t)
				if finished {
					require.Greater(t, n, 10)
					return
				}
			}
		})
	}
}

func TestRandomDamageIsRepairedOpen(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCopies(t, seed, 60)
			random := rand.New(rand.NewPCG(seed, 9))
			names := segmentsOn(c.disks[0])
			for range 1 + random.IntN(4) {
				name := names[random.IntN(len(names))]
				size := len(c.disks[0].Content(name))
				switch {
				case size == 0 || name == names[len(names)-1]:
				case random.IntN(6) == 0:
					require.NoError(t, c.disks[0].Remove(name))
					require.NoError(t, c.disks[0].SyncDir(dir))
				case random.IntN(3) == 0:
					c.disks[0].Unreadable(name, int64(random.IntN(size)), int64(random.IntN(2000)))
				default:
					c.disks[0].FlipBit(name, int64(random.IntN(size)))
				}
			}
			s, err := repair.Open(c.disks[0], dir, options(c.disks[0]))
			if err != nil {
				require.ErrorAs(t, err, new(*segment.CorruptError))
				return // a file that is missing, or the first: for the Repairer
			}
			_, err = repairOpen(s, c.giver(t), c.commit, func() {})
			if errors.Is(err, segment.ErrNotComplete) || errors.Is(err, segment.ErrNotCommitted) {
				require.NoError(t, s.Close())
				return
			}
			require.NoError(t, err)
			requireEntries(t, s, c.want[s.FirstIndex()-2:])
			require.NoError(t, s.Close())
			s = open(t, c.disks[0])
			requireEntries(t, s, c.want[s.FirstIndex()-2:])
			require.NoError(t, s.Close())
		})
	}
}

// Damage in the segment that is written to is repaired once it is full: the next
// write begins another.
func TestTheNewestSegmentOfAnOpenLogIsRepaired(t *testing.T) {
	for what, damage := range map[string]func(disk *faultdisk.Disk, name string, f storedFrame){
		"a flipped bit": func(disk *faultdisk.Disk, name string, f storedFrame) { disk.FlipBit(name, f.Position+f.Size/2) },
		"a sector":      func(disk *faultdisk.Disk, name string, f storedFrame) { disk.Unreadable(name, f.Position+80, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			c := newCopies(t, 7, 60)
			s := open(t, c.disks[0])
			names := segmentsOn(c.disks[0])
			name := names[len(names)-1]
			damage(c.disks[0], name, frameIn(t, c.disks[0], name, "entry", 0))
			giver := c.giver(t)
			_, err := repairOpen(s, giver, c.commit, func() {})
			require.ErrorIs(t, err, segment.ErrNotCommitted)
			more := entry(s.LastIndex()+1, c.hard.Term, 100)
			write(t, s, synced(more))
			repairs, err := repairOpen(s, giver, s.LastIndex()-1, func() {})
			require.NoError(t, err)
			require.Equal(t, 1, repairs)
			requireEntries(t, s, append(c.want[s.FirstIndex()-2:len(c.want):len(c.want)], more))
			require.NoError(t, s.Close())
		})
	}
}

// A log that cannot be opened is repaired where it is damaged; what else is damaged
// is repaired when it is open. Nothing reads the whole.
func TestNothingReadsTheWholeLogToRepairIt(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCopies(t, seed, 80)
			random := rand.New(rand.NewPCG(seed, 11))
			names := segmentsOn(c.disks[0])
			newest := names[len(names)-1]
			damage := func(name string) {
				if frames := framesIn(c.disks[0].Content(name)); len(frames) > 1 {
					f := frames[random.IntN(len(frames)-1)]
					c.disks[0].FlipBit(name, f.Position+int64(random.IntN(int(f.Size-8))))
				}
			}
			damage(newest)
			if random.IntN(2) == 0 {
				damage(names[random.IntN(len(names)-1)])
			}
			s, err := repair.Open(c.disks[0], dir, options(c.disks[0]))
			for tries := 0; err != nil; tries++ {
				var corrupt *segment.CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Less(t, tries, 4, err)
				before := c.disks[0].Calls(faultdisk.Open)
				var m *repair.Repairer
				m, err = repair.BeginAt(t.Context(), c.disks[0], dir, options(c.disks[0]), corrupt.File, 0)
				if errors.Is(err, repair.ErrNotRepairable) {
					return
				}
				require.NoError(t, err)
				if corrupt.File == newest {
					require.LessOrEqual(t, c.disks[0].Calls(faultdisk.Open)-before, 10, "opened")
				}
				_, err = repairWith(m, c.giver(t), c.commit, 1<<20)
				require.NoError(t, err)
				s, err = repair.Open(c.disks[0], dir, options(c.disks[0]))
			}
			_, err = repairOpen(s, c.giver(t), c.commit, func() {})
			if errors.Is(err, segment.ErrNotComplete) || errors.Is(err, segment.ErrNotCommitted) {
				require.NoError(t, s.Close())
				return
			}
			require.NoError(t, err)
			require.NoError(t, sameUpTo(s, c.want[s.FirstIndex()-2:], s.HardState().Commit))
			require.NoError(t, s.Close())
		})
	}
}

// What was given before the crash is asked for again.
func TestARepairThatWasInterruptedBeginsAgain(t *testing.T) {
	c := newCopies(t, 1, 60)
	for _, name := range c.disks[0].Names() {
		if strings.HasSuffix(name, ".seg") {
			c.disks[0].Lose(name)
			break
		}
	}
	m, err := repair.Begin(context.Background(), c.disks[0], dir, options(c.disks[0]))
	require.NoError(t, err)
	first := m.Wants(1)[0].First
	giver := c.giver(t)
	frames, err := giver.Entries(first, first+2, 1<<20)
	require.NoError(t, err)
	_, err = m.Give(frames, c.commit)
	require.NoError(t, err)
	c.disks[0].Restart()
	_, err = repairFiles(c.disks[0], giver, c.commit, 4<<10)
	require.NoError(t, err)
	c.requireWhole(t)
}

// A repaired segment knows its own end. A copy of it from when it was the newest ends
// before the next one begins, and the entries between are damage, not an empty answer.
func TestARepairedSegmentThatEndsTooEarlyIsDamaged(t *testing.T) {
	c := newCopies(t, 3, 60)
	disk := c.disks[0]
	name := newestOn(disk)
	whole := disk.Content(name)
	disk.FlipBit(name, frameIn(t, disk, name, "entry", 0).Position+80)
	_, err := repairFiles(disk, c.giver(t), c.commit, 4000)
	require.NoError(t, err)
	repaired := disk.Content(name)
	disk.Restart()
	require.NoError(t, disk.Remove(watermarkFile)) // the log continues in the old file
	disk.Replace(name, whole)

	s := open(t, disk)
	last := s.LastIndex()
	for newestOn(disk) == name || s.LastIndex() < last+4 {
		saveStarts(t, s, write(t, s, synced(entry(s.LastIndex()+1, c.hard.Term, 1000))))
	}
	require.NoError(t, s.Close())
	disk.PowerCut(faultdisk.Nothing)
	disk.Replace(name, repaired)

	s = open(t, disk)
	_, err = s.Entries(last+1, s.LastIndex()+1, 1000)
	require.ErrorContains(t, err, "the next segment begins")
	require.Equal(t, name, damagedIn(err))
	for what, look := range map[string]func(func(error)) error{
		"check": s.Check, "scrub": func(found func(error)) error { return s.Scrub(nil, found) },
	} {
		var found error
		require.NoError(t, look(func(err error) { found = err }))
		require.Equal(t, name, damagedIn(found), what)
	}
	require.NoError(t, s.Close())
	require.False(t, survey(t, disk).Whole())
}
