package judge

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

// historyWriter writes a small history, a line each millisecond.
type historyWriter struct {
	*history.Recorder
	out bytes.Buffer
	now int64
}

func newHistoryWriter() *historyWriter {
	h := &historyWriter{}
	h.Recorder = history.NewRecorderAt(&h.out, func() int64 {
		h.now += 1e6
		return h.now
	})
	return h
}

// check holds the rules against what was answered.
func check(t *testing.T, h *historyWriter) *Report {
	t.Helper()
	require.NoError(t, h.Err())
	report, err := Check(history.NewReader(history.Input{Name: "history", Reader: bytes.NewReader(h.out.Bytes())}), Options{Slack: -1})
	require.NoError(t, err, "%s", h.out.String())
	return report
}

func (h *historyWriter) append(e history.Event) *history.Call {
	e.Verb, e.Log, e.Client = history.Append, "orders", or(e.Client, "a")
	return h.Invoke(e)
}

// acked appends and gets the offset of the first record.
func (h *historyWriter) acked(first int64, e history.Event) { h.append(e).Return(ok(first)) }

func (h *historyWriter) begin(verb history.Verb, e history.Event) *history.Call {
	e.Verb, e.Log, e.Client = verb, "orders", or(e.Client, "r")
	return h.Invoke(e)
}

// read is a whole read of one frame, and so is stale, on a node that need not
// know everything.
func (h *historyWriter) read(first, end int64, hashes ...uint64) {
	h.frames(history.Event{}, first, end, hashes)
}
func (h *historyWriter) stale(first, end int64, hashes ...uint64) {
	h.frames(history.Event{Consistency: history.Any}, first, end, hashes)
}

func (h *historyWriter) frames(e history.Event, first, end int64, hashes history.Hashes) {
	c := h.begin(history.Read, e)
	c.Frame(history.Event{First: &first, End: &end, Hashes: hashes})
	c.Return(history.Event{Outcome: history.OK})
}

func (h *historyWriter) info(start, end int64) {
	h.begin(history.Info, history.Event{}).Return(history.Event{Outcome: history.OK, Start: &start, End: &end})
}

func (h *historyWriter) trim(before int64) {
	h.begin(history.Trim, history.Event{Before: before}).Return(history.Event{Outcome: history.OK, Start: &before})
}

// open opens session 7 with a lease in ms.
func (h *historyWriter) open(lease uint32) {
	h.begin(history.OpenSession, history.Event{Lease: lease}).Return(history.Event{Outcome: history.OK, Session: 7})
}

// setHold sets or moves hold h, with a lease in ms or without.
func (h *historyWriter) setHold(offset int64, lease uint32) {
	h.begin(history.SetHold, history.Event{Hold: "h", From: &offset, Lease: lease}).Return(ok(offset))
}

func (h *historyWriter) commits(offset int64, answer history.Event) {
	h.begin(history.CommitOffset, history.Event{Group: "g", From: &offset}).Return(answer)
}

func (h *historyWriter) groupOffset(found *int64) {
	h.begin(history.GroupOffset, history.Event{Group: "g"}).Return(history.Event{Outcome: history.OK, First: found})
}

func (h *historyWriter) digest(node string, covered int64, digest string) {
	h.begin(history.Digest, history.Event{Node: node}).Return(history.Event{Outcome: history.OK, Covered: &covered, Digest: digest})
}

func (h *historyWriter) replica(node string, commit, term uint64, hashes ...uint64) {
	h.Note(history.Event{Kind: history.Replica, Log: "orders", Node: node, Index: 1, RaftTerm: term, Commit: commit, Hashes: hashes})
}

func one(hash uint64) history.Event { return history.Event{Hashes: history.Hashes{hash}} }

// in is a record of session 7.
func in(epoch uint32, sequence, hash uint64) history.Event {
	return history.Event{Hashes: history.Hashes{hash}, Session: 7, Epoch: epoch, Sequence: sequence}
}

// implicit is a record of session 7, which the first one opened.
func implicit(sequence, hash uint64) history.Event {
	return history.Event{Hashes: history.Hashes{hash}, Session: 7, Sequence: sequence, Implicit: true}
}

func lane(number, hash uint64) history.Event {
	return history.Event{Hashes: history.Hashes{hash}, Lane: "x", Number: number}
}

func under(writer, hash uint64) history.Event {
	return history.Event{Hashes: history.Hashes{hash}, Writer: writer}
}

func keyed(hash uint64, key string, check *history.Check) history.Event {
	return history.Event{Hashes: history.Hashes{hash}, Keys: []string{key}, Check: check}
}

func ok(first int64) history.Event { return history.Event{Outcome: history.OK, First: &first} }

func refused(reason string) history.Event {
	return history.Event{Outcome: history.Failed, Reason: reason}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
