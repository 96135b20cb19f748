package cluster

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

// late is by how much a call may miss its deadline: with the nodes of several
// tests on a small machine, everything is late at times.
const late = 30 * time.Second

// loadHistory is the history of a load, kept in a file while it happens.
type loadHistory struct {
	*history.Recorder
	log  string
	file *os.File
	out  *bufio.Writer
}

// newHistory begins the history of a load of one log. What else the test does to
// the log, such as a trim, is not in it.
func newHistory(c *Cluster, log string) *loadHistory {
	file, err := os.Create(filepath.Join(c.t.TempDir(), "history.jsonl"))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = file.Close() })
	out := bufio.NewWriterSize(file, 1<<20)
	h := &loadHistory{history.NewRecorder(out), log, file, out}
	h.Note(history.Event{Kind: history.Log, Log: log, Retention: true})
	return h
}

// check holds the rules of docs/history.md against what was answered up to now; no
// call may be open.
func (h *loadHistory) check(c *Cluster) {
	c.t.Helper()
	require.NoError(c.t, h.Err())
	require.NoError(c.t, h.out.Flush())
	_, err := h.file.Seek(0, io.SeekStart)
	require.NoError(c.t, err)
	report, err := judge.Check(history.NewReader(history.Input{Name: h.file.Name(), Reader: h.file}), judge.Options{Slack: late})
	require.NoError(c.t, err)
	c.t.Logf("history: %d calls, %d records acknowledged, %d of them read back, %d failed, %d unknown",
		report.Calls, report.Acked, report.ReadBack, report.Failed, report.Unknown)
	if report.Holds() {
		return
	}
	for _, v := range report.Violations {
		c.t.Errorf("the history breaks a rule: %s", v)
	}
	c.t.Errorf("to see the lines: strandline check %s", h.keep(c))
	c.t.FailNow()
}

// keep saves the history from the end of the test.
func (h *loadHistory) keep(c *Cluster) string {
	kept, err := os.CreateTemp("", "strandline-history-*.jsonl")
	require.NoError(c.t, err)
	defer kept.Close()
	_, err = h.file.Seek(0, io.SeekStart)
	require.NoError(c.t, err)
	_, err = io.Copy(kept, h.file)
	require.NoError(c.t, err)
	return kept.Name()
}

// OutcomeOf returns the outcome of a change from its error.
func OutcomeOf(err error) history.Event {
	var e *client.Error
	switch {
	case !errors.As(err, &e):
		return history.Event{Outcome: history.Unknown}
	case e.Outcome == client.NotDone:
		return history.Event{Outcome: history.Failed, Reason: e.Reason}
	case e.Outcome == client.Done:
		return history.Event{Outcome: history.OK, Reason: e.Reason, Forgotten: true}
	}
	return history.Event{Outcome: history.Unknown, Reason: e.Reason}
}

// OutcomeOfRefusal returns the outcome of an append from its refusal inside a stream.
func OutcomeOfRefusal(r *strandlinev1.Refusal) history.Event {
	switch r.GetMetadata()["outcome"] {
	case "not_done":
		return history.Event{Outcome: history.Failed, Reason: r.GetReason()}
	case "done":
		return history.Event{Outcome: history.OK, Reason: r.GetReason(), Forgotten: true}
	}
	return history.Event{Outcome: history.Unknown, Reason: r.GetReason()}
}
