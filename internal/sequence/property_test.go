package sequence

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

var seedFlag = flag.Uint64("seed", 0, "replay the one run of this seed")

// TestEveryDecisionIsThatOfANaiveModel drives a sequencer at random: appends,
// resends, gaps, commands, seals, drops, commits, lost leaderships. The seed in the
// name of a failed run replays it: go test -run Naive -seed N.
func TestEveryDecisionIsThatOfANaiveModel(t *testing.T) {
	if *seedFlag != 0 {
		runAgainstModel(t, *seedFlag)
		return
	}
	base := uint64(time.Now().UnixNano()) / 1000 * 1000
	for i := range uint64(80) {
		t.Run(fmt.Sprintf("seed=%d", base+i), func(t *testing.T) { runAgainstModel(t, base+i) })
	}
}

// run is one random history.
type run struct {
	t        *testing.T
	random   *rand.Rand
	model    model
	leader   *actor
	follower *Table // folds what commits, and no more
	time     int64
	digests  bool                 // the log has a digest
	batches  []record.HashedBatch // that have committed since it began
	copies   []tableCopy
	before   map[uint64]string // the overlay before each number; void after a Propose or commit
}

// tableCopy is a copy of the follower's table, and what it held then.
type tableCopy struct {
	table    *Table
	snapshot []byte
	folds    []proposedEntry // by the follower, since
}

func runAgainstModel(t *testing.T, seed uint64) {
	r := &run{t: t, random: rand.New(rand.NewPCG(seed, 0)), follower: NewTable(), digests: seed%2 == 0, before: map[uint64]string{}}
	table := NewTable()
	r.leader = &actor{table: table, sequencer: New(table)}
	r.leader.sequencer.StartLeading(1, 0)
	for range 250 {
		r.step()
		r.checkInvariants()
	}
}

func (r *run) step() {
	before, numbered := showDecisions(r.leader.sequencer), r.model.numbered
	switch dice := r.random.IntN(100); {
	case dice < 55:
		a := r.request()
		r.compare(r.model.append(a, r.leader.sequencer.KeysFrom()), r.leader.sequencer.Append(a), fmt.Sprintf("append %+v", a))
	case dice < 68:
		c := r.command()
		r.compare(r.model.command(c), r.leader.sequencer.Command(c), fmt.Sprintf("command %+v", c))
	case dice < 78:
		id, epoch, sequence := r.session(), record.Epoch(r.random.IntN(5)), record.Sequence(r.random.IntN(12))
		got := r.leader.sequencer.Resolve(id, epoch, sequence)
		if got.Known {
			require.Equal(r.t, sequence < got.Next, got.State == Committed || got.State == Forgotten, "resolve %d %d %d: next %d", id, epoch, sequence, got.Next)
		}
		got.Next, got.Known = 0, false
		require.Equal(r.t, r.model.resolve(id, epoch, sequence), got, "resolve %d %d %d", id, epoch, sequence)
	case dice < 86:
		r.time += int64(r.random.IntN(20)) - 5
		r.leader.propose(r.time)
		r.model.open = 0
		clear(r.before)
	case dice < 93:
		r.commit(r.random.IntN(len(r.leader.proposed) + 1))
	case dice < 98:
		r.drop()
	case dice < 99:
		r.leader.sequencer.BoundKeys(r.random.IntN(1 << (8 + r.random.IntN(5))))
	default:
		r.loseLeadership()
	}
	if r.model.numbered > numbered {
		r.before[r.model.numbered] = before
	}
}

func (r *run) session() record.SessionID { return record.SessionID(r.random.IntN(6)) }

// request is near what the session takes: the very next, a resend, a gap.
func (r *run) request() *Append {
	a := &Append{Session: r.session(), ExpectedEnd: NoExpectation, Atomic: r.random.IntN(8) == 0}
	w := r.model.world()
	if a.Session > 3 {
		a.Implicit = r.random.IntN(20) > 0
	}
	if p := w.sessions[a.Session]; p != nil {
		a.Epoch = p.epoch
		switch r.random.IntN(10) {
		case 0:
			a.Epoch += record.Epoch(r.random.IntN(3))
		case 1:
			a.Epoch -= min(a.Epoch, 1)
		}
		next := int(p.next[a.Epoch])
		a.First = record.Sequence(max(0, next+[]int{0, 0, 0, 0, -1, -2, -3, -7, 1}[r.random.IntN(9)]))
		a.LowWater = record.Sequence(r.random.IntN(max(1, int(a.First)/2)))
		if r.random.IntN(40) == 0 {
			a.LowWater = a.First + 1
		}
	} else {
		a.Epoch = record.Epoch(r.random.IntN(6) / 4)
	}
	if r.random.IntN(4) == 0 {
		a.WriterTerm = w.writerTerm - min(w.writerTerm, record.WriterTerm(r.random.IntN(3))) + record.WriterTerm(r.random.IntN(10)/9)
	}
	if r.random.IntN(6) == 0 {
		a.ExpectedEnd = w.end - record.Offset(r.random.IntN(3))
	}
	size := 1 + r.random.IntN(3)
	for range 1 + r.random.IntN(3) {
		a.Batches = append(a.Batches, keyedBatchOf(r.t, r.keys(size)...))
	}
	if r.random.IntN(3) == 0 {
		a.Check, a.Atomic = r.check(w.end), true
	}
	if r.digests {
		a.Digested = true
	}
	return measured(a)
}

// keys draws keys of records from few; "" is none.
func (r *run) keys(count int) (keys []string) {
	for range count {
		keys = append(keys, []string{"", "a/1", "a/2", "b"}[r.random.IntN(4)])
	}
	return keys
}

func (r *run) check(end record.Offset) *Check {
	var keys, prefixes [][]byte
	for _, k := range r.keys(1 + r.random.IntN(2)) {
		if r.random.IntN(4) == 0 {
			k = k[:min(1, len(k))]
		}
		if r.random.IntN(2) == 0 && k != "" {
			prefixes = append(prefixes, []byte(k))
		} else {
			keys = append(keys, []byte(k))
		}
	}
	c, err := NewCheck(max(0, end-record.Offset(r.random.IntN(9)-1)), keys, prefixes, nil)
	require.NoError(r.t, err)
	switch r.random.IntN(30) {
	case 0:
		c.Search.Found = &Match{Offset: c.Since, Key: []byte("a/1")}
	case 1, 2:
		c.Search.To = c.Since + record.Offset(r.random.IntN(3))
	case 3, 4:
		c.Search = Search{To: c.Since + record.Offset(r.random.IntN(3)), Lacked: LackedTime}
	}
	return c
}

func (r *run) command() record.Command {
	kinds := []record.CommandKind{
		record.OpenSession, record.OpenSession, record.OpenSession, record.OpenSession, record.CloseSession, record.ExpireSession,
		record.EndEpoch, record.EndEpoch, record.AcquireWriter, record.Trim, record.Trim, record.Configure, record.Fence,
		record.SetHold, record.SetHold, record.ReleaseHold, record.ReleaseHold,
		record.LeaseWriter, record.LeaseWriter, record.ReleaseWriter,
	}
	c := record.Command{Kind: kinds[r.random.IntN(len(kinds))], Session: 1 + record.SessionID(r.random.IntN(5)), Lease: 1000}
	if c.Kind == record.OpenSession {
		c.Session = 1 + record.SessionID(r.random.IntN(3))
	}
	w := r.model.world()
	if p := w.sessions[c.Session]; p != nil {
		c.Epoch = p.epoch + record.Epoch(r.random.IntN(2)) - min(p.epoch, record.Epoch(r.random.IntN(2)))
	}
	if c.Kind == record.Trim {
		c.Offset = max(0, w.end+record.Offset(r.random.IntN(6)-4))
		c.Flags = uint32(r.random.IntN(2))
	}
	name := []string{"backup", "view"}[r.random.IntN(2)]
	switch c.Kind {
	case record.SetHold:
		c.Offset = max(0, w.end-record.Offset(r.random.IntN(12)))
		c.Text = record.AppendHold(nil, record.Hold{Name: name, Pointer: []byte("here")})
		if r.random.IntN(4) == 0 {
			c.Flags = record.FlagFromStart
		}
	case record.ReleaseHold:
		c.Text = []byte(name)
	case record.LeaseWriter:
		c.Text = record.AppendWriter(nil, record.Writer{Name: name, Payload: []byte("there")})
	case record.ReleaseWriter:
		c.WriterTerm = w.writerTerm - min(w.writerTerm, record.WriterTerm(r.random.IntN(6)/5))
	}
	if c.Kind == record.Fence && r.random.IntN(2) == 0 {
		c.Flags = record.FlagFenced
	}
	if r.random.IntN(200) == 0 {
		c.Kind = record.Seal
	}
	return c
}

func (r *run) compare(want verdict, got Answer, what string) {
	have := verdict{restsOn: got.RestsOn, duplicate: got.Duplicate}
	if got.Refusal != nil {
		have.reason = got.Refusal.Reason
	}
	for run := range got.Runs() {
		for i := range run.Count {
			have.offsets = append(have.offsets, run.First+record.Offset(i))
		}
	}
	require.Equal(r.t, want, have, "%s: %v", what, got.Refusal)
}

// commit hands the oldest entries to the leader and the follower.
func (r *run) commit(count int) {
	for _, e := range r.leader.proposed[:count] {
		require.NoError(r.t, r.leader.sequencer.Committed(e.data, e.crc))
		require.NoError(r.t, r.follower.Fold(e.data, e.crc))
		r.model.commit(e.number)
		r.batches = append(r.batches, contentsOf(r.t, e.data)...)
		clear(r.before)
		for i := range r.copies {
			r.copies[i].folds = append(r.copies[i].folds, e)
		}
	}
	r.checkCopies()
	r.hash()
	r.leader.proposed = slices.Delete(r.leader.proposed, 0, count)
	require.True(r.t, bytes.Equal(r.follower.Snapshot(nil), r.leader.table.Snapshot(nil)), "replicas agree, byte for byte")
}

// hash hands some of the contents over that the digest lacks, or all.
func (r *run) hash() {
	s := r.leader.sequencer
	from := s.HashedTo()
	batches := slices.DeleteFunc(slices.Clone(r.batches), func(h record.HashedBatch) bool { return h.First < from })
	if len(batches) > 0 && r.random.IntN(2) == 0 {
		require.NoError(r.t, s.Hashed(from, batches[:1+r.random.IntN(len(batches))]))
	}
}

// checkCopies proves that a copy neither sees what its table folds nor changes it,
// and becomes equal once it has folded the same.
func (r *run) checkCopies() {
	if len(r.copies) < 3 {
		r.copies = append(r.copies, tableCopy{table: r.follower.Copy(), snapshot: r.follower.Snapshot(nil)})
		return
	}
	for _, c := range r.copies {
		require.True(r.t, bytes.Equal(c.snapshot, c.table.Snapshot(nil)), "a copy stays as it is")
	}
	after := r.follower.Snapshot(nil)
	for _, c := range r.copies {
		for _, e := range c.folds {
			require.NoError(r.t, c.table.Fold(e.data, e.crc))
		}
		require.True(r.t, bytes.Equal(after, c.table.Snapshot(nil)), "a copy folds as its table does")
		require.True(r.t, bytes.Equal(after, r.follower.Snapshot(nil)), "a table is not changed by its copies")
	}
	r.copies = nil
}

func (r *run) drop() {
	if r.leader.sequencer.newest() == 0 {
		return
	}
	oldest := (*r.leader.sequencer.proposals.at(0)).number
	number := oldest + r.random.Uint64N(r.model.numbered-oldest+1)
	r.leader.sequencer.Drop(number)
	r.model.drop(number)
	if before, known := r.before[number]; known {
		require.Equal(r.t, before, showDecisions(r.leader.sequencer), "Drop restores exactly")
	}
	maps.DeleteFunc(r.before, func(f uint64, _ string) bool { return f >= number })
	r.leader.proposed = slices.DeleteFunc(r.leader.proposed, func(f proposedEntry) bool { return f.number >= number })
}

// loseLeadership stops leading with proposals in flight, of which the first few
// commit all the same, and takes it again, now and then after a restart.
func (r *run) loseLeadership() {
	r.leader.sequencer.StopLeading()
	clear(r.before)
	kept := r.random.IntN(len(r.leader.proposed) + 1)
	r.commit(kept)
	r.leader.proposed = nil
	r.model.drop(1)
	if r.random.IntN(2) == 0 {
		snapshot := r.leader.table.Snapshot(nil)
		table, err := RestoreTable(snapshot)
		require.NoError(r.t, err)
		require.True(r.t, bytes.Equal(snapshot, table.Snapshot(nil)))
		numbers := r.leader.sequencer.numbered
		r.leader = &actor{table: table, sequencer: New(table)}
		r.leader.sequencer.numbered = numbers
	}
	r.leader.sequencer.StartLeading(1, 0)
}

// checkInvariants proves what must hold between any two calls.
func (r *run) checkInvariants() {
	s := r.leader.sequencer
	w := r.model.world()
	require.Equal(r.t, w.end, s.End(), "the ends agree")
	require.Equal(r.t, w.writer, s.LeaseHolder(), "the same has the writer lease")
	require.Equal(r.t, len(r.leader.proposed), s.InFlight())
	require.NoError(r.t, s.CheckInvariants())
}

// showDecisions is the overlay but for which proposal takes the next batch.
func showDecisions(s *Sequencer) string {
	text := showOverlay(s)
	for i := range s.proposals.len() {
		d := *s.proposals.at(i)
		text += fmt.Sprintln(d.number, d.proposed)
	}
	lines := strings.Split(text, "\n")
	return strings.Join(slices.Delete(lines, 1, 2), "\n")
}
