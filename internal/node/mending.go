package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
)

// A replica whose files are damaged does not run: it neither votes nor leads
// nor acknowledges until they are whole. Meanwhile this node asks the others for
// the entries that cannot be read here. Any replica that has one can give it,
// also one that does not lead, or is itself damaged elsewhere. What is believed
// of the answers is decided by repair.Repairer.

// Times of mending.
const (
	mendPause   = 50 * time.Millisecond // after a first round in vain; doubles
	mendPauseTo = 5 * time.Second
	// mendAgain is the least time between two mendings of one log, so that
	// damage which comes back at once does not keep a node busy.
	mendAgain = 5 * time.Second
	// entriesTime is how long another node may take to look for entries.
	entriesTime = 10 * time.Second
)

// mendAtOnce bounds the logs of a node that are read and fetched at the same
// time, and so the memory and the disk that mending takes. Those that wait for a
// node to come back do not count.
const mendAtOnce = 8

// mendWants is how many ranges are asked for before it is looked anew what is
// still missing.
const mendWants = 32

// mending is a log under repair: one goroutine, which owns the files until done
// is closed.
type mending struct {
	node  *Node
	host  *hosted
	cause error
	// after is when the files are looked at first.
	after time.Time
	// others are the nodes to ask, and ask asks one of them.
	others func(*answered) []other
	ask    func(context.Context, other, entriesRequest) (entriesAnswer, error)
	// begin opens the files, and say is how things go for whoever asks.
	begin func(context.Context) (*repair.Repairer, error)
	say   func(text string)
	// running: the replica goes on meanwhile, see repairs.
	running bool

	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	mender *repair.Repairer // nil while it is not open
}

// mend begins to mend a log that nothing else has open. The caller shows h to
// others, and holds changing or is alone with the node.
func (n *Node) mend(h *hosted, l catalogLog, cause error) {
	ctx, cancel := context.WithCancel(n.keeper.ctx)
	m := &mending{node: n, host: h, cause: cause, cancel: cancel, done: make(chan struct{})}
	m.others, m.ask = m.holders, m.askNode
	m.begin, m.say = m.openFiles, m.sayStanding
	m.after = n.mended[l.ID].Add(mendAgain)
	h.mending = m
	m.tell("%v", cause)
	n.logger.Error("a log is being mended: it is not served here meanwhile", "log", h.name, "replica", h.replicaID, "error", cause)
	n.metrics.foundDamage(h.name)
	if !n.keeper.run(func(context.Context) { m.run(ctx) }) {
		close(m.done)
	}
}

// stop ends the mending and returns when the files are let go of.
func (m *mending) stop() {
	m.cancel()
	<-m.done
}

// tell says how things are to whoever asks for the log.
func (m *mending) tell(format string, args ...any) { m.say(fmt.Sprintf(format, args...)) }

func (m *mending) sayStanding(text string) {
	m.host.stand(record.Refuse(record.NotLeader, "log %q is being mended on this node: %s", m.host.name, text))
}

func (m *mending) run(ctx context.Context) {
	defer m.cancel()
	report, err := m.repair(ctx)
	close(m.done)
	n := m.node
	if ctx.Err() != nil {
		return
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	l, ok := n.placedHere(m.host)
	if !ok || n.closed {
		return
	}
	n.mended[l.ID] = time.Now()
	var after *hosted
	if err != nil {
		after = newHosted(l, m.host.replicaID)
		n.judgeOpened(after, l, fmt.Errorf("%w: %w", errLost, err))
	} else {
		n.logger.Info("a log was mended", "log", l.Name, "replica", m.host.replicaID,
			"entries", report.Entries, "bytes", report.Bytes, "segments", report.Segments, "kept_aside", report.Aside)
		n.metrics.repaired(l.Name, int64(report.Entries))
		after = n.host(l, m.host.replicaID)
	}
	n.addLog(after)
}

// placedHere returns the log of a replica, as long as the catalog wants that
// one here. The caller holds changing.
func (n *Node) placedHere(h *hosted) (l catalogLog, ok bool) {
	l, ok = n.catalog.Load().shown.Load().Logs[h.name]
	r, here := l.On(n.me.Load().NodeID)
	return l, ok && here && l.ID == h.id && r.ID == h.replicaID && (*n.logs.Load())[h.name] == h
}

// repair returns when the files are whole. An error means that they can never
// be, or that ctx has ended.
func (m *mending) repair(ctx context.Context) (repair.Outcome, error) {
	defer m.close()
	pause(ctx, time.Until(m.after))
	for wait := mendPause; ; {
		report, err := m.try(ctx)
		switch {
		case err == nil:
			return report, nil
		case ctx.Err() != nil:
			return report, ctx.Err()
		case errors.Is(err, repair.ErrNotRepairable), errors.Is(err, segment.ErrNoLog), errors.Is(err, errLost):
			return report, err
		case errors.Is(err, errMissing):
		default:
			m.tell("%v; trying again. First seen: %v", err, m.cause)
			m.node.logger.Warn("a log cannot be mended at the moment", "log", m.host.name, "error", err)
			m.close()
		}
		pause(ctx, wait)
		wait = min(2*wait, mendPauseTo)
	}
}

// errMissing: no node that answers has what is missing.
var errMissing = errors.New("something is missing")

// try asks for what is missing as long as some of it comes.
func (m *mending) try(ctx context.Context) (report repair.Outcome, err error) {
	select {
	case m.node.mendings <- struct{}{}:
		defer func() { <-m.node.mendings }()
	case <-ctx.Done():
		return report, ctx.Err()
	}
	if m.mender == nil {
		if err := m.open(ctx); err != nil {
			return report, err
		}
	}
	for {
		wants := m.mender.Wants(mendWants)
		if len(wants) == 0 {
			return m.finish()
		}
		progress, err := m.round(ctx, wants)
		if err == nil && !progress {
			err = errMissing
		}
		if err != nil {
			return report, err
		}
	}
}

// finish makes the files whole. The mender is closed by that.
func (m *mending) finish() (repair.Outcome, error) {
	m.mu.Lock()
	mender := m.mender
	m.mender = nil
	m.mu.Unlock()
	return mender.Finish()
}

func (m *mending) open(ctx context.Context) error {
	mender, err := m.begin(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.mender = mender
	m.mu.Unlock()
	if m.unseen() && len(mender.Wants(1)) == 0 {
		return fmt.Errorf("%w: %w", errLost, m.cause) // the files do not tell what is wrong with them
	}
	return nil
}

// openFiles opens the files of a replica that does not run. Where the damaged
// segment is known, the others are not read.
func (m *mending) openFiles(ctx context.Context) (*repair.Repairer, error) {
	n := m.node
	dir := n.replicaDir(m.host.id, m.host.replicaID)
	o := n.segmentOptions(n.owner(m.host.id, m.host.replicaID), n.logger.With("log", m.host.name))
	var corrupt *segment.CorruptError
	if errors.As(m.cause, &corrupt) && strings.HasSuffix(corrupt.File, ".seg") && !m.unseen() {
		mender, err := repair.BeginAt(ctx, n.disk, dir, o, corrupt.File)
		if err != nil || !mender.Report().Whole() {
			return mender, err
		}
		if err := mender.Close(); err != nil {
			return nil, err
		}
	}
	return repair.Begin(ctx, n.disk, dir, o)
}

// unseen: what is wrong with the files need not show in any one of them.
func (m *mending) unseen() bool {
	return errors.Is(m.cause, core.ErrShort) || errors.Is(m.cause, core.ErrSpliced)
}

// round asks once for everything that is missing, and reports whether some of
// it came.
func (m *mending) round(ctx context.Context, wants []repair.Want) (progress bool, err error) {
	m.tell("%s; asking the other nodes for it", m.missing(wants))
	var heard answered
	for _, w := range wants {
		taken, err := m.fetch(ctx, w, &heard)
		if err != nil {
			return progress, err
		}
		progress = progress || taken
	}
	if progress || ctx.Err() != nil {
		return progress, nil
	}
	if begins, trimmed := heard.trimmed(wants[0].First); trimmed && !m.running {
		if !m.mender.Skip(begins.Index, begins.Term) {
			return false, fmt.Errorf("%w: all other nodes have trimmed what is missing, and nothing is known of the state behind it", errLost)
		}
		return true, nil
	}
	m.tell("%s; %s", m.missing(wants), heard.describe())
	return false, nil
}

// missing names what is not whole here.
func (m *mending) missing(wants []repair.Want) string {
	text := fmt.Sprintf("entries %d to %d are missing", wants[0].First, wants[0].Last)
	if more := len(wants) - 1; more > 0 {
		text += fmt.Sprintf(" and %d ranges more", more)
	}
	return text + fmt.Sprintf(" (%v)", m.cause)
}

// fetch asks the nodes one after the other for a range until one has given
// something of it.
func (m *mending) fetch(ctx context.Context, w repair.Want, heard *answered) (taken bool, err error) {
	for _, other := range m.others(heard) {
		taken, err = m.fetchFrom(ctx, other, w, heard)
		if err != nil || taken {
			heard.last = other
			return taken, err
		}
	}
	return false, nil
}

// fetchFrom asks a node for a range, piece by piece until something of it is
// taken: what is at the end of it may prove the rest.
func (m *mending) fetchFrom(ctx context.Context, o other, w repair.Want, heard *answered) (taken bool, err error) {
	for from := w.First; from <= w.To; {
		a, err := m.askFor(ctx, o, from, w.To)
		if err != nil {
			heard.note(o, heardOf{problem: err.Error()})
			return false, nil
		}
		heard.note(o, heardOf{answers: true, begins: cluster.Beginning{Index: a.Begins, Term: a.BeginsTerm}})
		frames := a.frames()
		count, err := m.mender.Give(frames, a.Settled)
		if err != nil || count > 0 || len(frames) == 0 {
			return count > 0, err
		}
		from = max(from, frames[len(frames)-1].Index) + 1
	}
	return false, nil
}

func (m *mending) askFor(ctx context.Context, o other, first, last uint64) (entriesAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, entriesTime)
	defer cancel()
	return m.ask(ctx, o, entriesRequest{Log: m.host.id, First: first, Last: last})
}

func (m *mending) askNode(ctx context.Context, o other, q entriesRequest) (a entriesAnswer, err error) {
	return a, m.node.call(ctx, o.node, askEntries, q, &a)
}

// other is another node that holds, or may hold, the log.
type other struct {
	node uint64
	name string // or address
}

// holders are the nodes that hold the log, the one that gave last first.
func (m *mending) holders(heard *answered) []other {
	n := m.node
	state := n.catalog.Load().shown.Load()
	l := state.Logs[m.host.name]
	var all []other
	for _, r := range slices.Concat(l.Replicas, l.Leaving) {
		o := other{r.Node, state.Nodes[r.Node].Name}
		if r.Node != n.me.Load().NodeID && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b other) int {
		rank := func(o other) int {
			switch {
			case o == heard.last:
				return 0
			case n.neighbours.up(o.node):
				return 1
			}
			return 2
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return all
}

// entries gives others what is whole here.
func (m *mending) entries(lo, hi uint64, maxBytes int) ([]segment.Frame, uint64, error) {
	m.mu.Lock()
	mender := m.mender
	m.mu.Unlock()
	if mender == nil {
		return nil, 0, record.Refuse(record.Busy, "log %q is being looked at on this node", m.host.name)
	}
	return mender.Entries(lo, hi, maxBytes)
}

func (m *mending) close() {
	m.mu.Lock()
	mender := m.mender
	m.mender = nil
	m.mu.Unlock()
	if mender == nil {
		return
	}
	if err := mender.Close(); err != nil {
		m.node.logger.Warn("a damaged log did not close cleanly", "log", m.host.name, "error", err)
	}
}

// answered is what other nodes said in one round.
type answered struct {
	last other // who gave something last
	by   map[string]heardOf
}

type heardOf struct {
	answers bool
	begins  cluster.Beginning
	problem string
}

func (a *answered) note(o other, h heardOf) {
	if a.by == nil {
		a.by = map[string]heardOf{}
	}
	a.by[o.name] = h
}

// trimmed returns where the logs of the others begin, if nobody has the entry at
// index any more.
func (a *answered) trimmed(index uint64) (cluster.Beginning, bool) {
	var others []cluster.Beginning
	for _, h := range a.by {
		others = append(others, h.begins)
	}
	return cluster.TrimmedBy(index, others)
}

// describe tells who does not have what is missing.
func (a *answered) describe() string {
	var without, silent []string
	for name, h := range a.by {
		if h.answers {
			without = append(without, name)
		} else {
			silent = append(silent, name)
		}
	}
	slices.Sort(without)
	slices.Sort(silent)
	var parts []string
	if len(without) > 0 {
		parts = append(parts, "not whole on "+strings.Join(without, ", "))
	}
	if len(silent) > 0 {
		parts = append(parts, "no answer from "+strings.Join(silent, ", "))
	}
	return strings.Join(parts, ", ")
}
