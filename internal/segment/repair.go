package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// ErrNotSealed is the answer of OpenRepair for damage that cannot be repaired
	// while the log is open: in a segment of which no entry counts, or in another
	// file.
	ErrNotSealed = errors.New("not a sealed segment")
	// ErrUnsettled: not all entries of the segment are known to be committed yet,
	// or it is still written to. The next write begins another segment then.
	ErrUnsettled = errors.New("the segment has entries that are not known to be committed")
)

// OpenRepair begins the repair of a segment file of this log, which stays open:
// it is written to and read as before, except for the entries that are damaged.
// Entries up to settled are committed and never change. That is the whole proof
// that an entry of another replica belongs here, which it knows to be committed
// too; nothing else of the log is read. Finish puts the repaired segment in the
// place of the damaged one.
//
// ErrTrimmed: the segment has left the log. A log has one repair at a time.
func (s *Store) OpenRepair(path string, settled uint64) (*Mender, error) {
	m, err := s.openRepair(path, settled)
	if err != nil {
		return nil, fmt.Errorf("repair %s: %w", path, err)
	}
	return m, nil
}

func (s *Store) openRepair(path string, settled uint64) (*Mender, error) {
	if err := s.failed(); err != nil {
		return nil, err
	}
	group, next, err := s.repairGroup(path, settled)
	if err != nil {
		return nil, err
	}
	shadow := &Store{fs: s.fs, dir: s.dir, options: s.options}
	m := &Mender{store: shadow, log: &surveyor{store: shadow, hard: s.HardState()}, commit: settled, live: s}
	m.reader.fs = s.fs
	m.given.init(shadow)
	m.log.picture.first, m.log.picture.commit = group[0].first, settled
	for i, g := range group {
		behind := next.header
		if i+1 < len(group) {
			behind = group[i+1].header
		}
		if err := m.log.picture.addSealed(s, g, behind); err != nil {
			return nil, err
		}
		m.log.parts = append(m.log.parts, part{
			ordinal: g.ordinal, first: g.first, path: g.path, size: g.size, header: g.header, damaged: true,
		})
	}
	m.log.parts = append(m.log.parts, next)
	return m, nil
}

// sealed is a segment under repair.
type sealed struct {
	*segment
	header *header // nil: it is lost
	index  *index  // as far as it is in memory
	end    uint64  // one beyond the last entry that counts
	size   int64
}

// repairGroup returns the segment of a path with those that have to be laid out
// anew with it, and the part behind them, of which the header is known. A segment
// whose header is lost takes the one before it along: the header told where that
// ends.
func (s *Store) repairGroup(path string, settled uint64) (group []sealed, next part, err error) {
	s.mu.RLock()
	segments := s.segments
	at := slices.IndexFunc(segments, func(seg *segment) bool { return seg.path == path })
	s.mu.RUnlock()
	if at < 0 {
		if filepath.Dir(path) == s.dir && strings.HasSuffix(path, ".seg") {
			return nil, next, ErrTrimmed
		}
		return nil, next, ErrNotSealed
	}
	first, last := at, at
	for ; ; first-- {
		g, err := s.seal(segments[first], settled)
		if err != nil {
			return nil, next, err
		}
		group = slices.Insert(group, 0, g)
		if g.header != nil || first == 0 {
			break // the header of the first segment is always known
		}
	}
	for {
		behind := segments[last+1] // the active segment is the last, and known
		h, err := s.headerOf(behind)
		if err == nil {
			return group, part{ordinal: behind.ordinal, first: behind.first, path: behind.path, header: h}, nil
		}
		if !damagedFile(err) {
			return nil, next, err
		}
		g, err := s.seal(behind, settled)
		if err != nil {
			return nil, next, err
		}
		group = append(group, g)
		last++
	}
}

// seal returns what is known of a segment; ErrNotSealed if it cannot be repaired
// in an open log.
func (s *Store) seal(seg *segment, settled uint64) (g sealed, err error) {
	s.mu.RLock()
	live, active := slices.Contains(s.live, seg) && !seg.gone, seg == s.active
	g = sealed{segment: seg, index: seg.index, end: seg.end, size: max(seg.size, seg.filled.Load())}
	s.mu.RUnlock()
	if !live {
		return g, fmt.Errorf("%s: %w", seg.path, ErrNotSealed)
	}
	if active {
		s.sealNext.Store(seg.ordinal)
		return g, fmt.Errorf("%s is written to: %w", seg.path, ErrUnsettled)
	}
	if g.end > settled+1 {
		return g, fmt.Errorf("entries [%d, %d) of %s, committed up to %d: %w", seg.first, g.end, seg.path, settled, ErrUnsettled)
	}
	g.header, err = s.headerOf(seg)
	if err != nil && !damagedFile(err) {
		return g, err
	}
	return g, nil
}

// damagedFile reports whether an error of reading a file of the log tells of
// damage, which includes that it is gone.
func damagedFile(err error) bool {
	return errors.As(err, new(*CorruptError)) || errors.Is(err, fs.ErrNotExist)
}

// addSealed adds the entries of a segment to the picture. Which frames count is
// told by the index: without one, all entries are missing. behind is the header
// of the next segment; nil if it is lost.
func (p *picture) addSealed(s *Store, g sealed, behind *header) error {
	defer func() {
		if p.next() < g.end {
			p.lose(g.ordinal)
			p.reach(g.end, 0)
		}
	}()
	file, err := s.fs.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	err = p.addRuns(file, g, behind)
	return errors.Join(err, file.Close())
}

func (p *picture) addRuns(file File, g sealed, behind *header) error {
	h, x := g.header, g.index
	if h == nil && behind != nil && behind.saltBefore != 0 {
		h = &header{salt: behind.saltBefore, first: g.first}
	}
	if h == nil {
		return nil
	}
	footer := h.footer
	if footer == 0 && behind != nil {
		footer = behind.footerBefore
	}
	if x == nil && footer >= headerSize {
		x, _ = readFooter(file, h, footer) // one that cannot be read is lost
	}
	if x == nil {
		return nil
	}
	from := &source{g.path, h.salt}
	for i, r := range x.runs {
		stop := min(x.next, g.end)
		if i+1 < len(x.runs) {
			stop = min(stop, x.runs[i+1].first)
		}
		w := &walker{scanner: scanner{file: file, path: g.path, header: h, size: g.size, holes: true}, end: r.end}
		if err := p.addRun(w, r, stop, g.ordinal, from); err != nil {
			return err
		}
	}
	return nil
}

// addRun adds the entries [r.first, stop): within a run each frame counts.
func (p *picture) addRun(w *walker, r run, stop uint64, home uint64, from *source) error {
	for position := r.begin; position < r.end && p.next() < stop; {
		h, _, bad, err := w.look(position)
		if err != nil {
			return err
		}
		if h.kind == 0 || h.kind == entryFrame && (h.index < p.next() || h.index >= stop) {
			p.lose(home)
			if position, err = w.nextFrame(position + frameAlignment); err != nil {
				return err
			}
			continue
		}
		if h.kind == entryFrame {
			kind := whole
			if bad != nil {
				kind = broken
			}
			if h.index > p.next() {
				p.lose(home)
			}
			p.entry(&h, kind, home, from, position)
		}
		position += h.size()
	}
	return nil
}

// remade is a segment that was laid out anew.
type remade struct {
	name   string // of its file, without the suffix of what is not complete
	header *header
	index  *index
}

// exchange puts segments that were made anew in the place of those in use. Who
// reads the old files goes on with them; who comes now reads the new ones, by
// handles that were opened before the names change. A crash leaves the names in a
// state that the next Open finishes, see swapMends.
func (s *Store) exchange(made []remade) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	var fresh []*segment
	defer func() {
		for _, seg := range fresh {
			_ = s.release(seg) // closes the handle: nothing can fail that was not tried before
		}
	}()
	for _, r := range made {
		file, err := s.fs.Open(r.name + temporarySuffix)
		if err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		seg := &segment{
			ordinal: r.header.ordinal, first: r.header.first, path: strings.TrimSuffix(r.name, mendSuffix) + ".seg",
			header: r.header, index: r.index, terms: r.index.terms, footer: true, file: file, users: 1,
		}
		seg.unnamed.Store(true)
		fresh = append(fresh, seg)
		if seg.size, err = file.Size(); err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		seg.filled.Store(seg.size)
	}
	old, err := s.install(fresh)
	if err != nil {
		return err
	}
	err = func() error {
		for _, r := range made {
			if err := s.fs.Rename(r.name+temporarySuffix, r.name); err != nil {
				return err
			}
		}
		found, err := s.list()
		if err != nil {
			return err
		}
		return s.swapMends(found)
	}()
	for _, seg := range old {
		seg.loading.Unlock()
	}
	for _, seg := range fresh {
		seg.unnamed.Store(false)
	}
	if err != nil {
		return s.fail(fmt.Errorf("exchange a repaired segment: %w", err))
	}
	return nil
}

// install shows segments instead of those with the same ordinals, which it
// returns with their loading locked: nobody opens one while names change.
func (s *Store) install(fresh []*segment) (old []*segment, err error) {
	s.mu.RLock()
	for _, seg := range fresh {
		at := int64(seg.ordinal) - int64(s.segments[0].ordinal)
		if at < 0 || at >= int64(len(s.segments)) {
			err = fmt.Errorf("segment %s left the log: %w", seg.path, ErrTrimmed)
			break
		}
		old = append(old, s.segments[at])
	}
	s.mu.RUnlock()
	if err != nil {
		return nil, err // nothing else recycles while upkeep is held
	}
	for _, seg := range old {
		seg.loading.Lock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments, s.live = slices.Clone(s.segments), slices.Clone(s.live)
	for i, seg := range fresh {
		seg.end = old[i].end
		s.segments[seg.ordinal-s.segments[0].ordinal] = seg
		if at := slices.Index(s.live, old[i]); at >= 0 {
			s.live[at] = seg
		}
		old[i].gone, old[i].removed = true, true
	}
	return old, nil
}
