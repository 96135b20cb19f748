package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
)

// Each waits for the disk most of the time: one after the other, thousands of logs
// would take half a minute.
func TestLogsAreOpenedSeveralAtATime(t *testing.T) {
	dir := t.TempDir()
	n := open(t, dir)
	for i := range 2 * replicas.OpenAtOnce {
		create(t, n, fmt.Sprintf("log-%d", i), settings.Config{})
	}
	require.NoError(t, n.Close(context.Background()))

	disk := &gateDisk{FS: vfs.OS(), logs: map[string]bool{}, open: make(chan struct{})}
	n, err := Open(settings.Options{DataDir: dir, Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	require.Equal(t, replicas.OpenAtOnce, disk.most)
	require.NoError(t, n.Ready())
}

// gateDisk lets logs be opened once so many of them are being opened at the same
// time.
type gateDisk struct {
	vfs.FS
	mu   sync.Mutex
	logs map[string]bool // that wait at the gate
	most int
	open chan struct{}
}

func (d *gateDisk) Open(name string) (vfs.File, error) {
	if log := filepath.Dir(filepath.Dir(name)); strings.HasSuffix(name, ".seg") && filepath.Base(log) != "0" {
		d.wait(log)
	}
	return d.FS.Open(name)
}

func (d *gateDisk) wait(log string) {
	d.mu.Lock()
	select {
	case <-d.open:
	default:
		d.logs[log] = true
		if d.most = len(d.logs); d.most == replicas.OpenAtOnce {
			close(d.open)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.open:
	case <-time.After(10 * time.Second): // the test has failed
	}
}
