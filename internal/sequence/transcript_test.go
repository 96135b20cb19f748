package sequence

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// TestTranscripts runs the stories in testdata. Each file has a drawing or a
// sentence on top; the commands are those of stage.run.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &stage{t: t, replicas: map[string]*actor{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(d)
		})
	})
}

// stage is a set of replicas without a network: what one proposes, commit hands
// to all of them.
type stage struct {
	t        *testing.T
	replicas map[string]*actor
}

type actor struct {
	table     *Table
	sequencer *Sequencer
	proposed  []proposedEntry // proposed and neither committed nor dropped
}

type proposedEntry struct {
	number uint64
	data   []byte
	crc    uint32
}

func (s *stage) actor(name string) *actor {
	if s.replicas[name] == nil {
		table := NewTable()
		s.replicas[name] = &actor{table: table, sequencer: New(table)}
	}
	return s.replicas[name]
}

// arguments of one line of a transcript, absent ones with a default.
type arguments struct {
	*datadriven.TestData
	t *testing.T
}

func (a arguments) number(key string, absent int64) int64 {
	if a.HasArg(key) {
		a.ScanArgs(a.t, key, &absent)
	}
	return absent
}

func (a arguments) text(key, absent string) string {
	if a.HasArg(key) {
		a.ScanArgs(a.t, key, &absent)
	}
	return absent
}

func (s *stage) run(d *datadriven.TestData) string {
	args := arguments{TestData: d, t: s.t}
	on := s.actor(args.text("on", "a"))
	q := on.sequencer
	id := record.SessionID(args.number("session", 0))
	epoch := record.Epoch(args.number("epoch", 0))
	switch d.Cmd {
	case "start-leading":
		q.StartLeading(int32(args.number("term", 1)), args.number("now", 0))
	case "stop-leading":
		q.StopLeading()
		on.proposed = nil
	case "append":
		return describe(q.Append(s.request(args)))
	case "many":
		return s.many(args, q)
	case "command":
		return describe(q.Command(s.command(args)))
	case "room":
		q.SetRoom(map[string]Room{"records": RoomForRecords, "commands": RoomForCommands, "trims": RoomForTrims}[args.text("for", "records")])
	case "keep-alive":
		return describe(q.KeepSession(id, args.number("now", 0)))
	case "tick":
		until := args.number("until", 0)
		for now := args.number("from", until); now <= until; now += TickMs {
			q.Tick(now)
		}
	case "expired":
		return fmt.Sprintln(q.Expired())
	case "expired-holds":
		return fmt.Sprintln(q.ExpiredHolds())
	case "keep-hold":
		return describe(q.KeepHold(args.text("name", "")))
	case "expire-hold":
		return describe(q.ExpireHold(args.text("name", "")))
	case "expired-writer":
		return fmt.Sprintf("term %d, %d ms are left\n", q.ExpiredWriter(), q.WriterLeft())
	case "keep-writer":
		return describe(q.KeepWriter(record.WriterTerm(args.number("writer", 0)), args.number("now", 0)))
	case "expire-writer":
		return describe(q.ExpireWriter(record.WriterTerm(args.number("writer", 0))))
	case "resolve":
		at := q.Resolve(id, epoch, record.Sequence(args.number("sequence", 0)))
		if at.State == Committed {
			return fmt.Sprintf("committed at %d\n", at.Offset)
		}
		return at.State.String() + "\n"
	case "propose":
		return on.propose(args.number("time", 0))
	case "commit":
		return s.commit(args.text("on", "a"), int(args.number("count", 1)))
	case "drop":
		number := uint64(args.number("number", 0))
		q.Drop(number)
		on.proposed = slices.DeleteFunc(on.proposed, func(f proposedEntry) bool { return f.number >= number })
	case "restart":
		snapshot := on.table.Snapshot(nil)
		table, err := RestoreTable(snapshot)
		require.NoError(s.t, err)
		require.True(s.t, bytes.Equal(snapshot, table.Snapshot(nil)))
		*on = actor{table: table, sequencer: New(table)}
	case "table":
		return showTable(on.table)
	case "overlay":
		return showOverlay(q)
	default:
		s.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return ""
}

// request reads: session, epoch, first, count, batches (of count records
// each), low, writer, end, size (bytes of a record), atomic, implicit.
func (s *stage) request(args arguments) *Append {
	a := &Append{
		Session:     record.SessionID(args.number("session", 0)),
		Epoch:       record.Epoch(args.number("epoch", 0)),
		First:       record.Sequence(args.number("first", 0)),
		LowWater:    record.Sequence(args.number("low", 0)),
		WriterTerm:  record.WriterTerm(args.number("writer", 0)),
		ExpectedEnd: record.Offset(args.number("end", int64(NoExpectation))),
		Atomic:      args.HasArg("atomic"),
		Implicit:    args.HasArg("implicit"),
	}
	count, size := int(args.number("count", 1)), int(args.number("size", 10))
	for range args.number("batches", 1) {
		a.Batches = append(a.Batches, batchOf(s.t, count, size))
	}
	return measured(a)
}

// measured fills in the sums that a server counts.
func measured(a *Append) *Append {
	a.Records, a.Bytes = 0, 0
	for _, b := range a.Batches {
		a.Records += b.Count()
		a.Bytes += len(b)
	}
	return a
}

func batchOf(t testing.TB, count, size int) record.Batch {
	var builder record.Builder
	for range count {
		require.NoError(t, builder.Add(record.Record{Value: make([]byte, size)}))
	}
	b, err := builder.Finish(record.None)
	require.NoError(t, err)
	return b
}

// keyedBatchOf returns a batch with a record for each key; "" is none.
func keyedBatchOf(t testing.TB, keys ...string) record.Batch {
	var builder record.Builder
	for _, key := range keys {
		r := record.Record{Value: []byte("abc")}
		if key != "" {
			r.Key = []byte(key)
		}
		require.NoError(t, builder.Add(r))
	}
	b, err := builder.Finish(record.None)
	require.NoError(t, err)
	return b
}

// many appends single records of session and other in turn, so that none of
// them follows another of its session, and commits them.
func (s *stage) many(args arguments, q *Sequencer) string {
	a := s.request(args)
	between := &Append{ExpectedEnd: NoExpectation, Batches: a.Batches, Records: a.Records, Bytes: a.Bytes}
	turns := args.number("turns", 1)
	var last Answer
	for range turns {
		last = q.Append(a)
		a.First += record.Sequence(a.Records)
		q.Append(between)
	}
	s.actor(args.text("on", "a")).propose(0)
	s.commit(args.text("on", "a"), len(s.actor(args.text("on", "a")).proposed))
	return describe(last)
}

var commandKinds = map[string]record.CommandKind{
	"open": record.OpenSession, "close": record.CloseSession, "expire": record.ExpireSession,
	"end-epoch": record.EndEpoch, "acquire": record.AcquireWriter, "trim": record.Trim,
	"seal": record.Seal, "configure": record.Configure, "fence": record.Fence,
	"hold": record.SetHold, "release": record.ReleaseHold, "lease-writer": record.LeaseWriter, "release-writer": record.ReleaseWriter,
}

func (s *stage) command(args arguments) record.Command {
	kind, known := commandKinds[args.CmdArgs[0].Key]
	require.True(s.t, known, "%s: unknown command", args.Pos)
	c := record.Command{
		Kind:       kind,
		Session:    record.SessionID(args.number("session", 0)),
		Epoch:      record.Epoch(args.number("epoch", 0)),
		Lease:      uint32(args.number("lease", 10_000)),
		Offset:     record.Offset(args.number("before", 0)),
		WriterTerm: record.WriterTerm(args.number("writer", 0)),
		Text:       []byte(args.text("text", "")),
	}
	switch name := args.text("name", ""); kind {
	case record.SetHold:
		h := record.Hold{Name: name, Owner: args.text("owner", ""), MaxBytes: args.number("max-bytes", 0), Pointer: []byte(args.text("pointer", ""))}
		c.Offset, c.Lease, c.Text = record.Offset(args.number("from", 0)), uint32(args.number("lease", 0)), record.AppendHold(nil, h)
	case record.LeaseWriter:
		c.Text = record.AppendWriter(nil, record.Writer{Name: name, Payload: []byte(args.text("payload", ""))})
	case record.ReleaseHold:
		c.Text = []byte(name)
		if args.HasArg("broken-at") {
			c.Flags, c.Offset = record.FlagBroken, record.Offset(args.number("broken-at", 0))
			c.Text = record.AppendHold(nil, record.Hold{Name: name, MaxBytes: args.number("max-bytes", 0)})
		}
	}
	if args.HasArg("from-start") {
		c.Flags = record.FlagFromStart
	}
	if args.HasArg("from-end") {
		c.Flags = record.FlagFromEnd
	}
	if args.HasArg("fast-forward") {
		c.Flags = record.FlagFastForward
	}
	if args.HasArg("fenced") {
		c.Flags = record.FlagFenced
	}
	return c
}

func (a *actor) propose(time int64) string {
	var out strings.Builder
	for _, d := range a.sequencer.Propose(time) {
		a.proposed = append(a.proposed, proposedEntry{number: d.Number, data: slices.Clone(d.Data), crc: d.CRC})
		what := fmt.Sprintf("records [%d,%d)", d.First, d.First+record.Offset(d.Count))
		if d.Count == 0 {
			what = fmt.Sprintf("command at %d", d.First)
		}
		fmt.Fprintf(&out, "proposal %d: %s, time %d\n", d.Number, what, d.Time)
	}
	return out.String()
}

func (s *stage) commit(from string, count int) string {
	f := s.replicas[from]
	require.GreaterOrEqual(s.t, len(f.proposed), count)
	entries := f.proposed[:count]
	f.proposed = f.proposed[count:]
	for _, name := range slices.Sorted(maps.Keys(s.replicas)) {
		for _, e := range entries {
			if err := s.replicas[name].sequencer.Committed(e.data, e.crc); err != nil {
				return fmt.Sprintf("%s: %v\n", name, err)
			}
		}
	}
	return ""
}

func describe(a Answer) string {
	var out strings.Builder
	if r := a.Refusal; r != nil {
		fmt.Fprintf(&out, "%v\n", r)
		switch r.Reason {
		case record.SequenceGap:
			fmt.Fprintf(&out, "  expected %d\n", r.Expected)
		case record.StaleEpoch:
			fmt.Fprintf(&out, "  epoch %d\n", r.Epoch)
		case record.EndMismatch, record.OffsetBeyondEnd:
			fmt.Fprintf(&out, "  end %d\n", r.End)
		case record.Fenced:
			fmt.Fprintf(&out, "  newest %d\n", r.WriterTerm)
		case record.TooLarge:
			fmt.Fprintf(&out, "  limit %d\n", r.Limit)
		}
	} else {
		out.WriteString("ok")
		if a.Duplicate {
			out.WriteString(" duplicate")
		}
		if a.WriterTerm != 0 {
			fmt.Fprintf(&out, " writer %d", a.WriterTerm)
		}
		if a.Epoch != 0 {
			fmt.Fprintf(&out, " epoch %d", a.Epoch)
		}
		if a.End != 0 {
			fmt.Fprintf(&out, " log [%d,%d)", a.Start, a.End)
		}
		out.WriteString("\n")
	}
	for run := range a.Runs() {
		fmt.Fprintf(&out, "  at [%d,%d)\n", run.First, run.First+record.Offset(run.Count))
	}
	if a.RestsOn != 0 {
		fmt.Fprintf(&out, "  rests on proposal %d\n", a.RestsOn)
	}
	return out.String()
}

func showTable(t *Table) string {
	var out strings.Builder
	fmt.Fprintf(&out, "log [%d,%d) time %d writer %d sealed %v config %q\n",
		t.Start(), t.End(), t.Time(), t.WriterTerm(), t.Sealed(), t.Config())
	for _, h := range t.Holds() {
		fmt.Fprintf(&out, "hold %q from %d, owner %q, lease %d, pointer %q\n", h.Name, h.Offset, h.Owner, h.Lease, h.Pointer)
	}
	if w, held := t.Holder(); held {
		fmt.Fprintf(&out, "writer %q since %d, lease %d, payload %q\n", w.Name, w.Leased, w.Lease, w.Payload)
	}
	fmt.Fprintf(&out, "sessions %d open, %d ended; %d spans\n", t.OpenSessions(), t.EndedSessions(), t.sessions.spans)
	for _, id := range t.sessions.byID.Keys() {
		s := t.sessions.get(id)
		if t.sessions.byID.Len() > 8 {
			break
		}
		state := "open"
		if !s.open {
			state = fmt.Sprintf("ended at %d", s.endedAt)
		}
		fmt.Fprintf(&out, "  session %d %s, epoch %d, next %d, low-water %d", id, state, s.epoch, s.next, s.lowWater)
		if n := s.remember; n > 8 {
			fmt.Fprintf(&out, ", %d spans", n)
		} else {
			for i := range s.past {
				fmt.Fprintf(&out, ", past epoch %d", s.past[i].epoch)
				showSpans(&out, &s.past[i].spans)
			}
			showSpans(&out, &s.spans)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func showSpans(out *strings.Builder, spans *spanList) {
	for i := range spans.len() {
		p := spans.at(i)
		fmt.Fprintf(out, ", [%d,%d) at %d", p.first, p.end(), p.offset)
	}
}

// showOverlay prints all that decisions depend on besides the table.
func showOverlay(s *Sequencer) string {
	var out strings.Builder
	if !s.leading {
		return "not leading\n"
	}
	fmt.Fprintf(&out, "log [%d,%d) writer %d sealed %v, %d sessions", s.log.start, s.log.end, s.log.writerTerm, s.log.sealed, s.log.sessions)
	if w := s.log.writer; w != nil {
		fmt.Fprintf(&out, ", the lease of %d ms of %q", w.Lease, w.Name)
	}
	out.WriteString("\n")
	fmt.Fprint(&out, "proposals")
	for i := range s.proposals.len() {
		d := *s.proposals.at(i)
		fmt.Fprintf(&out, " %d", d.number)
		switch {
		case d.proposed:
			out.WriteString(" proposed")
		case d == s.open:
			fmt.Fprintf(&out, " open with %d batches of %d records", d.batches, d.count)
		default:
			out.WriteString(" closed")
		}
		out.WriteString(",")
	}
	fmt.Fprintf(&out, " %d in flight\n", s.InFlight())
	for _, id := range slices.Sorted(maps.Keys(s.views)) {
		v := s.views[id]
		fmt.Fprintf(&out, "  session %d open %v, epoch %d, next %d", id, v.open, v.epoch, v.next)
		for i := range v.past.len() {
			fmt.Fprintf(&out, ", past epoch %d to %d", v.past.at(i).epoch, v.past.at(i).next)
		}
		for i := range v.spans.len() {
			p := v.spans.at(i)
			fmt.Fprintf(&out, ", %d:[%d,%d) at %d in %d", p.epoch, p.first, p.end(), p.offset, p.number)
		}
		out.WriteString("\n")
	}
	return out.String()
}
