package segment_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// segmentsOn returns the paths of the segment files, oldest first.
func segmentsOn(disk *faultdisk.Disk) []string { return filesOn(disk, ".seg") }

func filesOn(disk *faultdisk.Disk, suffix string) []string {
	var found []string
	for _, name := range disk.Names() {
		if strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	return found
}

// frameOf returns where the last frame of a kind and index is.
func frameOf(t *testing.T, disk *faultdisk.Disk, kind string, index uint64) (file string, at storedFrame) {
	t.Helper()
	for _, name := range segmentsOn(disk) {
		for _, f := range framesIn(disk.Content(name)) {
			if f.Kind == kind && f.Index == index {
				file, at = name, f
			}
		}
	}
	require.NotEmpty(t, file, "no %s frame of index %d", kind, index)
	return file, at
}

// flipPayload flips a bit in the payload of the last frame of a kind and index.
func flipPayload(t *testing.T, disk *faultdisk.Disk, kind string, index uint64) {
	t.Helper()
	file, f := frameOf(t, disk, kind, index)
	disk.FlipBit(file, f.Position+80)
}

// flipHeader flips a bit in its header.
func flipHeader(t *testing.T, disk *faultdisk.Disk, kind string, index uint64) {
	t.Helper()
	file, f := frameOf(t, disk, kind, index)
	disk.FlipBit(file, f.Position+20)
}

// The table of recovery. Each row writes a log, damages it, and says what
// Open makes of it: the entries [2, last] of term 1, or corruption of which
// entries, and whether it can be repaired.
func TestRecovery(t *testing.T) {
	rows := []struct {
		name    string
		damage  func(t *testing.T, disk *faultdisk.Disk, s *store.Store)
		last    uint64
		corrupt string
	}{
		{
			name: "an empty log",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				disk.PowerCut(faultdisk.Nothing)
			},
			last: 1,
		}, {
			name: "what was synced survives a power cut",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				disk.PowerCut(faultdisk.Nothing)
			},
			last: 9,
		}, {
			name: "what was not synced may be gone",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, []segment.Write{{Entries: entries(10, 12, 1, 100)}})
				disk.PowerCut(faultdisk.Nothing)
			},
			last: 9,
		}, {
			name: "what was not synced may be there",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, []segment.Write{{Entries: entries(2, 12, 1, 100)}})
				disk.PowerCut(faultdisk.Everything)
			},
			last: 11,
		}, {
			name: "the last frame of the last write is torn",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, []segment.Write{{Entries: entries(10, 12, 1, 100)}})
				disk.Restart()
				flipPayload(t, disk, "entry", 11)
			},
			last: 10,
		}, {
			name: "two frames of one write, the first torn",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, []segment.Write{{Entries: entries(10, 12, 1, 100)}})
				disk.Restart()
				flipPayload(t, disk, "entry", 10)
			},
			last: 9,
		}, {
			name: "two frames of one write, the header of the first torn",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, []segment.Write{{Entries: entries(10, 12, 1, 100)}})
				disk.Restart()
				flipHeader(t, disk, "entry", 10)
			},
			last: 9,
		}, {
			name: "two writes without a sync, the first torn",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, []segment.Write{{Entries: entries(10, 12, 1, 100)}})
				write(t, s, []segment.Write{{Entries: entries(12, 14, 1, 100)}})
				disk.Restart()
				flipPayload(t, disk, "entry", 10)
			},
			last: 9,
		}, {
			name: "a flip in the frame before the last write",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, synced(entry(10, 1, 100)))
				disk.Restart()
				flipPayload(t, disk, "entry", 9)
			},
			corrupt: "[9, 9]",
		}, {
			name: "a flip in the length of a frame before the last write",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				write(t, s, synced(entry(10, 1, 100)))
				disk.Restart()
				file, f := frameOf(t, disk, "entry", 5)
				disk.Change(file, f.Position+3, func(byte) byte { return 0xff })
			},
			corrupt: "[5, 5] renew",
		}, {
			name: "a flip in the first frame",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entry(2, 1, 100)))
				write(t, s, synced(entries(3, 10, 1, 100)...))
				disk.Restart()
				flipHeader(t, disk, "entry", 2)
			},
			corrupt: "[2, 2] renew",
		}, {
			name: "a flip in the last synced frame looks like a torn tail",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				disk.PowerCut(faultdisk.Nothing)
				flipPayload(t, disk, "entry", 9)
			},
			last: 8,
		}, {
			name: "a flip in the last synced frame after the sync mark",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				require.NoError(t, s.Mark())
				disk.Restart()
				flipPayload(t, disk, "entry", 9)
			},
			corrupt: "[9, 9]",
		}, {
			name: "a flip in the last synced frame after a clean stop",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				require.NoError(t, s.Close())
				disk.PowerCut(faultdisk.Nothing)
				flipPayload(t, disk, "entry", 9)
			},
			corrupt: "[9, 9]",
		}, {
			name: "a flip in the sync mark itself",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				require.NoError(t, s.Close())
				disk.Restart()
				flipPayload(t, disk, "mark", 9)
			},
			last: 9,
		}, {
			name: "a flip in a hard state that a later write vouches for",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, []segment.Write{{HardState: &segment.HardState{Term: 1, Vote: 4, Commit: 1}, MustSync: true}})
				write(t, s, synced(entry(2, 1, 100)))
				disk.Restart()
				file, f := frameOf(t, disk, "hard state", 1)
				disk.FlipBit(file, f.Position+75)
			},
			corrupt: "[0, 0] renew",
		}, {
			name: "a flip in the header of the active segment",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				disk.Restart()
				disk.FlipBit(segmentsOn(disk)[0], 50)
			},
			corrupt: "[2, 2] renew",
		}, {
			name: "a segment begun and not written to",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 12, 1, 1000)...))
				// Frame and footer, sync; header, sync, name; durable watermark, sync;
				// frames.
				disk.StopAt(9)
				_, err := s.Write(synced(entries(12, 16, 1, 1000)...))
				require.Error(t, err)
				disk.PowerCut(faultdisk.Nothing)
				require.Len(t, segmentsOn(disk), 1, "its name is lost")
			},
			last: 12,
		}, {
			name: "torn across a roll: the new segment has a name and no frame",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 12, 1, 1000)...))
				write(t, s, []segment.Write{{Entries: entries(12, 16, 1, 1000)}})
				require.Len(t, segmentsOn(disk), 2)
				disk.PowerCut(faultdisk.Nothing)
			},
			last: 12,
		}, {
			name: "the name of the newest segment is lost, with acknowledged entries in it",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 12, 1, 1000)...))
				write(t, s, synced(entries(12, 16, 1, 1000)...))
				require.Len(t, segmentsOn(disk), 2)
				disk.PowerCut(faultdisk.Nothing)
				require.Len(t, segmentsOn(disk), 1)
			},
			last: 15,
		}, {
			name: "torn across a roll: the first frame of the new segment",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 12, 1, 1000)...))
				write(t, s, []segment.Write{{Entries: entries(12, 16, 1, 1000)}})
				disk.Restart()
				flipPayload(t, disk, "entry", 13)
			},
			last: 12,
		}, {
			name: "a stale frame of a recycled file behind the tail",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				saveStarts(t, s, write(t, s, synced(entries(2, 40, 1, 1000)...)))
				require.NoError(t, trim(s, 40))
				require.NotEmpty(t, filesOn(disk, ".spare"))
				// The recycled file holds frames of the same sizes, so one
				// begins exactly where the new tail is.
				for i := uint64(40); len(filesOn(disk, ".spare")) > 0; i++ {
					write(t, s, synced(entry(i, 1, 1000)))
				}
				active := segmentsOn(disk)[len(segmentsOn(disk))-1]
				tail := framesIn(disk.Content(active))
				end := tail[len(tail)-1].Position + tail[len(tail)-1].Size
				require.Equal(t, byte(0xe8), disk.Content(active)[end], "a frame of 1000 bytes lies behind")
				disk.PowerCut(faultdisk.Nothing)
			},
			last: 57,
		}, {
			name: "a snapshot that was not finished",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				disk.StopAt(3) // create, write, not synced
				require.Error(t, s.SaveSnapshot(5, 1, []byte("state at 5")))
				disk.PowerCut(faultdisk.Some)
			},
			last: 9,
		}, {
			name: "a snapshot damaged: the one before serves",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				require.NoError(t, s.SaveSnapshot(5, 1, []byte("state at 5")))
				disk.Restart()
				disk.FlipBit(filesOn(disk, ".snap")[1], 50)
			},
			last: 9,
		}, {
			name: "all snapshots damaged, all entries there",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				disk.Restart()
				disk.FlipBit(filesOn(disk, ".snap")[0], 50)
			},
			last: 9,
		}, {
			name: "all snapshots missing, all entries there",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				disk.Restart()
				require.NoError(t, disk.Remove(filesOn(disk, ".snap")[0]))
			},
			last: 9,
		}, {
			name: "all snapshots damaged after a reset",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 10, 1, 100)...))
				require.NoError(t, s.Reset(20, 1, firstOf(21), segment.HardState{Term: 1, Commit: 20}, []byte("state at 20")))
				disk.Restart()
				disk.FlipBit(filesOn(disk, ".snap")[0], 50)
			},
			corrupt: "[1, 20] renew",
		}, {
			name: "a segment in the middle is missing",
			damage: func(t *testing.T, disk *faultdisk.Disk, s *store.Store) {
				write(t, s, synced(entries(2, 60, 1, 1000)...))
				disk.Restart()
				require.NoError(t, disk.Remove(segmentsOn(disk)[1]))
			},
			corrupt: "[13, 23]",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			disk := faultdisk.New(7)
			row.damage(t, disk, create(t, disk))
			if row.corrupt != "" {
				before := contents(disk)
				_, err := repair.Open(disk, dir, options(disk))
				var corrupt *segment.CorruptError
				require.ErrorAs(t, err, &corrupt)
				found := fmt.Sprintf("[%d, %d]", corrupt.FirstIndex, corrupt.LastIndex)
				if corrupt.Renew {
					found += " renew"
				}
				require.Equal(t, row.corrupt, found, err)
				if !strings.Contains(corrupt.File, "*") {
					require.Contains(t, disk.Names(), corrupt.File)
				}
				require.Equal(t, before, contents(disk), "Open changed a file of a corrupt log")
				return
			}
			s := open(t, disk)
			first := s.FirstIndex()
			want := entries(first, row.last+1, 1, 0)
			for i := range want {
				want[i] = entry(want[i].Index, 1, sizeOf(t, s, want[i].Index))
			}
			requireEntries(t, s, want)

			// Whatever was found, writing continues, and what is written survives.
			for i := row.last + 1; i < row.last+30; i++ {
				want = append(want, entry(i, 1, 700))
				write(t, s, synced(want[len(want)-1]))
			}
			requireEntries(t, s, want)
			disk.PowerCut(faultdisk.Nothing)
			s = open(t, disk)
			requireEntries(t, s, want)
			require.NoError(t, s.Close())
		})
	}
}

// sizeOf is how long entry i was written: rows differ in that.
func sizeOf(t *testing.T, s *store.Store, i uint64) int {
	t.Helper()
	frames, err := s.Entries(i, i+1, 0)
	require.NoError(t, err)
	return len(frames[0].Payload)
}

func contents(disk *faultdisk.Disk) map[string]string {
	files := map[string]string{}
	for _, name := range disk.Names() {
		files[name] = string(disk.Content(name))
	}
	return files
}

func TestATornTailIsCutAndWritingGoesOnInANewSegment(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 10, 1, 100)...))
	write(t, s, []segment.Write{{Entries: entries(10, 12, 1, 100)}})
	disk.Restart()
	flipPayload(t, disk, "entry", 10)
	torn := disk.Content(segmentsOn(disk)[0])

	s = open(t, disk)
	require.Len(t, segmentsOn(disk), 1, "Open begins no segment")
	result := write(t, s, synced(entry(10, 2, 100)))
	require.Equal(t, []uint64{10}, result.Rolled)
	require.Len(t, segmentsOn(disk), 2)
	require.Equal(t, torn, disk.Content(segmentsOn(disk)[0]), "the torn segment stays as it was")
	want := append(entries(2, 10, 1, 100), entry(10, 2, 100))
	requireEntries(t, s, want)

	// The debris behind the cut is not looked at again, nor does the header
	// of the torn segment say where it ends: its successor does.
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	requireEntries(t, s, want)
	require.NoError(t, s.Close())
}

func TestATornHeaderAloneIsATornTailToo(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 10, 1, 100)...))
	write(t, s, []segment.Write{{Entries: entries(10, 11, 1, 100)}})
	disk.Restart()
	flipHeader(t, disk, "entry", 10)
	s = open(t, disk)
	require.Equal(t, uint64(9), s.LastIndex())
	require.Equal(t, []uint64{10}, write(t, s, synced(entry(10, 1, 100))).Rolled)
	require.NoError(t, s.Close())
}

func TestACleanTailIsWrittenOn(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 10, 1, 100)...))
	require.NoError(t, s.Close())
	disk.Restart()
	s = open(t, disk)
	require.Empty(t, write(t, s, synced(entry(10, 1, 100))).Rolled)
	require.NoError(t, s.Close())
}

// The directory could not be synced, the process died of it, and the next one
// sees the name all the same. It must not build on it as it is.
func TestANameThatWasNotSyncedIsNotTrustedByTheNextStart(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	disk.FailNth(faultdisk.SyncDir, 1, errDisk)
	last, err := uint64(1), error(nil)
	for err == nil {
		last++
		_, err = s.Write(synced(entry(last, 1, 1000)))
	}
	require.ErrorIs(t, err, errDisk)
	require.Len(t, segmentsOn(disk), 2)
	disk.Restart()
	s = open(t, disk)
	write(t, s, synced(entry(last, 1, 1000)))
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	requireEntries(t, s, entries(2, last+1, 1, 1000))
}

func TestTwoSegmentsMayBeginWithTheSameIndex(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, []segment.Write{{Entries: entries(2, 4, 1, 100)}})
	disk.Restart()
	flipPayload(t, disk, "entry", 2)
	s = open(t, disk)
	write(t, s, synced(entry(2, 2, 100)))
	names := segmentsOn(disk)
	require.Equal(t, dir+"/00000000000000000001-00000000000000000002.seg", names[0])
	require.Equal(t, dir+"/00000000000000000002-00000000000000000002.seg", names[1])
	disk.Restart()
	s = open(t, disk)
	requireEntries(t, s, []segment.Entry{entry(2, 2, 100)})
}

func TestAFlippedBitInAnOldSegmentIsNamedAndNotServed(t *testing.T) {
	for _, where := range []string{"payload", "header"} {
		t.Run(where, func(t *testing.T) {
			disk := faultdisk.New(1)
			s := create(t, disk)
			write(t, s, synced(entries(2, 60, 1, 1000)...))
			require.NoError(t, s.Close())
			disk.Restart()
			if where == "payload" {
				flipPayload(t, disk, "entry", 8)
			} else {
				flipHeader(t, disk, "entry", 8)
			}
			s = open(t, disk)
			cursor, err := s.NewCursor(0)
			require.NoError(t, err)
			frames, err := cursor.Next(1<<40, 1<<20)
			require.NoError(t, err)
			require.Len(t, frames, 6, "what lies before is served")
			for range 2 {
				_, err = cursor.Next(1<<40, 1<<20)
				var corrupt *segment.CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Equal(t, segmentsOn(disk)[0], corrupt.File)
				require.Equal(t, uint64(8), corrupt.FirstIndex)
				require.Equal(t, uint64(8), corrupt.LastIndex)
				require.NotZero(t, corrupt.Position)
			}
			cursor.Close()
			_, err = s.Entries(8, 9, 100)
			require.ErrorAs(t, err, new(*segment.CorruptError))
			_, err = s.Entries(30, 31, 100)
			require.NoError(t, err, "other segments are served")
			write(t, s, synced(entry(60, 1, 10)))
			require.NoError(t, s.Close())
		})
	}
}

func TestADamagedFooterCostsAScanOnly(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	want := entries(2, 60, 1, 1000)
	write(t, s, synced(want...))
	require.NoError(t, s.Close())
	disk.Restart()
	for _, name := range segmentsOn(disk)[:2] {
		frames := framesIn(disk.Content(name))
		footer := frames[len(frames)-1]
		require.Equal(t, "footer", footer.Kind)
		disk.FlipBit(name, footer.Position+90)
	}
	s = open(t, disk)
	requireEntries(t, s, want)
	require.NoError(t, s.Close())
}

func TestTheNewestHardStateCounts(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	hard := func(term, vote, commit uint64) *segment.HardState {
		return &segment.HardState{Term: term, Vote: vote, Commit: commit}
	}
	write(t, s, []segment.Write{{Entries: entries(2, 10, 1, 100), HardState: hard(1, 1, 3), MustSync: true}})
	write(t, s, []segment.Write{{HardState: hard(2, 3, 5), MustSync: true}})
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	require.Equal(t, *hard(2, 3, 5), s.HardState())

	// Rolled: the copy in the header counts until a frame follows.
	write(t, s, synced(entries(10, 25, 1, 1000)...))
	require.Greater(t, len(segmentsOn(disk)), 1)
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	require.Equal(t, *hard(2, 3, 5), s.HardState())

	// A torn hard state gives way to the one before.
	write(t, s, []segment.Write{{HardState: hard(9, 9, 9)}})
	disk.Restart()
	file, f := frameOf(t, disk, "hard state", 24)
	disk.FlipBit(file, f.Position+75)
	s = open(t, disk)
	require.Equal(t, *hard(2, 3, 5), s.HardState())
}

func TestTheCommitIndexIsKeptWithinTheLog(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, []segment.Write{{Entries: entries(2, 10, 1, 100), HardState: &segment.HardState{Term: 1, Commit: 1}, MustSync: true}})
	write(t, s, []segment.Write{{HardState: &segment.HardState{Term: 1, Commit: 77}, MustSync: true}})
	disk.Restart()
	s = open(t, disk)
	require.Equal(t, uint64(9), s.HardState().Commit)
}

func TestAFailedSyncIsNotTrustedByTheNextStart(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 5, 1, 100)...))
	disk.FailNth(faultdisk.Datasync, 1, errDisk)
	_, err := s.Write(synced(entries(5, 9, 1, 100)...))
	require.ErrorIs(t, err, errDisk)

	// The process starts again and finds the entries in the page cache, which
	// will not write them: they count from now on, so they have to be written.
	disk.Restart()
	s = open(t, disk)
	requireEntries(t, s, entries(2, 9, 1, 100))
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	requireEntries(t, s, entries(2, 9, 1, 100))
}

func TestANewLogThatDidNotGetItsSegmentIsNoLog(t *testing.T) {
	for n := 1; ; n++ {
		disk := faultdisk.New(uint64(n))
		disk.StopAt(n)
		_, err := store.Create(disk, dir, options(disk), bootstrap())
		if err == nil {
			return
		}
		disk.PowerCut(faultdisk.Some)
		s, err := repair.Open(disk, dir, options(disk))
		if err != nil {
			require.ErrorIs(t, err, segment.ErrNoLog, "operation %d", n)
			s, err = store.Create(disk, dir, options(disk), bootstrap())
			require.NoError(t, err, "operation %d", n)
		}
		requireEntries(t, s, nil)
		_, err = store.Create(disk, dir, options(disk), bootstrap())
		require.Error(t, err, "a log is not made twice")
	}
}

func TestNamesThatAreNotOursAreLeftAlone(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 5, 1, 100)...))
	require.NoError(t, s.Close())
	for _, name := range []string{"1-2.seg", "notes.txt", "x.snap", "lost+found"} {
		_, err := disk.Create(path.Join(dir, name))
		require.NoError(t, err)
	}
	disk.Restart()
	s = open(t, disk)
	requireEntries(t, s, entries(2, 5, 1, 100))
	require.Contains(t, disk.Names(), dir+"/notes.txt")
}

// Power goes between two frames of a group, which are written in order: what is left is a
// part of the entries with the hard state of before, and never a hard state that knows of
// entries which are not there. The replica decides what follows from that.
func TestAGroupIsTornBetweenItsFrames(t *testing.T) {
	group := []segment.Write{
		{HardState: &segment.HardState{Term: 1, Commit: 9}},
		{Entries: entries(10, 13, 2, 60), HardState: &segment.HardState{Term: 2, Vote: 7, Commit: 11}, MustSync: true},
	}
	for kept := range 5 {
		disk := faultdisk.New(1)
		s := create(t, disk)
		write(t, s, synced(entries(2, 12, 1, 60)...))
		file, at := frameOf(t, disk, "entry", 11)
		disk.BeforeSync(func(string) error { return faultdisk.ErrStopped })
		_, err := s.Write(group)
		require.ErrorIs(t, err, faultdisk.ErrStopped)
		disk.BeforeSync(nil)
		cut := at.Position + at.Size
		for range kept {
			for _, f := range framesIn(disk.Content(file)) {
				if f.Position == cut {
					cut += f.Size
					break
				}
			}
		}
		for position := cut; position < int64(len(disk.Content(file))); position++ {
			disk.Change(file, position, func(byte) byte { return 0 })
		}
		disk.Restart()
		s = open(t, disk)
		want := segment.HardState{Term: 1, Commit: 1}
		if kept == 4 {
			want = segment.HardState{Term: 2, Vote: 7, Commit: 11}
		}
		require.Equal(t, want, s.HardState(), "%d frames of four", kept)
		last := []uint64{11, 10, 11, 12, 12}[kept]
		require.Equal(t, last, s.LastIndex(), "%d frames of four", kept)
	}
}
