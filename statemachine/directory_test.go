package statemachine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/statemachine"
)

// halfWritten fails after a part.
type halfWritten struct{}

func (halfWritten) WriteTo(w io.Writer) (int64, error) {
	n, _ := w.Write([]byte("half"))
	return int64(n), errors.New("no more")
}

func TestAFileOfADirectoryIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new")
	d := statemachine.Files(folder)
	require.Empty(t, names(t, d), "the folder does not exist yet")
	require.NoError(t, d.Put(t.Context(), "b", bytes.NewBufferString("text")))
	require.ErrorContains(t, d.Put(t.Context(), "c", halfWritten{}), "no more")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Put(ended, "d", bytes.NewBufferString("text")), context.Canceled)
	require.Equal(t, []string{"b"}, names(t, d))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left of what failed")

	content, size, err := d.Get(t.Context(), "b")
	require.NoError(t, err)
	text, err := io.ReadAll(content)
	require.NoError(t, errors.Join(err, content.Close()))
	require.Equal(t, "text", string(text))
	require.EqualValues(t, 4, size)
	_, _, err = d.Get(t.Context(), "c")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.Delete(t.Context(), "b"))
	require.NoError(t, d.Delete(t.Context(), "b"))
	require.Empty(t, names(t, d))
}

func TestWhatAKilledWriterHasLeftIsRemovedWithTheNextSnapshot(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := statemachine.Files(folder)
	for _, left := range []string{".new-a-left", ".new-z-being-written"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, left), []byte("half"), 0o600))
	}
	require.Empty(t, names(t, d))
	require.NoError(t, d.Put(t.Context(), "b", bytes.NewBufferString("text")))
	require.NoFileExists(t, filepath.Join(folder, ".new-a-left"))
	require.FileExists(t, filepath.Join(folder, ".new-z-being-written"), "another replica stores a later one")
}

func TestTheSnapshotOfALogLeavesWhatIsWrittenOfAnother(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".new-1-5-being-written"), nil, 0o600))
	require.NoError(t, statemachine.Files(folder).Put(t.Context(), "2-5", bytes.NewBufferString("text")))
	require.FileExists(t, filepath.Join(folder, ".new-1-5-being-written"))
}
