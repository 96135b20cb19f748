package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// A scrub sees what has rotted on the disk under what the page cache still has as
// it was, in every file of a log that runs. Segments are the replica's to repair;
// the rest is repaired at once.
func TestAScrubSeesTheDisk(t *testing.T) {
	flip := func(suffix string, n int, at int64) func(disk *faultdisk.Disk) string {
		return func(disk *faultdisk.Disk) string {
			names := namesIn(disk, dir, suffix)
			if n < 0 {
				n += len(names)
			}
			at := at
			if at < 0 { // of the last byte that is not zero
				content := disk.Content(names[n])
				for at += int64(len(content)); content[at] == 0; at-- {
				}
			}
			disk.FlipStored(names[n], at)
			return names[n]
		}
	}
	frame := func(kind string, index uint64) func(disk *faultdisk.Disk) string {
		return func(disk *faultdisk.Disk) string {
			for _, name := range segmentsOn(disk) {
				for _, f := range framesIn(disk.Content(name)) {
					if f.Kind == kind && (f.Index == index || index == 0) {
						disk.FlipStored(name, f.Position+80)
						return name
					}
				}
			}
			panic("no such frame")
		}
	}
	rows := []struct {
		name   string
		rot    func(disk *faultdisk.Disk) string
		repair bool // by the log itself
	}{
		{"the header of a segment", flip(".seg", 1, 50), false},
		{"an entry of a full segment", frame("entry", 25), false},
		{"a hard state of a full segment", frame("hard state", 25), false},
		{"the footer of a segment", frame("footer", 0), false},
		{"the header of the newest segment", flip(".seg", -1, 50), false},
		{"the newest entry", frame("entry", exchangeEntries-1), false},
		{"the newest hard state", frame("hard state", exchangeEntries-1), false},
		{"the oldest snapshot", flip(".snap", 0, 100), true},
		{"the newest snapshot", flip(".snap", -1, 20), true},
		{"the begin mark", flip(".begin", 0, 12), true},
		{"both slots of the watermark", func(disk *faultdisk.Disk) string {
			disk.FlipStored(watermarkFile, 20)
			disk.FlipStored(watermarkFile, 4096+20)
			return watermarkFile
		}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			disk := faultdisk.New(7)
			owned(t, disk, dir, ours)
			s := openOurs(t, disk)
			require.NoError(t, s.Check(none(t)))
			read := 0
			pace := func(bytes int) error {
				read += bytes
				return nil
			}
			require.NoError(t, s.Scrub(pace, none(t)))
			require.Greater(t, read, 30_000)
			name := row.rot(disk)
			var damage []error
			require.NoError(t, s.Scrub(nil, func(err error) { damage = append(damage, err) }))
			if !row.repair {
				var corrupt *segment.CorruptError
				require.NotEmpty(t, damage)
				require.ErrorAs(t, damage[0], &corrupt)
				require.Equal(t, name, corrupt.File)
				require.Equal(t, int64(strings.Count(row.name, "newest entry"))*(exchangeEntries-1), int64(corrupt.LastIndex)*int64(strings.Count(row.name, "newest entry")))
				require.NoError(t, s.Close())
				return
			}
			require.Empty(t, damage)
			write(t, s, promise(9, 9))
			require.NoError(t, s.Scrub(nil, none(t)))
			require.NoError(t, s.Close())
			disk.PowerCut(faultdisk.Nothing)
			requireWhole(t, disk)
		})
	}
}

// requireWhole: the files of our log are free of damage, and hold what they did.
func requireWhole(t *testing.T, disk *faultdisk.Disk) {
	t.Helper()
	report, err := repair.Survey(t.Context(), disk, dir, store.Options{Owner: ours}, nil)
	require.NoError(t, err)
	require.Empty(t, report.Damage)
	s := openOurs(t, disk)
	requireEntries(t, s, ownedEntries(s.FirstIndex(), exchangeEntries, ours))
	require.NoError(t, s.Close())
}

// The only snapshot of a log that does not have its first entries stays until
// another is durable.
func TestTheOnlySnapshotIsSetAsideBehindTheNext(t *testing.T) {
	disk := faultdisk.New(7)
	s := create(t, disk)
	require.NoError(t, s.Reset(500, 1, firstOf(501), segment.HardState{Term: 1, Commit: 500}, []byte("state at 500")))
	write(t, s, synced(entries(501, 510, 1, 100)...))
	rotten := snapshotFile(500)
	disk.FlipStored(rotten, 50)
	var found []error
	require.NoError(t, s.Scrub(nil, func(err error) { found = append(found, err) }))
	require.Len(t, found, 1)
	require.ErrorIs(t, found[0], segment.ErrNoSnapshot)
	require.Contains(t, disk.Names(), rotten)
	require.NoError(t, s.SaveSnapshot(509, 1, []byte("state at 509")))
	require.Equal(t, []string{snapshotFile(509)}, filesOn(disk, ".snap"))
	require.Equal(t, []string{rotten + ".bad"}, filesOn(disk, ".bad"))
	require.NoError(t, s.Close())
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	index, _, _, err := s.LoadSnapshot()
	require.NoError(t, err)
	require.Equal(t, uint64(509), index)
	require.NoError(t, s.Close())
}

// none fails the test where a scrub finds damage.
func none(t *testing.T) func(error) { return func(err error) { require.NoError(t, err) } }

// One pass finds what is damaged behind other damage, in segments and elsewhere.
func TestAScrubGoesOnBehindDamage(t *testing.T) {
	disk := faultdisk.New(7)
	owned(t, disk, dir, ours)
	s := openOurs(t, disk)
	segments := segmentsOn(disk)
	require.Greater(t, len(segments), 4)
	rotten := []string{segments[0], segments[1], segments[len(segments)-1]}
	for _, name := range rotten {
		for _, f := range framesIn(disk.Content(name)) {
			if f.Kind == "entry" {
				disk.FlipStored(name, f.Position+80)
				break
			}
		}
	}
	disk.Lose(segments[3]) // with its header, which states where segments[2] ends
	snapshot := namesIn(disk, dir, ".snap")[0]
	disk.FlipStored(snapshot, 100)

	found := map[string]bool{}
	require.NoError(t, s.Scrub(nil, func(err error) {
		var corrupt *segment.CorruptError
		var gone *fs.PathError
		switch {
		case errors.As(err, &corrupt):
			found[corrupt.File] = true
		case errors.As(err, &gone):
			found[gone.Path] = true
		default:
			require.NoError(t, err)
		}
	}))
	for _, name := range append(rotten, segments[3]) {
		require.Contains(t, found, name)
	}
	require.NotContains(t, namesIn(disk, dir, ".snap"), snapshot, "it was set aside")
	require.NoError(t, s.Close())
}

// Appends, rolls, trims and resets beside a scrub are no damage.
func TestAScrubBesideWritesFindsNothing(t *testing.T) {
	o := store.Options{SegmentBytes: 32 << 10, Owner: ours}
	s, err := store.Create(vfs.OS(), filepath.Join(t.TempDir(), "log"), o, bootstrap())
	require.NoError(t, err)
	stop := make(chan struct{})
	scrubs := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				scrubs <- nil
				return
			default:
			}
			var damage []error
			found := func(err error) { damage = append(damage, err) }
			if err := errors.Join(s.Check(found), s.Scrub(nil, found), errors.Join(damage...)); err != nil {
				scrubs <- err
				return
			}
		}
	}()
	next := uint64(2)
	for round := range 6 {
		for range 100 {
			saveStarts(t, s, write(t, s, synced(ownedEntry(next, ours))))
			next++
		}
		if round%2 == 0 {
			require.NoError(t, trim(s, next-50))
			continue
		}
		require.NoError(t, s.Reset(next, 1, firstOf(next+1), segment.HardState{Term: 1, Commit: next}, []byte("state")))
		next++
	}
	close(stop)
	require.NoError(t, <-scrubs)
	require.NoError(t, s.Close())
}

// What is read with O_DIRECT is what the disk has, at any position and length.
func TestAStoredFileIsReadAtAnyPosition(t *testing.T) {
	content := make([]byte, 20_001)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(dir, "strandline-*")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		name := filepath.Join(dir, "stored")
		require.NoError(t, os.WriteFile(name, content, 0o600))
		f, err := vfs.OS().OpenStored(name)
		require.NoError(t, err)
		for _, at := range []int{0, 1, 4095, 4096, 8000, 20_000} {
			for _, size := range []int{1, 72, 4096, 9000} {
				b := make([]byte, size)
				n, err := f.ReadAt(b, int64(at))
				want := content[at:min(at+size, len(content))]
				require.Equal(t, want, b[:n], "%d bytes at %d in %s", size, at, dir)
				require.Equal(t, n < size, err != nil, "%v", err)
			}
		}
		require.NoError(t, f.Close())
	}
	_, err := vfs.OS().OpenStored(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, syscall.ENOENT)
}

// A log that was opened beside damaged snapshots finds them at the first look, not at the first scrub.
func TestDamagedSnapshotsAreFoundAtTheStart(t *testing.T) {
	for _, n := range []int{0, 1, -1} {
		t.Run(fmt.Sprint("snapshot ", n), func(t *testing.T) {
			disk := faultdisk.New(7)
			owned(t, disk, dir, ours)
			names := namesIn(disk, dir, ".snap")
			require.Greater(t, len(names), 3)
			rotten := names[(n+len(names))%len(names)]
			disk.FlipStored(rotten, 40)
			disk.PowerCut(faultdisk.Nothing)
			var logged bytes.Buffer
			o := options(disk)
			o.Owner, o.Logger = ours, slog.New(slog.NewTextHandler(&logged, nil))
			s, err := repair.Open(disk, dir, o)
			require.NoError(t, err)
			require.NoError(t, s.Check(none(t)))
			require.Contains(t, logged.String(), "snapshot is damaged")
			require.NotContains(t, disk.Names(), rotten)
			require.Contains(t, disk.Names(), rotten+".bad")
			logged.Reset()
			require.NoError(t, s.Scrub(nil, none(t)))
			require.Empty(t, logged.String(), "it is gone")
			require.NoError(t, s.Close())
			requireWhole(t, disk)
		})
	}
}

// whenLogged calls once when something is logged that has a text.
type whenLogged struct {
	text string
	call func()
}

func (w *whenLogged) Write(line []byte) (int, error) {
	if call := w.call; call != nil && bytes.Contains(line, []byte(w.text)) {
		w.call = nil
		call()
	}
	return len(line), nil
}

// While others are read a snapshot is saved of the same entry as a damaged one, in its file.
func TestASnapshotSavedInTheFileOfADamagedOneStays(t *testing.T) {
	disk := faultdisk.New(7)
	s, _ := manySegments(t, disk)
	require.NoError(t, s.Close())
	logged := &whenLogged{text: "snapshot is damaged"}
	o := options(disk)
	o.Logger = slog.New(slog.NewTextHandler(logged, nil))
	s, err := repair.Open(disk, dir, o)
	require.NoError(t, err)
	all := s.Snapshots()
	index := all[len(all)-2]
	file := filepath.Join(dir, fmt.Sprintf("%020d.snap", index))
	disk.FlipStored(file, 40)
	logged.call = func() { require.NoError(t, s.SaveSnapshot(index, 1, []byte("another"))) }
	require.NoError(t, s.Scrub(nil, none(t)))
	require.Nil(t, logged.call)
	require.Contains(t, disk.Names(), file)
	require.Empty(t, filesOn(disk, ".bad"))
	require.Equal(t, all, s.Snapshots())
	require.NoError(t, s.Close())
}

// The same where no snapshot is valid any more: the one that was saved meanwhile is, and the next one leaves it.
func TestASnapshotSavedInTheFileOfTheLastDamagedOneStays(t *testing.T) {
	disk := faultdisk.New(7)
	s, _ := manySegments(t, disk)
	require.NoError(t, s.Close())
	logged := &whenLogged{}
	o := options(disk)
	o.Logger = slog.New(slog.NewTextHandler(logged, nil))
	s, err := repair.Open(disk, dir, o)
	require.NoError(t, err)
	all := s.Snapshots()
	newest := all[len(all)-1]
	for _, name := range filesOn(disk, ".snap") {
		disk.FlipStored(name, 40)
	}
	file := fmt.Sprintf("%020d.snap", newest)
	logged.text = file
	logged.call = func() { require.NoError(t, s.SaveSnapshot(newest, 1, []byte("another"))) }
	require.NoError(t, s.Scrub(nil, func(error) {}))
	require.Nil(t, logged.call)
	require.NoError(t, s.SaveSnapshot(newest+1, 1, []byte("the next")))
	require.Contains(t, disk.Names(), filepath.Join(dir, file))
	require.NotContains(t, disk.Names(), filepath.Join(dir, file+".bad"))
	require.Contains(t, s.Snapshots(), newest)
	require.NoError(t, s.Close())
}

// Where no snapshot is valid any more, the first look at a log that has all its entries asks for another.
func TestALogWithoutAValidSnapshotAsksForOneAtTheStart(t *testing.T) {
	disk := faultdisk.New(7)
	s, _ := manySegments(t, disk)
	require.NoError(t, s.Close())
	names := filesOn(disk, ".snap")
	for _, name := range names {
		disk.FlipStored(name, 40)
	}
	disk.PowerCut(faultdisk.Nothing)
	s = open(t, disk)
	var found []error
	require.NoError(t, s.Check(func(err error) { found = append(found, err) }))
	require.Len(t, found, 1)
	require.ErrorIs(t, found[0], segment.ErrNoSnapshot)
	require.NoError(t, s.SaveSnapshot(s.LastIndex(), 1, []byte("state")))
	require.Len(t, filesOn(disk, ".bad"), len(names))
	require.NoError(t, s.Check(none(t)))
	require.NoError(t, s.Close())
}
