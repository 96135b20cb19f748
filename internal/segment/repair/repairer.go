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

// Repairer repairs a damaged log with entries that other replicas have. No one else has the log
// open. Wants returns the missing entries, Give takes them, Finish replaces the damaged segments
// with new ones, and then Open opens the log. The log does not change before Finish.
//
// Its methods may be called concurrently.
type Repairer struct {
	mu  sync.Mutex
	dir *store.Dir
	log *surveyor // findings of the survey
	stock
	proof
	skips *skipped
	live  *store.Store // the open log, see BeginOnline; nil: the log is not open
	done  error        // the error of every call once the repair is finished, closed or failed
}

// Want is a run of entries that are not whole here.
type Want struct {
	First, Last uint64
	// To is the index up to which entries should be requested: the entry behind Last proves which
	// ones they were, see Give. If an answer ends before To and none of it was taken, the entries
	// that follow it should be requested from the same giver.
	To uint64
	// If Exact is set, First equals Last, and the entry has this term and payload CRC. Otherwise
	// nothing here shows which entries they were.
	Term  uint64
	CRC   uint32
	Exact bool
}

// Outcome reports what Finish did.
type Outcome struct {
	Segments int      // segments rewritten
	Entries  uint64   // entries from other replicas
	Bytes    int64    // payload bytes of these entries
	Aside    []string // names of the damaged files in the log's directory
}

// ErrNotRepairable is returned if entries from other replicas cannot restore the log: its record
// of the replica's term and vote, or of where the log ends, is lost. The replica must be replaced
// by one with a new id.
var ErrNotRepairable = errors.New("the log cannot be repaired; its replica must be replaced by a new one")

// Begin completes what a crash interrupted, and then reads every frame of the log in dir, as
// Survey does. A Repairer of an undamaged log wants nothing. The error is ErrNotRepairable if the
// log cannot be repaired, and ErrNoLog if there is none.
func Begin(ctx context.Context, disk vfs.FS, dir string, o store.Options) (*Repairer, error) {
	return openRepairer(ctx, disk, dir, o, 0, 0)
}

// BeginAt is like Begin for a log in which one segment file is known to be damaged. It reads that
// file, the one before it, all after it, and the newest snapshot. Damage in earlier files shows
// when they are read, and is repaired in the open log, see BeginOnline. The Repairer does not
// give out entries of files that it has not read. If forged is not 0, the entry of that index is
// not what was appended, although its checksums match.
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
				return fmt.Errorf("remove files left by a crash: %w", err)
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

// begin initializes the repair from the survey of d. Entries up to commit are committed.
func (m *Repairer) begin(d *store.Dir, commit uint64) {
	m.dir = d
	m.stock.inventory, m.reader.fs = &m.log.inventory, d.FS
	m.given.init(d)
	m.proof = proof{inventory: &m.log.inventory, commit: commit, term: m.log.hard.Term}
}

// Report returns the findings of the survey. Give does not change them.
func (m *Repairer) Report() *Report { return &m.log.report }

// Wants returns the runs of entries that are not whole yet, in ascending order and at most limit
// of them. Once there are none, Finish can be called.
func (m *Repairer) Wants(limit int) []Want {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.inventory.wants(limit)
}

// Entries returns entries of [lo, hi) that are whole and certain, for the repair of another
// replica: from the first such entry on without a gap, at least one, and as many as fit in
// maxBytes. This log is one history, so uncommitted entries and entries behind missing ones are
// returned, too. Entries up to committed are known to be committed. The error is ErrUnavailable
// if there is no such entry.
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
		return nil, 0, fmt.Errorf("no entry of [%d, %d) is intact here: %w", lo, hi, segment.ErrUnavailable)
	}
	return frames, m.commit, nil
}

// Lacks reports whether an entry is not whole and certain here. It returns false for entries that
// were not read, see BeginAt.
func (m *Repairer) Lacks(index uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.log.inventory
	return m.done == nil && index >= p.first && !slices.ContainsFunc(p.spans, func(s span) bool {
		return s.sound() && s.first <= index && index <= s.last
	})
}

// skipped is the entry before the first one after a Skip.
type skipped struct{ term uint64 }

// Skip gives up all entries below an index, some of which are missing here and which all other
// replicas have trimmed. term is the term of the entry before the index. Skip returns false if
// the log cannot begin there: its entries do not reach that index, or no valid snapshot lets it
// continue. Such a snapshot implies that the entry before the index is committed here too, so it
// is the one that the others had.
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

// Close releases the files. Entries that were given are discarded unless Finish was called.
func (m *Repairer) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done == nil {
		m.done = segment.ErrClosed
	}
	return m.stock.close()
}

// Give takes those of frames that are wanted and proven to belong to this log, and returns how
// many. The frames are consecutive entries of another replica's log (the giver), which knows that
// the entries up to committed are committed.
//
// The log of another replica may differ from this one in uncommitted entries: its entry at an
// index need not be the entry that was here. Two histories must not be mixed, because Raft
// assumes that an entry here implies all entries before it. The proofs rely on two properties of
// Raft. Log matching: (index, term) identifies an entry and all before it. Leader completeness: a
// committed entry precedes every later entry that takes effect.
//
// Each of these proves that an entry is the one that was here:
//
//   - It is committed there, and the entry that was here was committed, too. An
//     entry that is here, which the giver also has and knows to be committed, is
//     committed together with all before it.
//   - Its frame's header is here, and has the same term and CRC.
//   - The entry that follows the gap has its term: the leader of a term makes one
//     entry for an index, and never withdraws it.
//   - It is followed, within frames, by an entry that is here or has been proven.
//     Therefore one more entry than wanted is requested.
//
// That an entry is committed there proves nothing if nothing is known of the entry that was here:
// that one may have been a different one. There is one exception. If nothing is known of the
// entries from that index to the end of the log, and all entries before it are known to be
// committed, the given entry is taken: an entry here that differed can never take effect, whoever
// was told of it. Nothing before it prevents this, since the lost entries may have truncated all
// that was not committed.
//
// ErrNotRepairable means that the entries committed by other replicas are not those that are
// here. The entries behind them never took effect, so no other replica needs to have the missing
// ones. Any other error is an error of the disk.
func (m *Repairer) Give(frames []segment.Entry, committed uint64) (taken int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return 0, m.done
	}
	proven, lost := m.proof.prove(frames, committed)
	for from := 0; from < len(frames); {
		to := from
		for to < len(frames) && proven[to] && (to == from || frames[to].Index == frames[to-1].Index+1) {
			to++
		}
		if to == from {
			from++
			continue
		}
		n, err := m.stock.take(frames[from:to])
		taken += n
		if err != nil {
			return taken, fmt.Errorf("repair log in %s: %w", m.dir.Path, err)
		}
		from = to
	}
	if err := m.forsaken(lost); err != nil {
		return taken, fmt.Errorf("repair log in %s: %w", m.dir.Path, err)
	}
	return taken, nil
}

// Finish writes new segments from the entries that are here and those that were given, and
// replaces the damaged segments with them. The damaged files are kept aside. Then the Repairer is
// closed, and Open opens the log. Finish returns an error while entries are missing.
//
// After a crash the log is as it was before, or the next Open or Begin completes the replacement.
// After an error, open the log again, for repair or for use.
func (m *Repairer) Finish() (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return Outcome{}, m.done
	}
	if wants := m.log.inventory.wants(1); len(wants) > 0 {
		return Outcome{}, fmt.Errorf("finish the repair: entries %d to %d are still missing", wants[0].First, wants[0].Last)
	}
	n := &rebuild{Repairer: m}
	r, err := m.finish(n)
	m.done = segment.ErrClosed
	err = errors.Join(err, m.stock.close())
	if err != nil {
		err = errors.Join(err, n.removeUnfinished(m.given.source.path))
		return r, fmt.Errorf("finish the repair of the log in %s: %w", m.dir.Path, err)
	}
	return r, nil
}

func (m *Repairer) finish(n *rebuild) (Outcome, error) {
	r := Outcome{Entries: m.given.entries, Bytes: m.given.bytes}
	names, err := n.remake()
	if err != nil {
		return r, err
	}
	r.Segments = len(names)
	if m.live != nil {
		return r, m.live.Exchange(n.made)
	}
	d := m.dir
	before, err := d.List()
	if err != nil {
		return r, err
	}
	for _, name := range names {
		if err := d.FS.Rename(name+vfs.TemporarySuffix, name); err != nil {
			return r, err
		}
	}
	found, err := d.List()
	if err != nil {
		return r, err
	}
	if len(names) > 0 {
		if err := found.SwapRepairs(); err != nil {
			return r, err
		}
	}
	for _, index := range m.log.spoiled {
		if err := d.SetAside(d.SnapshotPath(index)); err != nil {
			return r, err
		}
	}
	if err := d.SetForeignAside(m.log.foreign); err != nil {
		return r, err
	}
	if m.skips != nil {
		if err := d.Begin.Move(m.log.parts[0].ordinal, m.log.inventory.first); err != nil {
			return r, err
		}
	}
	if err := d.SyncDir(); err != nil {
		return r, err
	}
	if n.end != nil {
		mark := m.log.watermark
		if err := errors.Join(mark.Write(*n.end), mark.Close()); err != nil {
			return r, err
		}
	}
	after, err := d.List()
	if err != nil {
		return r, err
	}
	r.Aside = after.Aside[len(before.Aside):]
	return r, nil
}
