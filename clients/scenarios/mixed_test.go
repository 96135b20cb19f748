package scenarios_test

import (
	"bufio"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/clients/scenarios"
	"strandline.dev/test/cluster"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

var (
	mixedRecords = flag.Int64("clients.records", 6000, "how many records all clients together are to have acknowledged")
	mixedKills   = flag.Int("clients.kills", 2, "how often the leader of a log is killed meanwhile")
)

// All clients whose tools are here append to the same logs and read them, while the nodes
// that lead are killed. The history of all of it keeps the rules of docs/history.md.
func TestAllClientsOnTheSameLogsKeepTheRules(t *testing.T) {
	t.Parallel()
	logs := []string{"left", "right"}
	c := cluster.Start(t, cluster.Options{Nodes: 3})
	for _, log := range logs {
		c.CreateLog(log, client.LogConfig{})
	}
	var running []*scenarios.Runner
	for _, r := range runners {
		if !regexp.MustCompile(*player).MatchString(r.name) {
			continue
		}
		t.Run(r.name, func(t *testing.T) { running = append(running, r.start(t)) })
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "history.jsonl"))
	require.NoError(t, err)
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	m := &scenarios.Mixed{Addresses: c.Addresses(), Logs: logs, History: history.NewRecorder(out), Records: *mixedRecords}
	for _, log := range logs {
		m.History.Note(history.Event{Kind: history.Log, Log: log})
	}

	ended := make(chan error, 1)
	go func() { ended <- m.Run(t.Context(), running) }()
	for i := range *mixedKills {
		awaitAcked(t, m, *mixedRecords*int64(i+1)/int64(*mixedKills+1), ended)
		log := logs[i%len(logs)]
		leader := c.AwaitLeader(log)
		c.Node(leader).Kill()
		c.AwaitLeader(log, leader)
		c.Node(leader).Restart()
		c.AwaitHealthy()
	}
	require.NoError(t, <-ended)
	for _, r := range running {
		require.NoError(t, r.Leaks(t.Context()))
		require.NoError(t, r.Close())
		n := m.Count(r.Name())
		t.Logf("%s: %d records acknowledged, %d failed, %d unknown, %d read", r.Name(), n.Acked.Load(), n.Failed.Load(), n.Unknown.Load(), n.Read.Load())
		require.Positive(t, n.Acked.Load(), r.Name())
	}

	require.NoError(t, m.History.Err())
	require.NoError(t, out.Flush())
	_, err = file.Seek(0, io.SeekStart)
	require.NoError(t, err)
	report, err := judge.Check(history.NewReader(history.Input{Name: file.Name(), Reader: file}), judge.Options{Slack: time.Minute})
	require.NoError(t, err)
	t.Logf("%d calls, %d records acknowledged, %d of them read back, %d failed, %d unknown",
		report.Calls, report.Acked, report.ReadBack, report.Failed, report.Unknown)
	for _, v := range report.Violations {
		t.Errorf("the history breaks a rule: %s", v)
	}
}

// awaitAcked waits until so many records are acknowledged. The clients must not have ended
// before.
func awaitAcked(t *testing.T, m *scenarios.Mixed, records int64, ended chan error) {
	t.Helper()
	for m.Acked() < records {
		select {
		case err := <-ended:
			ended <- err
			require.NoError(t, err)
			require.GreaterOrEqual(t, m.Acked(), records, "the clients ended early")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
