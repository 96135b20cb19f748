package runtime

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
)

// rotting is a small log alone, on a disk on which its only snapshot rots.
type rotting struct {
	t    *testing.T
	disk *faultdisk.Disk
	log  *store.Store
	r    *Stepped
	now  int64
}

const rottingDir = "data/log"

func (l *rotting) options() store.Options {
	return store.Options{Manual: true, SegmentBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)}
}

func (l *rotting) open() {
	var err error
	l.log, err = repair.Open(l.disk, rottingDir, l.options())
	require.NoError(l.t, err)
	l.r, err = OpenStepped(Options{ID: 1, Log: l.log, HardState: l.log.HardState(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(l.t, err)
	for !l.r.Status().Leading {
		l.round()
	}
}

// round lets the replica do all that it has to do but the upkeep.
func (l *rotting) round() {
	for {
		l.now++
		l.r.Round(core.Now{Monotonic: l.now, Unix: 1_700_000_000_000 + l.now})
		if !l.r.Unwritten() {
			return
		}
		require.True(l.t, l.r.Write())
	}
}

func (l *rotting) append(text string) {
	answered := false
	l.r.Append(&core.Request{Append: values(l.t, text), Done: func(a sequence.Answer) {
		require.Nil(l.t, a.Refusal)
		answered = true
	}})
	l.round()
	require.True(l.t, answered)
}

func (l *rotting) keep() {
	for l.r.Unkept() {
		l.r.Keep()
	}
}

func (l *rotting) snapshots(suffix string) (names []string) {
	for _, name := range l.disk.NamesIn(rottingDir) {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

// requireRecords reads the log from its first record on.
func (l *rotting) requireRecords(count int) {
	reader := l.r.NewReader(0)
	defer reader.Close()
	for seen := 0; seen < count; {
		chunk, err := reader.Next(record.Offset(count), 1<<20)
		require.NoError(l.t, err)
		for i := range chunk.Entries {
			if f := &chunk.Entries[i]; f.Count > 0 {
				require.Equal(l.t, seen, int(f.First))
				require.Contains(l.t, string(f.Payload), fmt.Sprint("record ", seen))
				seen++
			}
		}
	}
	_, end, err := l.r.Tail().Bounds()
	require.NoError(l.t, err)
	require.Equal(l.t, count, int(end))
}

// A scrub finds the only snapshot of a small log damaged. The core saves another at
// once; whatever step of that the power fails at, the log opens with all its records.
func TestTheOnlySnapshotRots(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for n := 1; ; n++ {
				l := &rotting{t: t, disk: faultdisk.New(uint64(n))}
				created, err := store.Create(l.disk, rottingDir, l.options(), bootstrapOf(t, 1))
				require.NoError(t, err)
				require.NoError(t, created.Close())
				l.open()
				for i := range 5 {
					l.append(fmt.Sprint("record ", i))
				}
				rotten := l.snapshots(".snap")
				require.Len(t, rotten, 1)
				l.disk.FlipStored(rotten[0], 40)
				var found error
				require.NoError(t, l.log.Scrub(nil, func(err error) { found = err }))
				require.ErrorIs(t, found, segment.ErrNoSnapshot)
				require.Equal(t, rotten, l.snapshots(".snap"), "it stays until there is another")

				l.r.RenewSnapshot()
				l.round()
				l.disk.StopAt(n)
				l.keep()
				stopped := l.disk.Stopped()
				l.disk.PowerCut(remains)
				l.open()
				l.requireRecords(5)
				l.append("record 5")
				l.keep()
				l.disk.PowerCut(faultdisk.Nothing)
				l.open()
				l.requireRecords(6)
				require.NoError(t, l.log.Scrub(nil, func(err error) { found = err }))
				_, _, _, err = l.log.LoadSnapshot()
				require.NoError(t, err)
				if !stopped {
					require.Equal(t, []string{rotten[0] + ".bad"}, l.snapshots(".bad"))
					require.Greater(t, n, 4)
					return
				}
			}
		})
	}
}
