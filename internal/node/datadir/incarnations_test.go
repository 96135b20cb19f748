package datadir

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

func TestALifeIsOutlivedByWhatOthersHaveHeard(t *testing.T) {
	disk := vfs.OS()
	dir := t.TempDir()
	run := func() *Incarnations {
		l, err := LoadIncarnations(disk, dir)
		require.NoError(t, err)
		require.NoError(t, l.Begin())
		return l
	}
	other, err := LoadIncarnations(disk, t.TempDir())
	require.NoError(t, err)
	require.NoError(t, other.Begin())
	meet := func(l *Incarnations) (older bool, forgotten uint64) {
		own, _ := l.Greeting()
		_, known := other.Greeting()
		_, forgotten = l.Meet(2, peer.Incarnation{Number: 1, Run: 7}, known[1])
		older, _ = other.Meet(1, own, peer.Incarnation{})
		return older, forgotten
	}
	requireWhole := func(l *Incarnations) {
		older, forgotten := meet(l)
		require.False(t, older)
		require.Zero(t, forgotten)
	}
	first := run()
	requireWhole(first)
	requireWhole(first)
	second := run()
	requireWhole(second)
	kept, err := os.ReadFile(second.path)
	require.NoError(t, err)
	second.Wrote.Store(true)
	require.NoError(t, second.Advance())
	own, _ := second.Greeting()
	other.Heard(1, own)
	requireWhole(second)

	require.NoError(t, os.WriteFile(second.path, kept, 0o644)) // of the same run, a while ago
	third := run()
	older, forgotten := meet(third)
	require.True(t, older)
	require.Equal(t, own.Number, forgotten)
	require.NoError(t, third.Raise(forgotten))
	requireWhole(third)
	requireWhole(run())

	full, err := LoadIncarnations(fullFS{disk}, dir)
	require.NoError(t, err)
	require.ErrorIs(t, full.Begin(), syscall.ENOSPC)
	requireWhole(full)
	requireWhole(run())
}

// fullFS has no room for another file.
type fullFS struct{ vfs.FS }

func (fullFS) Create(string) (vfs.File, error) { return nil, syscall.ENOSPC }
