package segment_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// newestOn is the newest segment file.
func newestOn(disk *faultdisk.Disk) string {
	segments := segmentsOn(disk)
	return segments[len(segments)-1]
}

// promise changes term and vote, durably.
func promise(term, vote uint64) []segment.Write {
	return []segment.Write{{HardState: &segment.HardState{Term: term, Vote: vote, Commit: 1}, MustSync: true}}
}

// The table of what a log has forgotten. Each row writes a log and takes
// something back that was durable. Where the durable watermark shows that, Open, Survey
// and Begin say so, each in its way; where it cannot, the row says what the log
// becomes.
func TestWhatALogHasForgotten(t *testing.T) {
	const (
		renewed  = "renewed"  // the replica must come back under a new id
		repaired = "repaired" // others can give what is lost
		sound    = "sound"    // nothing is missing
		unseen   = "unseen"   // something is, and nobody can know
	)
	rows := []struct {
		name   string
		damage func(t *testing.T, disk *faultdisk.Disk, s *store.Store)
		result string
		detail string // of the error, or of the logged message
	}{
		{
			name: "an older copy of the newest segment, of an earlier term",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := disk.Content(newestOn(disk))
				write(t, s, promise(2, 0))
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "term 1, vote 0; the durable watermark is segment 1, byte 6656, entry 15, term 2, vote 0",
		}, {
			name: "an older copy, of before a vote",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 0))
				old := disk.Content(newestOn(disk))
				write(t, s, promise(2, 3))
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "older copy",
		}, {
			name: "an older copy, by as much as the durable watermark lets pass",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(1, 0))
				old := disk.Content(newestOn(disk))
				for i := uint64(16); i < 20; i++ {
					write(t, s, synced(entry(i, 1, 1024)))
				}
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "older copy",
		}, {
			name: "an older copy, by less",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 0))
				old := disk.Content(newestOn(disk))
				for i := uint64(16); i < 19; i++ {
					write(t, s, synced(entry(i, 2, 1024)))
				}
				disk.Replace(newestOn(disk), old)
			},
			result: unseen,
		}, {
			name: "an older copy, by less, since the log fell idle",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := disk.Content(newestOn(disk))
				write(t, s, synced(entry(16, 1, 10)))
				require.NoError(t, s.Mark())
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "entry 16 is damaged",
		}, {
			name: "an older copy, by less, since the log fell idle with a commit that is not durable",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := disk.Content(newestOn(disk))
				write(t, s, synced(entry(16, 1, 10)))
				write(t, s, []segment.Write{{HardState: &segment.HardState{Term: 1, Commit: 16}}})
				require.NoError(t, s.Mark())
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "entry 16 is damaged",
		}, {
			name: "an older copy, by less, since a clean stop",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := disk.Content(newestOn(disk))
				write(t, s, []segment.Write{{Entries: entries(16, 17, 1, 10)}})
				require.NoError(t, s.Close())
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "entry 16 is damaged",
		}, {
			name: "an older copy without the sync mark",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entry(16, 1, 10)))
				old := disk.Content(newestOn(disk))
				require.NoError(t, s.Close())
				disk.Replace(newestOn(disk), old)
			},
			result: sound,
		}, {
			name: "the newest segment as it was when it was begun",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(16, 27, 1, 1000)...))
				content := disk.Content(newestOn(disk))
				clear(content[headerSize:])
				disk.Replace(newestOn(disk), content)
			},
			result: unseen, // less than the step since it was begun
		}, {
			name: "the newest segment is missing",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(16, 29, 1, 1000)...))
				require.Len(t, segmentsOn(disk), 2)
				disk.Lose(newestOn(disk))
			},
			result: renewed, detail: "its newest segment is missing",
		}, {
			name: "the newest segment is missing, that of a reset",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := contents(disk)
				require.NoError(t, s.Reset(100, 3, 50, segment.HardState{Term: 3, Commit: 100}, []byte("state")))
				for _, name := range disk.Names() {
					if name != watermarkFile {
						disk.Lose(name)
					}
				}
				for name, content := range old {
					if name != watermarkFile {
						disk.Replace(name, []byte(content))
					}
				}
			},
			result: renewed, detail: "its newest segment is missing",
		}, {
			name: "the newest two segments are missing",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(16, 40, 1, 1000)...))
				disk.Lose(newestOn(disk))
				disk.Lose(newestOn(disk))
			},
			result: renewed, detail: "its newest segment is missing",
		}, {
			name: "the newest segment is cut short",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				name := newestOn(disk)
				disk.Replace(name, disk.Content(name)[:framesIn(disk.Content(name))[3].Position])
			},
			result: renewed, detail: "or damaged there",
		}, {
			name: "the payload of the last entry, which the durable watermark knows",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				write(t, s, synced(entry(16, 2, 5000)))
				flipPayload(t, disk, "entry", 16)
			},
			result: repaired, detail: "payload of entry",
		}, {
			name: "the frame header of the last entry, which the durable watermark knows",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				write(t, s, synced(entry(16, 2, 5000)))
				flipHeader(t, disk, "entry", 16)
			},
			result: renewed, detail: "before what was known to be durable",
		}, {
			name: "the newest vote",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				flipPayload(t, disk, "hard state", 15)
			},
			result: renewed, detail: "the newest hard state may be lost with it",
		}, {
			name: "the last entry, which the durable watermark does not know",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				write(t, s, synced(entry(16, 2, 100)))
				flipPayload(t, disk, "entry", 16)
			},
			result: unseen,
		}, {
			name: "the durable watermark is missing",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				disk.Lose(watermarkFile)
			},
			result: sound, detail: "a new one is written",
		}, {
			name: "both slots of the durable watermark are damaged",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				disk.FlipBit(watermarkFile, 30)
				disk.FlipBit(watermarkFile, 4096+30)
			},
			result: sound, detail: "a new one is written",
		}, {
			name: "the durable watermark is cut short",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, promise(2, 1))
				disk.Replace(watermarkFile, disk.Content(watermarkFile)[:5000])
			},
			result: sound, detail: "a new one is written",
		}, {
			name: "the durable watermark is an older copy",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := disk.Content(watermarkFile)
				write(t, s, promise(2, 1))
				write(t, s, synced(entries(16, 40, 2, 1000)...))
				disk.Replace(watermarkFile, old)
			},
			result: sound,
		}, {
			name: "a torn slot leaves the older one, which is no reason",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				before := disk.Content(watermarkFile)
				write(t, s, promise(2, 1))
				tearSlot(t, disk, before)
			},
			result: sound,
		}, {
			name: "a torn slot leaves the older one, which knows enough",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				old := disk.Content(newestOn(disk))
				write(t, s, promise(2, 1))
				before := disk.Content(watermarkFile)
				write(t, s, promise(3, 0))
				tearSlot(t, disk, before)
				disk.Replace(newestOn(disk), old)
			},
			result: renewed, detail: "term 2, vote 1",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			disk := faultdisk.New(7)
			s := create(t, disk)
			write(t, s, synced(entries(2, 16, 1, 100)...))
			row.damage(t, disk, s)
			disk.Restart()
			before := contents(disk)

			var logged bytes.Buffer
			o := options(disk)
			o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			s, err := repair.Open(disk, dir, o)
			report := survey(t, disk)
			_, replicaRepair := repair.Begin(context.Background(), disk, dir, o)
			if row.result == sound || row.result == unseen {
				require.NoError(t, err)
				require.NoError(t, replicaRepair)
				for _, d := range report.Damage {
					require.Equal(t, watermarkFile, d.File)
				}
				require.Contains(t, logged.String(), row.detail)
				// It continues, and from the next clean stop on the durable watermark knows.
				last := s.LastIndex()
				write(t, s, synced(entry(last+1, 9, 10)))
				old := disk.Content(newestOn(disk))
				write(t, s, synced(entry(last+2, 9, 10)))
				require.NoError(t, s.Close())
				disk.Restart()
				require.NoError(t, open(t, disk).Close())
				disk.Restart()
				disk.Replace(newestOn(disk), old)
				_, err = repair.Open(disk, dir, options(disk))
				require.ErrorContains(t, err, "before what was known to be durable")
				return
			}
			var corrupt *segment.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Contains(t, err.Error(), row.detail)
			require.Equal(t, row.result == renewed, corrupt.Renew)
			require.Equal(t, before, contents(disk), "nothing is changed")
			require.NotEmpty(t, report.Damage)
			require.Equal(t, corrupt.Detail, report.Damage[len(report.Damage)-1].Detail)
			if row.result == renewed {
				require.ErrorIs(t, replicaRepair, repair.ErrNotRepairable)
			} else {
				require.NoError(t, replicaRepair)
			}
			if !strings.Contains(corrupt.File, "*") {
				require.Contains(t, disk.Names(), corrupt.File)
			}
		})
	}
}

// tearSlot undoes half of what was written to the durable watermark since it was before.
func tearSlot(t *testing.T, disk *faultdisk.Disk, before []byte) {
	t.Helper()
	content := disk.Content(watermarkFile)
	torn := false
	for at := range content {
		if content[at] != before[at] && at%4096 >= 40 {
			content[at], torn = before[at], true
		}
	}
	require.True(t, torn)
	disk.Replace(watermarkFile, content)
}

// The durable watermark costs an append nothing but one sync in so many bytes.
func TestAppendsSyncTheWatermarkOnceInSoManyBytes(t *testing.T) {
	disk := faultdisk.New(1)
	o := options(disk)
	o.SegmentBytes, o.WatermarkBytes = 64<<20, 0
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	syncs, opens := disk.Calls(faultdisk.Datasync), disk.Calls(faultdisk.Open)
	const appends, size = 170, 100_000
	for i := range uint64(appends) {
		write(t, s, synced(entry(2+i, 1, size)))
	}
	logged := appends * size / (8 << 20)
	require.Equal(t, appends+logged, disk.Calls(faultdisk.Datasync)-syncs)
	require.Equal(t, opens, disk.Calls(faultdisk.Open), "it is open already")
	require.NoError(t, s.Close())
}

func TestALogWithoutAWatermarkGetsOneWhenItIsOpened(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	old := disk.Content(newestOn(disk))
	write(t, s, synced(entries(2, 10, 1, 100)...))
	require.NoError(t, s.Close())
	disk.Lose(watermarkFile)
	disk.Restart()
	open(t, disk)
	disk.PowerCut(faultdisk.Nothing)
	disk.Replace(newestOn(disk), old)
	_, err := repair.Open(disk, dir, options(disk))
	require.ErrorContains(t, err, "before what was known to be durable")
}

// A log without a durable watermark votes and trims on a full disk like any other.
func TestAFullDiskDoesNotEndALogForItsWatermark(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	require.NoError(t, s.Close())
	disk.Lose(watermarkFile)
	disk.Restart()
	disk.Capacity(disk.Used())
	s = open(t, disk)
	write(t, s, promise(2, 1))
	require.NotContains(t, disk.Names(), watermarkFile)
	disk.Capacity(0)
	write(t, s, promise(2, 1))
	write(t, s, promise(3, 1))
	require.Contains(t, disk.Names(), watermarkFile)
	require.NoError(t, s.Close())
}

func TestAWatermarkThatCannotBeWrittenEndsTheLog(t *testing.T) {
	for _, op := range []faultdisk.Op{faultdisk.Write, faultdisk.Datasync} {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			disk := faultdisk.New(1)
			s := create(t, disk)
			disk.FailNth(op, 2, syscall.EIO) // the first write and sync are those of the segment
			_, err := s.Write(promise(2, 1))
			require.ErrorIs(t, err, syscall.EIO)
			require.ErrorContains(t, err, "watermark")
			_, again := s.Write(synced(entry(2, 1, 10)))
			require.Equal(t, err, again)
			require.Error(t, s.Close())
			disk.PowerCut(faultdisk.Nothing)
			s = open(t, disk)
			require.Equal(t, uint64(2), s.HardState().Term)
			require.NoError(t, s.Close())
		})
	}
}

// A repaired newest segment is another file, with its frames elsewhere.
func TestTheWatermarkKnowsTheSegmentThatWasRepaired(t *testing.T) {
	c := newCopies(t, 3, 60)
	disk := c.disks[0]
	newest := newestOn(disk)
	flip := frameIn(t, disk, newest, "entry", 0)
	disk.FlipBit(newest, flip.Position+80)
	damaged := disk.Content(newest)
	_, err := repairFiles(disk, c.giver(t), c.commit, 4000)
	require.NoError(t, err)
	disk.Restart()
	disk.Replace(newest, damaged)
	// Even without its damage the old file is not what counts any more.
	disk.FlipBit(newest, flip.Position+80)
	_, err = repair.Open(disk, dir, options(disk))
	require.ErrorContains(t, err, "another file")
}

// A watermark that was written, and not synced, when the process was killed is found by
// the next, which relies on it.
func TestAWatermarkThatWasFoundWhenTheLogWasOpenedOutlastsAPowerCut(t *testing.T) {
	disk := faultdisk.New(7)
	s := create(t, disk)
	old := disk.Content(newestOn(disk))
	disk.FailNth(faultdisk.Datasync, 2, syscall.EIO) // the first is that of the segment
	_, err := s.Write(promise(5, 2))
	require.ErrorContains(t, err, "watermark")
	disk.Restart() // the process was killed; what it wrote is still there
	s = open(t, disk)
	require.EqualValues(t, 2, s.HardState().Vote)
	disk.PowerCut(faultdisk.Nothing)
	disk.Replace(newestOn(disk), old)
	_, err = repair.Open(disk, dir, options(disk))
	require.ErrorContains(t, err, "before what was known to be durable")
}

// A vote that was written, and not synced, when the process was killed is found by
// the next, which may act on it without writing it again. So the durable watermark is written when
// the log is opened.
func TestTheWatermarkKnowsAVoteThatWasFoundWhenTheLogWasOpened(t *testing.T) {
	disk := faultdisk.New(7)
	s := create(t, disk)
	write(t, s, synced(entries(2, 16, 1, 100)...))
	old := disk.Content(newestOn(disk))
	disk.FailNth(faultdisk.Datasync, 1, syscall.EIO)
	_, err := s.Write(promise(5, 2))
	require.Error(t, err)
	disk.Restart() // the process was killed; what it wrote is still there
	s = open(t, disk)
	if s.HardState().Vote != 2 {
		t.Fatal("the vote was not found")
	}
	disk.PowerCut(faultdisk.Nothing)
	disk.Replace(newestOn(disk), old)
	_, err = repair.Open(disk, dir, options(disk))
	require.ErrorContains(t, err, "before what was known to be durable")
}
