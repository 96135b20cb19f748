package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strandline.dev/internal/cli/terminal"
)

// busy appends to a log of a cluster again and again until the test ends.
func (p *process) busy(t *testing.T, log string) {
	stop, ended := make(chan struct{}), make(chan struct{})
	records := strings.Repeat("a record of some length\n", 2000)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				p.run(strings.NewReader(records), "append", log)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

func TestTopShowsTheLogThatIsAppendedToFirst(t *testing.T) {
	t.Parallel()
	p, _, cluster := dev(t, t.TempDir())
	for _, log := range []string{"archive", "orders", "zebra"} {
		p.must("one\n", "log", "create", log, "--replicas", "3")
	}
	p.must("", "cluster", "status", "--wait-healthy")
	p.busy(t, "orders")

	var shown struct {
		Cluster string
		Nodes   []struct {
			Node    string
			Alive   bool
			Records *float64 `json:"records_per_second"`
		}
		Logs []struct {
			Log, Leader string
			Records     float64 `json:"records_per_second"`
			Bytes       float64 `json:"appended_bytes_per_second"`
		}
		Stages   []struct{ Stage string }
		Problems []string
	}
	// How much fits into the interval depends on the machine; an append does not always end in it.
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && (len(shown.Logs) == 0 || shown.Logs[0].Records == 0); {
		require.NoError(t, json.Unmarshal([]byte(p.must("", "top", "--once", "--json", "--interval", "2s")), &shown))
	}
	require.Equal(t, cluster.Cluster, shown.Cluster)
	require.Empty(t, shown.Problems)
	require.Len(t, shown.Nodes, 3)
	require.Len(t, shown.Logs, 4, "the catalog, too")
	require.Equal(t, "orders", shown.Logs[0].Log)
	require.Greater(t, shown.Logs[0].Bytes, shown.Logs[0].Records*20, "of 23 bytes each")
	for _, n := range shown.Nodes {
		require.True(t, n.Alive)
		if n.Node == shown.Logs[0].Leader {
			require.GreaterOrEqual(t, *n.Records, shown.Logs[0].Records*0.99, "it acknowledges all of the log's appends")
		}
	}
	require.NotEmpty(t, shown.Stages)

	table := p.must("", "top", "--once", "--rows", "2", "--sort", "records")
	require.Contains(t, table, ", 2 of 4 logs, 0 not healthy, by records, ")
	require.Regexp(t, `\n\nLOG +LEADER .*\norders +[abc] +yes `, table)
}

// With certificates the metrics come over TLS, and from a node that shows them to who may observe the cluster.
func TestTopNeedsTheRightOfTheStatus(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "node1"}, []string{"user", "admin"}, []string{"user", "alice"})
	p := startNode(t, t.TempDir(), append(shown(dir, "node-node1"), "--client-ca", filepath.Join(dir, "ca.crt"), "--kafka", "0.0.0.0:0")...)
	ask := append([]string{"top", "--once", "--json", "--interval", "200ms"}, shown(dir, "user-alice")...)
	o := p.run(nil, ask...)
	require.Equal(t, terminal.ExitRefused, o.code, o.err)
	require.Contains(t, o.err, "user/alice may not observe cluster")
	p.must("", append([]string{"grant", "add", "user/alice", "observe", "cluster"}, shown(dir, "user-admin")...)...)
	var shown struct {
		Nodes    []struct{ Leads *float64 }
		Problems []string
	}
	require.NoError(t, json.Unmarshal([]byte(p.must("", ask...)), &shown))
	require.Empty(t, shown.Problems)
	require.NotNil(t, shown.Nodes[0].Leads)
}

// openTerminal opens a terminal of a size and both of its ends.
func openTerminal(t *testing.T, columns, lines uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	require.NoError(t, unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}))
	return ours, theirs
}

// The screen follows keys, fits the terminal, and is given back.
func TestTopOnATerminalSortsByKeysAndEnds(t *testing.T) {
	t.Parallel()
	p, _, _ := dev(t, t.TempDir())
	p.must("", "log", "create", "orders", "--replicas", "3")
	ours, theirs := openTerminal(t, 100, 30)
	command := program(t, "top", "--server", p.grpc, "--interval", "200ms")
	command.Stdin, command.Stdout, command.Stderr = theirs, theirs, theirs
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, command.Start())
	theirs.Close()

	var drawn []byte
	await := func(what string) {
		from := len(drawn)
		for buffer := make([]byte, 4096); !bytes.Contains(drawn[from:], []byte(what)); {
			n, err := ours.Read(buffer)
			require.NoError(t, err, "drawn so far: %q", drawn)
			drawn = append(drawn, buffer[:n]...)
		}
	}
	await("by bytes")
	await("orders")
	for key, by := range map[string]string{"l": "by lag", "r": "by records"} {
		_, err := ours.WriteString(key)
		require.NoError(t, err)
		await(by)
	}
	_, err := ours.WriteString("q")
	require.NoError(t, err)
	await("\x1b[?25h\x1b[?1049l")
	require.NoError(t, command.Wait())
	require.Equal(t, terminal.ExitOK, command.ProcessState.ExitCode())
	for _, drawing := range strings.Split(string(drawn), "\x1b[H")[1:] {
		require.LessOrEqual(t, strings.Count(drawing, "\r\n"), 29, "a line is left for the keys")
	}
}
