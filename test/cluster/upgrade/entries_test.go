package upgrade

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// entriesOf counts the entries of all logs by what they are.
func entriesOf(t *testing.T, data string) map[string]int {
	t.Helper()
	count := map[string]int{}
	dirs, err := filepath.Glob(filepath.Join(data, "logs", "*", "*"))
	require.NoError(t, err)
	for _, dir := range dirs {
		log, err := repair.OpenReadOnly(vfs.ReadOnly(), dir, store.Options{Manual: true, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		for next, end := log.FirstIndex(), log.LastIndex()+1; next < end; {
			frames, err := log.Entries(next, end, 1<<20)
			require.NoError(t, err)
			for _, f := range frames {
				count[kindOf(t, &f)]++
			}
			next += uint64(len(frames))
		}
		require.NoError(t, log.Close())
	}
	return count
}

func kindOf(t *testing.T, f *segment.Entry) string {
	if f.Type != 0 || len(f.Payload) == 0 {
		return "of Raft"
	}
	e, err := record.ParseEntry(f.Payload)
	require.NoError(t, err)
	switch {
	case e.Kind == record.EntryBatches && e.Begins:
		return "batches: the digest begins"
	case e.Kind == record.EntryBatches && e.Batches == 0:
		return "contents"
	case e.Kind == record.EntryBatches && len(e.Hashed) > 0:
		return "batches with contents"
	case e.Kind == record.EntryBatches:
		return "batches"
	}
	command, err := record.ParseCommand(e.Body)
	require.NoError(t, err)
	if command.Flags != 0 {
		return fmt.Sprint("command ", command.Kind, " with flags ", command.Flags)
	}
	return fmt.Sprint("command ", command.Kind)
}
