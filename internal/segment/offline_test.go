package segment_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// copies are two replicas of one log: the same entries, in segments of other
// sizes. The first is damaged, the second gives.
type copies struct {
	disks  [2]*faultdisk.Disk
	want   []segment.Entry // from index 2 on
	hard   segment.HardState
	commit uint64
	older  []map[string]string // files of the first, at times before
}

// newCopies writes a history of steps: entries, some of which truncate others,
// hard states, snapshots, and on the first copy recycled files.
func newCopies(t *testing.T, seed uint64, steps int) *copies {
	t.Helper()
	c := &copies{hard: bootstrap().HardState, commit: 1}
	random := rand.New(rand.NewPCG(seed, 3))
	var logs [2]*store.Store
	for i := range logs {
		c.disks[i] = faultdisk.New(seed<<1 + uint64(i))
		o := options(c.disks[i])
		o.SegmentBytes += int64(i) * 5000
		var err error
		logs[i], err = store.Create(c.disks[i], dir, o, bootstrap())
		require.NoError(t, err)
	}
	var pending [2][]uint64
	for range steps {
		last := uint64(len(c.want)) + 1
		from := last + 1
		if last > c.commit && random.IntN(8) == 0 {
			from -= uint64(random.IntN(int(last - c.commit)))
			c.hard.Term++
			c.hard.Vote = uint64(random.IntN(3))
		}
		frames := entries(from, from+1+uint64(random.IntN(5)), c.hard.Term, random.IntN(1500))
		c.want = append(c.want[:from-2:from-2], frames...)
		ws := synced(frames...)
		if random.IntN(4) > 0 {
			hard := c.hard
			hard.Commit = c.commit
			ws[0].HardState = &hard
		}
		for i, log := range logs {
			pending[i] = append(pending[i], write(t, log, ws).Rolled...)
			var rest []uint64
			for _, first := range pending[i] {
				if first-1 > c.commit {
					rest = append(rest, first)
					continue
				}
				term, err := log.Term(first - 1)
				if errors.Is(err, segment.ErrTrimmed) {
					continue
				}
				require.NoError(t, err)
				require.NoError(t, log.SaveSnapshot(first-1, term, fmt.Append(nil, "state at ", first-1)))
			}
			pending[i] = rest
		}
		c.commit += uint64(random.IntN(int(uint64(len(c.want)) + 2 - c.commit)))
		if random.IntN(20) == 0 {
			require.NoError(t, trim(logs[0], c.commit/2))
		}
		if random.IntN(10) == 0 {
			c.older = append(c.older, contents(c.disks[0]))
		}
	}
	c.hard.Commit = c.commit
	last := []segment.Write{{HardState: &c.hard, MustSync: true}}
	for i, log := range logs {
		write(t, log, last)
		require.NoError(t, log.Close())
		c.disks[i].Restart()
	}
	return c
}

func survey(t *testing.T, disk *faultdisk.Disk) *repair.Report {
	t.Helper()
	before := contents(disk)
	report, err := repair.Survey(context.Background(), disk, dir, store.Options{}, nil)
	require.NoError(t, err)
	require.Equal(t, before, contents(disk), "Survey changed a file")
	return report
}

var errStuck = errors.New("nobody has what is missing")

// repair repairs the log on disk with what giver has, in pieces of maxBytes.
func repairFiles(disk *faultdisk.Disk, giver segment.Log, committed uint64, maxBytes int) (r repair.Outcome, err error) {
	m, err := repair.Begin(context.Background(), disk, dir, options(disk))
	if err != nil {
		return r, err
	}
	return repairWith(m, giver, committed, maxBytes)
}

// repairWith finishes and closes m.
func repairWith(m *repair.Repairer, giver segment.Log, committed uint64, maxBytes int) (r repair.Outcome, err error) {
	defer func() { err = errors.Join(err, m.Close()) }()
	for vain := 0; ; {
		wants := m.Wants(3)
		if len(wants) == 0 {
			return m.Finish()
		}
		taken := 0
		for _, w := range wants {
			for lo := w.First; lo <= min(w.To, giver.LastIndex()); {
				frames, err := giver.Entries(lo, min(w.To, giver.LastIndex())+1, maxBytes)
				if err != nil {
					return r, err
				}
				if len(frames) == 0 {
					break // it ends before
				}
				n, err := m.Give(frames, committed)
				if err != nil {
					return r, err
				}
				taken += n
				lo += uint64(len(frames))
			}
		}
		switch vain++; {
		case taken > 0:
			vain = 0
		case committed < giver.LastIndex():
			committed = giver.LastIndex() // the cluster continues
		case vain > 2: // what is committed there may have been learned in the first
			return r, fmt.Errorf("%w: %v", errStuck, wants)
		}
	}
}

func (c *copies) giver(t *testing.T) *store.Store { return open(t, c.disks[1]) }

// requireWhole proves that the first copy is what it was before the damage.
func (c *copies) requireWhole(t *testing.T) {
	t.Helper()
	report := survey(t, c.disks[0])
	require.Empty(t, report.Damage)
	require.Nil(t, report.Torn)
	s := open(t, c.disks[0])
	requireEntries(t, s, c.want[s.FirstIndex()-2:])
	require.Equal(t, c.hard, s.HardState())
	require.Equal(t, firstOf(s.FirstIndex()), s.StartOffset())
	size, err := s.OffsetAtSize(1, firstOf(s.LastIndex()+1))
	require.NoError(t, err)
	require.GreaterOrEqual(t, size, firstOf(s.LastIndex()-4))

	// It continues, over a crash.
	more := entry(s.LastIndex()+1, c.hard.Term, 100)
	write(t, s, synced(more))
	want := append(c.want[:len(c.want):len(c.want)], more)
	requireEntries(t, s, want[s.FirstIndex()-2:])
	c.disks[0].PowerCut(faultdisk.Nothing)
	s = open(t, c.disks[0])
	requireEntries(t, s, want[s.FirstIndex()-2:])
	require.Equal(t, c.hard, s.HardState())
	saveStarts(t, s, segment.Result{Rolled: []uint64{s.LastIndex()}})
	require.NoError(t, trim(s, s.LastIndex()))
	requireEntries(t, s, want[s.FirstIndex()-2:])
	require.NoError(t, s.Close())
}

// replaceFile gives a file another content.
func replaceFile(t *testing.T, disk *faultdisk.Disk, name string, content []byte) {
	t.Helper()
	require.NoError(t, disk.Remove(name))
	file, err := disk.Create(name)
	require.NoError(t, err)
	_, err = file.WriteAt(content, 0)
	require.NoError(t, err)
	require.NoError(t, file.Datasync())
	require.NoError(t, disk.SyncDir(dir))
}

// zero wipes size bytes of a file.
func zero(t *testing.T, disk *faultdisk.Disk, name string, from, size int64) {
	t.Helper()
	content := disk.Content(name)
	from = min(from, int64(len(content)))
	clear(content[from:min(from+size, int64(len(content)))])
	replaceFile(t, disk, name, content)
}

// frameIn returns the n-th frame of a kind in a file; the last for -1.
func frameIn(t *testing.T, disk *faultdisk.Disk, name, kind string, n int) storedFrame {
	t.Helper()
	var found []storedFrame
	for _, f := range framesIn(disk.Content(name)) {
		if f.Kind == kind {
			found = append(found, f)
		}
	}
	if n < 0 {
		n += len(found)
	}
	require.Less(t, n, len(found), "%s frames in %s", kind, name)
	return found[n]
}

func TestASurveyNamesEachPlace(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	for i := uint64(2); i < 40; i++ {
		ws := synced(entry(i, 1, 1000))
		ws[0].HardState = &segment.HardState{Term: 1, Commit: i - 1}
		write(t, s, ws)
	}
	require.NoError(t, s.Close())
	disk.Restart()
	segments := segmentsOn(disk)
	require.Len(t, segments, 4)
	size := int64(0)
	for _, name := range append(segments, filesOn(disk, ".snap")...) {
		size += int64(len(disk.Content(name)))
	}
	require.Equal(t, &repair.Report{
		Segments: 4, Snapshots: 1, Bytes: size, Entries: 38, First: 2, Last: 39, Start: 0, End: firstOf(40),
		HardState: segment.HardState{Term: 1, Commit: 38},
	}, survey(t, disk))

	flipHeader(t, disk, "entry", 9)
	flipHeader(t, disk, "entry", 8)
	flipHeader(t, disk, "entry", 4)
	flipPayload(t, disk, "entry", 3)
	require.NoError(t, disk.Remove(segments[2]))
	report := survey(t, disk)
	at := func(i uint64) int64 { return headerSize + 1072 + int64(i-3)*(1072+96) }
	damage := func(file string, position, size int64, first, last uint64) repair.Damage {
		return repair.Damage{File: file, Position: position, Size: size, First: first, Last: last, Start: firstOf(first), End: firstOf(last + 1)}
	}
	want := []repair.Damage{
		damage(segments[0], at(3), 1072, 3, 3),
		damage(segments[0], at(4), 1072, 4, 4),
		damage(segments[0], at(8), 1072, 8, 8),
		damage(segments[0], at(9), 1072, 9, 9),
		damage(path.Join(dir, "00000000000000000003-*.seg"), 0, 0, 22, 31),
	}
	// What is whole between the two is a hard state, which holds no offset.
	want[2].End, want[3].Start = firstOf(10), firstOf(8)
	require.Equal(t, uint64(38-4-10), report.Entries)
	for i := range report.Damage {
		require.NotEmpty(t, report.Damage[i].Detail)
		report.Damage[i].Detail = ""
	}
	require.Equal(t, want, report.Damage)
}

// The table of damage: what a survey says of it, and what repair makes of it.
func TestDamage(t *testing.T) {
	const (
		whole = iota
		repaired
		renewed
	)
	first := func(segments []string) string { return segments[0] }
	middle := func(segments []string) string { return segments[len(segments)/2] }
	newest := func(segments []string) string { return segments[len(segments)-1] }
	remove := func(t *testing.T, disk *faultdisk.Disk, name string) {
		require.NoError(t, disk.Remove(name))
		require.NoError(t, disk.SyncDir(dir))
	}
	flip := func(kind string, n int, at int64) func(*testing.T, *faultdisk.Disk, string) {
		return func(t *testing.T, disk *faultdisk.Disk, name string) {
			disk.FlipBit(name, frameIn(t, disk, name, kind, n).Position+at)
		}
	}
	rows := []struct {
		name   string
		where  func(segments []string) string
		damage func(t *testing.T, disk *faultdisk.Disk, name string)
		detail string // of the first damage
		result int
	}{
		{"payload in the middle", middle, flip("entry", 4, 80), "payload of entry", repaired},
		{"payload of the first entry", first, flip("entry", 0, 80), "payload of entry", repaired},
		{"payload in the newest", newest, flip("entry", 0, 80), "payload of entry", repaired},
		{"frame header in the middle", middle, flip("entry", 4, 20), "frame header has CRC", repaired},
		{"frame header, the salt", middle, flip("entry", 4, 9), "frame has salt", repaired},
		{"frame header in the newest", newest, flip("entry", 0, 20), "frame header has CRC", repaired},
		{"first frame header in the middle", middle, flip("entry", 0, 20), "frame header has CRC", repaired},
		{"last frame header in the middle", middle, flip("entry", -1, 20), "frame header has CRC", repaired},
		{"hard state in the middle", middle, flip("hard state", 0, 75), "payload of entry", repaired},
		{"hard state in the newest, others behind", newest, flip("hard state", 0, 75), "payload of entry", repaired},
		{"sync mark, the last frame", newest, flip("mark", -1, 75), "", whole},
		{"footer", middle, flip("footer", 0, 90), "payload of entry", repaired},
		{"footer's frame header", first, flip("footer", 0, 20), "frame header has CRC", repaired},
		{"segment header in the middle", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			disk.FlipBit(name, 50)
		}, "segment header has CRC", repaired},
		{"segment header of the first", first, func(t *testing.T, disk *faultdisk.Disk, name string) {
			disk.FlipBit(name, 50)
		}, "segment header has CRC", repaired},
		{"segment header of the newest", newest, func(t *testing.T, disk *faultdisk.Disk, name string) {
			disk.FlipBit(name, 50)
		}, "segment header has CRC", renewed},
		{"segment header and first frames", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			zero(t, disk, name, 0, 8192)
		}, "segment header has CRC", repaired},
		{"a page of zeros", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			zero(t, disk, name, 8192, 4096)
		}, "", repaired},
		{"the whole file zeros", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			zero(t, disk, name, 0, 1<<30)
		}, "segment header has CRC", repaired},
		{"cut short", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			replaceFile(t, disk, name, disk.Content(name)[:9000])
		}, "", repaired},
		{"cut short within the header", first, func(t *testing.T, disk *faultdisk.Disk, name string) {
			replaceFile(t, disk, name, disk.Content(name)[:100])
		}, "segment header cut short", repaired},
		{"empty", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			replaceFile(t, disk, name, nil)
		}, "segment header cut short", repaired},
		{"missing in the middle", middle, remove, "the segment file is missing", repaired},
		{"missing at the head", first, remove, "the segment file is missing", repaired},
		{"two missing", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			remove(t, disk, name)
			remove(t, disk, middle(segmentsOn(disk)))
		}, "the segment file is missing", repaired},
		{"all but the newest missing", first, func(t *testing.T, disk *faultdisk.Disk, name string) {
			for len(segmentsOn(disk)) > 1 {
				remove(t, disk, segmentsOn(disk)[0])
			}
		}, "the segment file is missing", repaired},
		{"all missing", first, func(t *testing.T, disk *faultdisk.Disk, name string) {
			for len(segmentsOn(disk)) > 0 {
				remove(t, disk, segmentsOn(disk)[0])
			}
		}, "the segment file is missing", renewed},
		{"another segment under its name", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			replaceFile(t, disk, name, disk.Content(newest(segmentsOn(disk))))
		}, "header of segment", repaired},
		{"many places", middle, func(t *testing.T, disk *faultdisk.Disk, name string) {
			for _, name := range segmentsOn(disk) {
				flip("entry", 0, 20)(t, disk, name)
			}
			remove(t, disk, name)
			disk.FlipBit(first(segmentsOn(disk)), 60)
		}, "", repaired},
		{"newest snapshot", newest, func(t *testing.T, disk *faultdisk.Disk, name string) {
			snapshots := filesOn(disk, ".snap")
			disk.FlipBit(snapshots[len(snapshots)-1], 98)
		}, "snapshot data has CRC", repaired},
		{"all snapshots", newest, func(t *testing.T, disk *faultdisk.Disk, name string) {
			for _, name := range filesOn(disk, ".snap") {
				disk.FlipBit(name, 98)
			}
		}, "snapshot data has CRC", renewed},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(3) {
				c := newCopies(t, seed, 100)
				disk := c.disks[0]
				require.Empty(t, survey(t, disk).Damage)
				require.Greater(t, len(segmentsOn(disk)), 4)
				name := row.where(segmentsOn(disk))
				row.damage(t, disk, name)
				damaged := contents(disk)

				report := survey(t, disk)
				if row.result == whole {
					require.Empty(t, report.Damage)
					continue
				}
				require.NotEmpty(t, report.Damage)
				require.Contains(t, report.Damage[0].Detail, row.detail)
				giver := c.giver(t)
				r, err := repairFiles(disk, giver, c.commit, 4000)
				if row.result == renewed {
					require.ErrorIs(t, err, repair.ErrNotRepairable)
					require.Equal(t, damaged, contents(disk), "nothing is changed")
					continue
				}
				require.NoError(t, err)
				for _, aside := range r.Aside {
					before, _, _ := strings.Cut(aside, ".seg")
					require.Equal(t, damaged[path.Join(dir, strings.TrimSuffix(before, ".snap.bad")+suffixOf(aside))], string(disk.Content(path.Join(dir, aside))))
				}
				c.requireWhole(t)
			}
		})
	}
}

// suffixOf is what a file kept aside had for a suffix.
func suffixOf(aside string) string {
	if strings.Contains(aside, ".snap") {
		return ".snap"
	}
	return ".seg"
}

var (
	damageSeeds = flag.Uint64("damage.seeds", 100, "how many seeds TestRandomDamage runs, a tenth of them new each time")
	damageFrom  = flag.Uint64("damage.from", 0, "the first of them")
)

// cutInPadding are seeds that cut a file within the padding of its last whole
// frame, and lose the segment that knows where it ends.
var cutInPadding = []uint64{5483, 8080}

// A log is damaged at a random place, in a random way, and repaired.
// REPAIR_SEED replays one.
func TestRandomDamage(t *testing.T) {
	seeds := []uint64{}
	if text := os.Getenv("REPAIR_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		seeds = append(seeds, seed)
	} else {
		seeds = append(seeds, cutInPadding...)
		for i := range *damageSeeds {
			seeds = append(seeds, *damageFrom+i)
		}
		for range *damageSeeds / 10 {
			seeds = append(seeds, rand.Uint64())
		}
	}
	results := map[string]int{}
	for _, seed := range seeds {
		results[randomDamage(t, seed)]++
		if t.Failed() {
			t.Fatalf("replay with REPAIR_SEED=%d", seed)
		}
	}
	t.Log(results)
}

func randomDamage(t *testing.T, seed uint64) (result string) {
	defer func() {
		if t.Failed() {
			t.Logf("replay with REPAIR_SEED=%d", seed)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 4))
	c := newCopies(t, seed%7, 40+random.IntN(50))
	disk := c.disks[0]
	newest := segmentsOn(disk)[len(segmentsOn(disk))-1]
	touched := map[string]bool{}
	for range 1 + random.IntN(3) {
		files := append(segmentsOn(disk), filesOn(disk, ".snap")...)
		if len(files) == 0 {
			break
		}
		name := files[random.IntN(len(files))]
		touched[name] = true
		content := disk.Content(name)
		at := int64(random.IntN(max(len(content), 1)))
		switch random.IntN(6) {
		case 0, 1:
			if len(content) > 0 {
				disk.Change(name, at, func(b byte) byte { return b ^ 1<<random.IntN(8) })
			}
		case 2:
			zero(t, disk, name, at&^511, 512<<random.IntN(5))
		case 3:
			replaceFile(t, disk, name, content[:at])
		case 4:
			require.NoError(t, disk.Remove(name))
			require.NoError(t, disk.SyncDir(dir))
		case 5:
			older := c.older[random.IntN(len(c.older))]
			if content, ok := older[name]; ok {
				replaceFile(t, disk, name, []byte(content))
			}
		}
	}
	_, err := repairFiles(disk, c.giver(t), c.commit, 1000+random.IntN(10000))
	if errors.Is(err, repair.ErrNotRepairable) || errors.Is(err, segment.ErrNoLog) {
		snapshot := false
		for name := range touched {
			snapshot = snapshot || strings.HasSuffix(name, ".snap")
		}
		require.True(t, snapshot || touched[newest], "%v", err)
		return "renewed"
	}
	require.NoError(t, err)
	if !touched[newest] {
		c.requireWhole(t)
		return "repaired"
	}
	// The end may be what it was some time before: that it is looks like a torn
	// tail, or like a log that ended there.
	s := open(t, disk)
	require.LessOrEqual(t, s.FirstIndex(), s.HardState().Commit+1)
	require.NoError(t, sameUpTo(s, c.want[s.FirstIndex()-2:], s.HardState().Commit))
	if s.HardState() == c.hard {
		require.NoError(t, s.Close())
		return "repaired"
	}
	require.NoError(t, s.Close())
	return "older"
}

// sameUpTo compares the entries up to an index with want.
func sameUpTo(log segment.Log, want []segment.Entry, last uint64) error {
	for i := log.FirstIndex(); i <= last; {
		frames, err := log.Entries(i, last+1, 10_000)
		if err != nil {
			return err
		}
		for _, f := range frames {
			if !sameFrame(f, want[f.Index-log.FirstIndex()]) {
				return fmt.Errorf("entry %d of term %d", f.Index, f.Term)
			}
			i++
		}
	}
	return nil
}
