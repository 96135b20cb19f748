package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func TestTheFirstCommandsOfANewcomer(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	require.Equal(t, "created log orders (disk, 1 replica on node1)\n", p.must("", "log", "create", "orders"))
	require.Equal(t, "appended 3 records to orders, offsets 0 to 2\n", p.must("one\ntwo\nthree", "append", "orders"))
	require.Equal(t, "one\ntwo\nthree\n", p.must("", "read", "orders", "--from-start"))
	require.Equal(t, "two\n", p.must("", "read", "orders", "--from", "1", "--count", "1"))
	require.Equal(t, "one\ntwo\n", p.must("", "read", "orders", "--until", "2"))
	require.Equal(t, "one\ntwo\nthree\n", p.must("", "read", "orders", "--since", "1h"))
	require.Empty(t, p.must("", "read", "orders", "--tail"))
	require.Contains(t, p.must("", "log", "list"), "orders")
	require.Contains(t, p.must("", "log", "info", "orders"), "[0, 3), 3 records")
	require.Contains(t, p.must("", "log", "configure", "orders", "--retention", "7d"), "trimmed after 7d")
	require.Equal(t, "log orders is now [2, 3)\n", p.must("", "log", "trim", "orders", "--before", "2"))
	require.Equal(t, "deleted log orders\n", p.must("", "log", "delete", "orders"))
	require.Empty(t, p.must("", "log", "list", "--json"))
	require.Equal(t, terminal.ExitOK, p.terminate())
}

// Two who change different parts of a configuration at once both have them.
func TestTwoWhoConfigureALogAtOnceDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	for round := 1; round <= 10; round++ {
		var configuring sync.WaitGroup
		for flag, value := range map[string]string{"--retention": fmt.Sprintf("%dd", round), "--retention-bytes": fmt.Sprintf("%dGiB", round)} {
			configuring.Go(func() {
				if o := p.run(nil, "log", "configure", "orders", flag, value); o.code != terminal.ExitOK {
					t.Error(o.err)
				}
			})
		}
		configuring.Wait()
		info := p.must("", "log", "info", "orders")
		require.Contains(t, info, fmt.Sprintf("after %dd", round))
		require.Contains(t, info, fmt.Sprintf("beyond %dGiB", round))
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	o := p.run(nil, "read", "orders")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "LOG_NOT_FOUND")
	require.Contains(t, o.err, "log create orders --server")

	p.must("", "log", "create", "orders")
	o = p.run(nil, "log", "create", "orders", "--json")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, `"reason":"LOG_EXISTS"`)

	p.must("a\nb\nc\n", "append", "orders")
	p.must("", "log", "trim", "orders", "--before", "2")
	o = p.run(nil, "read", "orders", "--from", "0")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "--from 2, or --from-start")

	o = p.run(nil, "log", "trim", "orders", "--before", "100")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Equal(t, "log orders is now [100, 100)\n", p.must("", "log", "trim", "orders", "--before", "100", "--fast-forward"))
}

func TestReadIntoAppendCopiesALogExactly(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("", "log", "create", "copy")
	odd := []client.Record{
		{Value: []byte("plain")},
		{Key: []byte{}, Value: []byte{}},
		{},
		{Key: []byte{0xff, 0, '\n'}, Value: []byte("two\nlines\r\n")},
		{Value: []byte("\u2028<&>\x00\ufffd"), Headers: []client.Header{{Key: "trace", Value: []byte{0x80}}, {Key: "trace"}, {Key: "\xff", Value: []byte("v")}}},
		{Value: bytes.Repeat([]byte("big"), 1<<20)},
	}
	c, err := client.Dial([]string{p.grpc})
	require.NoError(t, err)
	defer c.Close()
	producer, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	for _, r := range odd {
		_, err := producer.Send(t.Context(), r)
		require.NoError(t, err)
	}
	require.NoError(t, producer.Close(t.Context()))

	raw := p.must("", "read", "orders", "-o", "raw")
	require.Equal(t, "appended 6 records to copy, offsets 0 to 5\n", p.must(raw, "append", "copy", "-i", "raw"))
	require.Equal(t, raw, p.must("", "read", "copy", "-o", "raw"))
	asJSON := p.must("", "read", "orders", "-o", "json")
	require.Equal(t, asJSON, p.must("", "read", "copy", "--json"))

	back, err := c.Reader(t.Context(), "copy")
	require.NoError(t, err)
	defer back.Close()
	for i, want := range odd {
		got, err := back.Next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, i, got.Offset)
		require.Equal(t, want.Headers, got.Headers)
		require.Equal(t, want.Key, got.Key)
		require.Equal(t, want.Value, got.Value)
	}
}

func TestANodeThatComesBackHasEverything(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startNode(t, data)
	p.must("", "log", "create", "orders")
	p.must("one\ntwo\n", "append", "orders")
	require.Equal(t, terminal.ExitOK, p.terminate())

	p = startNode(t, data)
	require.Equal(t, "one\ntwo\n", p.must("", "read", "orders"))
	require.NoError(t, p.command.Process.Kill())
	p.wait()

	p = startNode(t, data)
	p.must("three\n", "append", "orders")
	require.Equal(t, "one\ntwo\nthree\n", p.must("", "read", "orders"))
}

func TestASecondNodeOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	second := program(t, "serve", "--data", p.data, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0")
	out, err := second.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, terminal.ExitFailed, second.ProcessState.ExitCode())
	require.Contains(t, string(out), "is another strandline running on it?")
	require.Equal(t, terminal.ExitOK, p.terminate())
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	out, err := program(t, "serve", "--grpc", p.grpc).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), p.grpc)
}

func TestWithoutAServerThereIsAHint(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	require.Equal(t, terminal.ExitOK, p.terminate())
	o := p.run(nil, "log", "list")
	require.Equal(t, terminal.ExitUnreachable, o.code)
	require.Contains(t, o.err, " serve\n")
}

func TestAFollowingReaderSeesRecordsComeAndEndsWithCtrlC(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("one\n", "append", "orders")

	follow := program(t, "read", "orders", "--follow", "--server", p.grpc)
	stdout, err := follow.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, follow.Start())
	records := bufio.NewReader(stdout)
	line, err := records.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "one\n", line)
	p.must("two\n", "append", "orders")
	line, err = records.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "two\n", line)

	require.NoError(t, follow.Process.Signal(syscall.SIGINT))
	require.NoError(t, follow.Wait())
}

func TestANodeEndsInTimeWithReadersThatFollow(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("one\n", "append", "orders")
	follow := program(t, "read", "orders", "--follow", "--server", p.grpc)
	stdout, err := follow.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, follow.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, terminal.ExitOK, p.terminate())
	require.NoError(t, follow.Process.Signal(syscall.SIGINT))
	require.NoError(t, follow.Wait())
}

func TestSessionsAndWritersFromTheShell(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	var session struct {
		SessionID json.Number `json:"session_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.must("", "session", "open", "orders", "--json")), &session))
	id := session.SessionID.String()
	p.must("", "session", "keep", "orders", id)
	require.Contains(t, p.must("", "session", "resolve", "orders", id, "--sequence", "0"), "not now")
	require.Contains(t, p.must("", "session", "resolve", "orders", id, "--sequence", "0", "--final"), "never")
	require.Contains(t, p.must("", "session", "resolve", "orders", "999", "--sequence", "0"), "if session 999 was not opened in this log, it never was in it")
	p.must("", "session", "close", "orders", id)
	require.Equal(t, terminal.ExitRefused, p.run(nil, "session", "keep", "orders", id).code)

	require.Contains(t, p.must("", "writer", "acquire", "orders"), "writer term 1")
	require.Contains(t, p.must("", "writer", "acquire", "orders"), "writer term 2")
	o := p.run(strings.NewReader("late\n"), "append", "orders", "--writer-term", "1")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "writer term 1 is fenced, the newest is 2")
	p.must("in time\n", "append", "orders", "--writer-term", "2")
	require.Equal(t, "in time\n", p.must("", "read", "orders"))
}

func TestTheShellCompletesNamesOfLogs(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	// It says nothing about a server that does not answer at once.
	require.Eventually(t, func() bool {
		out, err := program(t, "__complete", "--server", p.grpc, "read", "").Output()
		return err == nil && strings.Contains(string(out), "orders\n")
	}, time.Minute, time.Millisecond)
}

func TestMetricsHealthAndProfiles(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir(), "--pprof")
	for path, want := range map[string]string{
		"/livez": "", "/readyz": "", "/metrics": "strandline_", "/debug/pprof/cmdline": "serve",
	} {
		answer, err := http.Get("http://" + p.http + path)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		require.Contains(t, string(body), want, path)
	}
}

func TestANodeSaysOnceThatItsKafkaPortIsForThisMachineAlone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		flags []string
		times int
	}{
		{[]string{"--grpc", "0.0.0.0:0", "--insecure"}, 1},
		{[]string{"--grpc", "0.0.0.0:0", "--kafka", "0.0.0.0:0", "--insecure"}, 0},
		{[]string{"--grpc", "0.0.0.0:0", "--kafka", "none", "--insecure"}, 0},
		{nil, 0},
	} {
		p := startNode(t, t.TempDir(), row.flags...)
		require.Equal(t, terminal.ExitOK, p.terminate())
		require.Equal(t, row.times, strings.Count(p.stderr.String(), "other nodes send no Kafka client"), "%v", row.flags)
	}
}
