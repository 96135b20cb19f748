package replicas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
)

// fetcher fetches the entries that cannot be read here from the other nodes that hold the log.
// repair.Repairer decides which of their answers are valid.
type fetcher struct {
	repairs *Repairs
	host    *hosted.Log
	cause   error
	// others are the nodes to ask, and ask asks one of them.
	others func(*answered) []other
	ask    func(context.Context, other, EntriesRequest) (EntriesAnswer, error)
	// say sets the text that callers of the log get meanwhile.
	say func(text string)
	// running: the replica continues to run during the repair, see repairs.
	running bool

	mu      sync.Mutex
	rebuild *repair.Repairer // nil while it is not open
}

// report tells callers of the log how the repair proceeds.
func (f *fetcher) report(format string, args ...any) { f.say(fmt.Sprintf(format, args...)) }

// round requests all missing entries once, and reports whether some arrived.
func (f *fetcher) round(ctx context.Context, wants []repair.Want) (progress bool, err error) {
	f.report("%s; asking the other nodes for it", f.missing(wants))
	heard := answered{first: wants[0].First}
	for _, w := range wants {
		taken, err := f.fetch(ctx, w, &heard)
		if err != nil {
			return progress, err
		}
		progress = progress || taken
	}
	if progress || ctx.Err() != nil {
		return progress, nil
	}
	if begins, trimmed := heard.trimmed(); trimmed {
		if f.running {
			f.report("%s; it is trimmed on other nodes, and none has it", f.missing(wants))
			return false, trimmedElsewhere{wants[0].Last, begins.Index}
		}
		if !f.rebuild.Skip(begins.Index, begins.Term) {
			return false, fmt.Errorf("%w: the missing entries are trimmed on the other nodes, and their state is unknown", errLost)
		}
		return true, nil
	}
	f.report("%s; %s", f.missing(wants), heard.describe())
	return false, nil
}

// missing describes the missing entries.
func (f *fetcher) missing(wants []repair.Want) string {
	text := fmt.Sprintf("entries %d to %d are missing", wants[0].First, wants[0].Last)
	if more := len(wants) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more ranges", more)
	}
	return text + fmt.Sprintf(" (%v)", f.cause)
}

// fetch requests a range from the nodes, one after the other, until one has returned a part of it.
func (f *fetcher) fetch(ctx context.Context, w repair.Want, heard *answered) (taken bool, err error) {
	for _, other := range f.others(heard) {
		taken, err = f.fetchFrom(ctx, other, w, heard)
		if err != nil || taken {
			heard.last = other
			return taken, err
		}
	}
	return false, nil
}

// fetchFrom requests a range from a node, piece by piece, until a piece is accepted: the entries at
// its end may prove the rest.
func (f *fetcher) fetchFrom(ctx context.Context, o other, w repair.Want, heard *answered) (taken bool, err error) {
	for from := w.First; from <= w.To; {
		a, err := f.askFor(ctx, o, from, w.To)
		if err != nil {
			heard.note(o, from, heardOf{problem: err.Error()})
			return false, nil
		}
		heard.note(o, from, heardOf{answers: true, Holder: cluster.Holder{
			Begins: cluster.Beginning{Index: a.Begins, Term: a.BeginsTerm}, Lacks: a.Lacks,
		}})
		frames := a.Valid()
		count, err := f.rebuild.Give(frames, a.Settled)
		if err != nil || count > 0 || len(frames) == 0 {
			return count > 0, err
		}
		from = max(from, frames[len(frames)-1].Index) + 1
	}
	return false, nil
}

func (f *fetcher) askFor(ctx context.Context, o other, first, last uint64) (EntriesAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, entriesTime)
	defer cancel()
	return f.ask(ctx, o, EntriesRequest{Log: f.host.ID, First: first, Last: last, Bytes: true})
}

func (f *fetcher) askNode(ctx context.Context, o other, q EntriesRequest) (a EntriesAnswer, err error) {
	return a, f.repairs.caller.Call(ctx, o.node, peers.AskEntries, q, &a)
}

// holders are the nodes that hold the log, the one that gave last first.
func (f *fetcher) holders(heard *answered) []other {
	state := f.repairs.catalog.Load().Shown.Load()
	l := state.Logs[f.host.Name]
	var all []other
	for _, r := range l.All() {
		o := other{r.Node, state.Nodes[r.Node].Name}
		if r.Node != f.repairs.me.Load().NodeID && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b other) int {
		rank := func(o other) int {
			switch {
			case o == heard.last:
				return 0
			case f.repairs.peers.Status.Up(o.node):
				return 1
			}
			return 2
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return all
}

// Lacks reports whether an entry is known to be missing or damaged here.
func (f *fetcher) Lacks(index uint64) bool {
	f.mu.Lock()
	rebuild := f.rebuild
	f.mu.Unlock()
	return rebuild != nil && rebuild.Lacks(index)
}

// Entries returns the undamaged entries for other nodes.
func (f *fetcher) Entries(lo, hi uint64, maxBytes int) ([]segment.Entry, uint64, error) {
	f.mu.Lock()
	rebuild := f.rebuild
	f.mu.Unlock()
	if rebuild == nil {
		return nil, 0, record.Refuse(record.Busy, "log %q is being checked on this node", f.host.Name)
	}
	return rebuild.Entries(lo, hi, maxBytes)
}

func (f *fetcher) close() {
	f.mu.Lock()
	rebuild := f.rebuild
	f.rebuild = nil
	f.mu.Unlock()
	if rebuild == nil {
		return
	}
	if err := rebuild.Close(); err != nil {
		f.repairs.logger.Warn("a damaged log did not close cleanly", "log", f.host.Name, "error", err)
	}
}

// finish makes the files whole. The repairer is closed by that.
func (f *fetcher) finish() (repair.Outcome, error) {
	f.mu.Lock()
	rebuild := f.rebuild
	f.rebuild = nil
	f.mu.Unlock()
	return rebuild.Finish()
}

// other is another node that holds, or may hold, the log.
type other struct {
	node uint64
	name string // or address
}

// answered holds the answers of other nodes in one round.
type answered struct {
	first uint64 // first missing entry
	last  other  // the node that last returned entries
	by    map[string]heardOf
}

type heardOf struct {
	cluster.Holder // of answered.first
	answers        bool
	problem        string
}

// note stores the answer of a node to a request for entries from an index on.
func (a *answered) note(o other, from uint64, h heardOf) {
	if a.by == nil {
		a.by = map[string]heardOf{}
	}
	h.Lacks = h.Lacks && from == a.first || a.by[o.name].Lacks
	a.by[o.name] = h
}

// trimmed returns where the logs of the other nodes begin, if the first missing entry is trimmed
// and no node has it.
func (a *answered) trimmed() (cluster.Beginning, bool) {
	var others []cluster.Holder
	for _, h := range a.by {
		others = append(others, h.Holder)
	}
	return cluster.TrimmedBy(a.first, others)
}

// describe names the nodes that do not have the missing entries.
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
