package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// Whatever has been handed to a socket stays what it was, though the file that it came from is repaired, gives
// way to a snapshot of the leader, or goes with its log, whose name another one has then.
func TestAReaderThatReceivesLateGetsWhatItsOffsetsHeldWhateverReplacesTheirFiles(t *testing.T) {
	for name, story := range map[string]func(*lateTrio, *testing.T){
		"repair":  (*lateTrio).isRepaired,
		"reset":   (*lateTrio).isReset,
		"removal": (*lateTrio).isRemoved,
	} {
		for _, encrypted := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", plain", true: ", TLS"}[encrypted], func(t *testing.T) {
				t.Parallel()
				w := startLateTrio(t, encrypted)
				w.append(t, lateRecords)
				w.readAll(t, lateRecords) // verifies what lies in files
				w.old = w.segments(t)
				story(w, t)
			})
		}
	}
}

const lateRecords = 800

// lateTrio is three nodes. Readers are clients of a, which leads and may be cut off from the others.
type lateTrio struct {
	*lateWorld
	others []string // directories
	old    []string // segments of a that are to be replaced
	links  *links
}

func startLateTrio(t *testing.T, encrypted bool) *lateTrio {
	t.Helper()
	directory := t.TempDir()
	nodes := trio(t, directory, "a", "b", "c")
	w := &lateTrio{
		lateWorld: &lateWorld{dir: filepath.Join(directory, "a")},
		others:    []string{filepath.Join(directory, "b"), filepath.Join(directory, "c")},
		links:     &links{to: nodes[0].GRPC.Addr().String(), open: map[net.Conn]struct{}{}},
	}
	w.prepare(t, encrypted, &nodes[0], &nodes[1], &nodes[2])
	for i := range nodes {
		o := &nodes[i].Node
		o.KeepLeaders, o.ScrubEvery, o.ScrubRate = true, time.Second, 1<<30
		o.Dial = w.links.dialer(i == 0)
	}
	cluster, err := StartCluster(t.Context(), nodes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	w.server = cluster.Nodes[0]
	w.create(t, 3, cluster.Nodes[0].GRPC(), cluster.Nodes[1].GRPC(), cluster.Nodes[2].GRPC())
	require.Eventually(t, func() bool {
		info, err := w.client.Admin().Info(t.Context(), "orders")
		if err == nil && info.Leader != w.server.GRPC() {
			_ = w.client.Admin().TransferLeader(t.Context(), "orders", "a")
		}
		return err == nil && info.Leader == w.server.GRPC()
	}, time.Minute, 10*time.Millisecond)
	return w
}

// A bit changes in the files, before what the sockets have of them.
func (w *lateTrio) isRepaired(t *testing.T) {
	kafka, late := w.byKafka(t), w.byClients(t)
	for _, r := range late {
		r.awaitUnread(t)
	}
	damaged := w.old[1:3] // the second one, of which Kafka's consumer has bytes, and the third
	for _, path := range damaged {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		b := make([]byte, 1)
		_, err = file.ReadAt(b, 100_000)
		require.NoError(t, err)
		b[0] ^= 1
		_, err = file.WriteAt(b, 100_000)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	for _, path := range damaged {
		require.Eventually(t, func() bool { return exists(path+".bad") && exists(path) }, time.Minute, time.Millisecond, "%s is not repaired", path)
	}
	kafka()
	for _, r := range late {
		r.receive(t, lateRecords)
	}
}

// While a is cut off, the others trim what it would need.
func (w *lateTrio) isReset(t *testing.T) {
	kafka := w.byKafka(t)
	w.links.cut()
	held := w.old[len(w.old)-1] // the newest segment of a: so many entries more fill several
	for rounds := 0; ; rounds++ {
		require.Less(t, rounds, 100, "the others keep what a lacks")
		w.append(t, 100)
		_, _, err := w.client.Admin().Trim(t.Context(), "orders", w.end-50, false)
		require.NoError(t, err)
		if w.beyond(t, firstIndex(t, held)+100) {
			break
		}
	}
	late := w.byClients(t, client.WithAnyReplica())
	for _, r := range late {
		r.awaitUnread(t)
	}
	require.True(t, exists(w.old[1]), "a has its old log")
	w.links.heal()
	require.Eventually(t, func() bool { return w.gone(w.old) && !exists(held) }, time.Minute, time.Millisecond, "a has its old log")
	kafka()
	for _, r := range late {
		r.receive(t, lateRecords)
	}
}

func (w *lateTrio) isRemoved(t *testing.T) {
	kafka, late := w.byKafka(t), w.byClients(t)
	for _, r := range late {
		r.awaitUnread(t)
	}
	require.NoError(t, w.client.Admin().DeleteLog(t.Context(), "orders"))
	_, err := w.client.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(t, err)
	w.append(t, 200) // other values at the same offsets
	require.Eventually(t, func() bool { return w.gone(w.old) }, time.Minute, time.Millisecond, "a has the files of the old log")
	kafka()
	for _, r := range late {
		r.receive(t, lateRecords)
	}
}

// beyond reports whether the others have no entry of the log up to index any more.
func (w *lateTrio) beyond(t *testing.T, index uint64) bool {
	for _, directory := range w.others {
		files, err := filepath.Glob(filepath.Join(directory, "logs", "1", "*", "*.seg"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		if firstIndex(t, slices.Min(files)) <= index {
			return false
		}
	}
	return true
}

// firstIndex is that of the first entry of a segment: its file has it in its name.
func firstIndex(t *testing.T, segment string) (index uint64) {
	t.Helper()
	var ordinal uint64
	_, err := fmt.Sscanf(filepath.Base(segment), "%d-%d.seg", &ordinal, &index)
	require.NoError(t, err)
	return index
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// links are the connections between a node and others.
type links struct {
	to string // address of the node

	mu   sync.Mutex
	away bool
	open map[net.Conn]struct{}
}

// dialer dials for the node itself, or for another one.
func (l *links) dialer(own bool) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil || !own && address != l.to {
			return c, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.away {
			_ = c.Close()
			return nil, os.ErrDeadlineExceeded
		}
		l.open[c] = struct{}{}
		return c, nil
	}
}

func (l *links) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	for c := range l.open {
		_ = c.Close()
	}
	clear(l.open)
}

func (l *links) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}
