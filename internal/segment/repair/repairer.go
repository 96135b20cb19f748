package repair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Repairer makes a damaged log whole with entries that other replicas have. It is
// the only one that has the log open. Wants returns what is missing, Give takes
// it, Finish puts new segments in the place of the damaged ones, and then Open
// opens the log. Nothing of the log changes before Finish.
//
// Its methods may be called from many goroutines.
type Repairer struct {
	mu  sync.Mutex
	dir *store.Dir
	log *surveyor // what was found
	stock
	proof
	skips *skipped
	live  *store.Store // the open log, see BeginOnline; nil: nobody else has it open
	done  error        // what every call answers once it is finished, closed or failed
}

// Want is a run of entries that are not whole here.
type Want struct {
	First, Last uint64
	// To is up to where to ask for it: the entry behind Last proves which they
	// were, see Give. If an answer ends before To and nothing of it was taken,
	// what follows it should be asked for, of the same giver.
	To uint64
	// Exact: First is Last, and the entry has this term and this CRC of its
	// payload. Otherwise nobody here knows which entries they were.
	Term  uint64
	CRC   uint32
	Exact bool
}

// Outcome is what Finish did.
type Outcome struct {
	Segments int      // made anew
	Entries  uint64   // that came from others
	Bytes    int64    // of their payload
	Aside    []string // names of the damaged files in the log's directory
}

// ErrNotRepairable: no entries from others make the log what it was: what
// it says of the replica's promises, its term and vote, or where it ends, is
// lost. The replica must come back under a new id.
var ErrNotRepairable = errors.New("the log cannot be repaired, its replica must be replaced by a new one")

// Begin reads every frame of the log in dir, as Survey does, after it has
// finished what a crash interrupted. A whole log has a Repairer too, which wants
// nothing. ErrNotRepairable: it cannot be repaired. ErrNoLog: there is none.
func Begin(ctx context.Context, disk vfs.FS, dir string, o store.Options) (*Repairer, error) {
	return openRepairer(ctx, disk, dir, o, 0, 0)
}

// BeginAt is Begin for a log of which a segment file is known to be
// damaged. It reads that one, the one before it and those after it, up to the
// newest, and the newest snapshot: damage further down shows when it is read, and
// is repaired in the open log, see Store.OpenRepair. Entries of what it has not
// read it does not give. The entry forged, if not 0, is not what was appended, though its checksums match.
func BeginAt(ctx context.Context, disk vfs.FS, dir string, o store.Options, file string, forged uint64) (*Repairer, error) {
	ordinal, _, _ := strings.Cut(filepath.Base(file), "-")
	suspect, err := strconv.ParseUint(ordinal, 10, 64)
	if err != nil {
		suspect = 0
	}
	return openRepairer(ctx, disk, dir, o, suspect, forged)
}

func openRepairer(ctx context.Context, disk vfs.FS, dir string, o store.Options, suspect, forged uint64) (*Repairer, error) {
	m := &Repairer{}
	if err := m.start(ctx, store.NewDir(disk, dir, o), suspect, forged); err != nil {
		return nil, fmt.Errorf("open log in %s for repair: %w", dir, err)
	}
	return m, nil
}

func (m *Repairer) start(ctx context.Context, d *store.Dir, suspect, forged uint64) error {
	found, err := d.List()
	if err != nil {
		return err
	}
	d.Begin.Adopt(found)
	if found, err = found.FinishSwaps(); err != nil {
		return err
	}
	for _, name := range found.Temporary {
		if strings.HasSuffix(name, vfs.TemporarySuffix) {
			if err := d.FS.Remove(filepath.Join(d.Path, name)); err != nil {
				return fmt.Errorf("remove what a crash left: %w", err)
			}
		}
	}
	if m.log, err = surveyFrom(ctx, d.FS, d.Path, d.Options, suspect, forged, nil); err != nil {
		return err
	}
	d.Options.Owner = m.log.dir.Options.Owner
	if m.log.report.forgotten() != nil {
		return fmt.Errorf("%w: %w", ErrNotRepairable, m.log.report.corruption())
	}
	commit := m.log.hard.Commit
	if n := len(m.log.snapshots); n > 0 {
		commit = max(commit, m.log.snapshots[n-1])
	}
	m.begin(d, commit)
	return nil
}

// begin takes what was found in d. Entries up to commit are committed.
func (m *Repairer) begin(d *store.Dir, commit uint64) {
	m.dir = d
	m.stock.inventory, m.reader.fs = &m.log.inventory, d.FS
	m.given.init(d)
	m.proof = proof{inventory: &m.log.inventory, commit: commit, term: m.log.hard.Term}
}

// Report is what was found. It does not change with what is given.
func (m *Repairer) Report() *Report { return &m.log.report }

// Wants returns what is not whole yet, rising, at most limit runs. Without any,
// Finish can be called.
func (m *Repairer) Wants(limit int) []Want {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.inventory.wants(limit)
}

// Entries gives others who repair what is whole and certain here of [lo, hi): from
// the first such entry on without a gap, as many as fit, at least one. What was
// here is one history, so that holds for entries that are not committed too, and
// for those behind what is missing here. It returns up to which index they are
// known to be committed. ErrUnavailable if there is none.
func (m *Repairer) Entries(lo, hi uint64, maxBytes int) (frames []segment.Entry, committed uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return nil, 0, m.done
	}
	bytes, full := 0, false
	for _, s := range m.log.inventory.spans {
		i := max(s.first, lo)
		if s.last < lo || !s.sound() && len(frames) == 0 {
			continue
		}
		if i >= hi || full || !s.sound() {
			break
		}
		err := m.reader.entries(&s, i, min(s.last, hi-1), func(f segment.Entry) bool {
			if bytes += len(f.Payload); len(frames) > 0 && bytes > maxBytes {
				full = true
				return false
			}
			f.Payload = slices.Clone(f.Payload)
			frames = append(frames, f)
			return true
		})
		if err != nil {
			return nil, 0, err
		}
	}
	if len(frames) == 0 {
		return nil, 0, fmt.Errorf("no entry of [%d, %d) is whole here: %w", lo, hi, segment.ErrUnavailable)
	}
	return frames, m.commit, nil
}

// Lacks reports whether an entry is not whole and certain here. Of entries that it has not
// read, see BeginAt, it says that they are not lacking.
func (m *Repairer) Lacks(index uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.log.inventory
	return m.done == nil && index >= p.first && !slices.ContainsFunc(p.spans, func(s span) bool {
		return s.sound() && s.first <= index && index <= s.last
	})
}

// skipped is the entry before the first, after a Skip.
type skipped struct{ term uint64 }

// Skip gives up everything below an index, which all others have trimmed, and of
// which something is missing here. term is that of the entry before the index.
// It reports false if the log cannot begin there: it has no entries up to it,
// or no valid snapshot from which to continue. With one, the entry before the index
// is committed here too, so it is the one that others had.
func (m *Repairer) Skip(below, term uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.log.inventory
	sound := true
	for _, s := range p.spans {
		sound = sound && (s.sound() || s.first >= below)
	}
	if m.done != nil || sound {
		return m.done == nil
	}
	n := len(m.log.snapshots)
	if below > p.next() || n == 0 || m.log.snapshots[n-1]+1 < below {
		return false
	}
	ordinal := m.log.parts[len(m.log.parts)-1].ordinal
	from := p.split(below)
	if from < len(p.spans) {
		ordinal = p.spans[from].home
	}
	p.first, p.spans = below, slices.Clone(p.spans[from:])
	m.log.parts = slices.DeleteFunc(m.log.parts, func(p part) bool { return p.ordinal < ordinal })
	m.log.parts[0].damaged, m.log.from = true, 0
	m.skips = &skipped{term}
	return true
}

// Close releases the files. What was given and not finished is lost.
func (m *Repairer) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done == nil {
		m.done = segment.ErrClosed
	}
	return m.stock.close()
}
