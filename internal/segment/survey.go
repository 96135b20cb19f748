package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"strandline.dev/internal/record"
)

// Report is what Survey found in the directory of a log.
type Report struct {
	Owner               Owner // whose log it is
	Segments, Snapshots int
	Bytes               int64 // of all these files
	Entries             uint64
	First, Last         uint64        // the log is [First, Last], readable or not; Last = First-1 if it is empty
	Start, End          record.Offset // of the records in it; Start is unknown (-1) if the first entry is
	HardState           HardState

	// Torn, if not nil, tells of writes that were never synced and reached the
	// disk in part. That is no damage: a start cuts them.
	Torn *Torn
	// Damage is what was durable and is not as it was written.
	Damage []Damage
	// Unfinished are files of a Reset or a mending that a crash interrupted. The
	// report is of the log as the next Open makes it of them.
	Unfinished []string
	// Aside are damaged files that were replaced. Nothing reads them.
	Aside []string
}

// Torn is where the newest segment is cut.
type Torn struct {
	File     string // path
	Position int64
	Detail   string
}

// Damage is one stretch of a file.
type Damage struct {
	File           string        // path; the name of a missing file ends in * if its first index is not known
	Position, Size int64         // bytes; Size 0: the whole file
	First, Last    uint64        // the entries that are lost with it; 0: none
	Start, End     record.Offset // their records are in [Start, End), as far as entries beside them tell
	Detail         string
	// Renew: entries from other replicas cannot mend it, see ErrForgotten.
	Renew bool
}

// Whole tells that there is nothing to mend.
func (r *Report) Whole() bool { return len(r.Damage) == 0 }

// Survey reads every frame of the log in dir, which nobody writes to
// meanwhile, and its snapshots. It changes nothing. progress, if not nil,
// hears now and then how many of all bytes were read. Its error is one of
// reading, or that of ctx, or ErrNoLog; damage is a result. Of o, Owner and
// Watermark count.
func Survey(ctx context.Context, disk FS, dir string, o Options, progress func(done, total int64)) (*Report, error) {
	v, err := survey(ctx, disk, dir, o, progress)
	if err != nil {
		return nil, fmt.Errorf("survey log in %s: %w", dir, err)
	}
	return &v.report, nil
}

// surveyor walks the files of a log and draws the picture of its entries.
type surveyor struct {
	store   *Store // lists files and reads snapshots; it is not open
	report  Report
	picture picture

	parts     []part // by ordinal, without a gap
	snapshots []uint64
	spoiled   []uint64 // snapshots that are not valid
	strays    []stray
	hard      HardState
	sure      bool // hard is the newest

	narrowed bool   // parts are not all there are
	logFirst uint64 // first index of the log, if narrowed

	from, at  int       // the first part of which an entry counts, and the one under way
	damaged   *[]Damage // of report
	open      []int     // of Damage: what is lost there shows at the next valid frame
	ends      []int     // of Damage: where its records end shows at the next valid entry
	hardAt    int       // the damage since which the hard state is not sure
	done      int64
	tellBytes func(done int64) error
}

// part is a segment of a log that may be damaged.
type part struct {
	ordinal uint64
	first   uint64 // by its name; 0: the file is missing and its name unknown
	path    string
	size    int64
	missing bool
	damaged bool
	header  *header // nil if it is not valid
	reason  error   // why it is not
	end     int64   // position behind the last frame
	footer  int64   // position of the footer, if that is the last frame; else 0
}

func newSurveyor(disk FS, dir string, o Options) *surveyor {
	o = Options{Owner: o.Owner, Watermark: o.Watermark}
	v := &surveyor{store: &Store{fs: disk, dir: dir, options: o.withDefaults()}}
	v.damaged = &v.report.Damage
	v.tellBytes = func(int64) error { return nil }
	return v
}

func survey(ctx context.Context, disk FS, dir string, o Options, progress func(done, total int64)) (*surveyor, error) {
	return surveyFrom(ctx, disk, dir, o, 0, progress)
}

// surveyFrom is survey of a log of which only the segments from the one before the
// ordinal suspect on are read, and the newest snapshot; 0: all.
func surveyFrom(ctx context.Context, disk FS, dir string, o Options, suspect uint64, progress func(done, total int64)) (*surveyor, error) {
	v := newSurveyor(disk, dir, o)
	found, err := v.store.list()
	if err != nil {
		return nil, err
	}
	lacks, err := v.store.readWitness()
	if err != nil {
		return nil, err
	}
	v.report.Unfinished, v.report.Aside = found.unfinished(), found.aside
	if err := v.store.foresee(found); err != nil {
		return nil, err
	}
	if len(found.segments) == 0 && found.begin == nil {
		return nil, ErrNoLog
	}
	if err := v.narrow(found, suspect); err != nil {
		return nil, err
	}
	for _, p := range v.parts {
		v.report.Bytes += p.size
	}
	v.tellBytes = func(done int64) error {
		if progress != nil {
			progress(done, v.report.Bytes)
		}
		return ctx.Err()
	}
	if err := v.walkParts(0, len(v.parts)); err != nil {
		return nil, err
	}
	if err := v.readSnapshots(found); err != nil {
		return nil, err
	}
	v.reportStrays(found, lacks)
	v.conclude()
	return v, nil
}

// narrow makes the parts: all, or those from the one before suspect on. The first
// of them has to be known: entries of it count, and its header tells where it
// begins.
func (v *surveyor) narrow(found *files, suspect uint64) error {
	from := sort.Search(len(found.segments), func(k int) bool { return found.segments[k].ordinal >= suspect }) - 1
	for ; from > 0; from-- {
		if hidden(found.segments[from:]) {
			continue
		}
		rest := *found
		rest.segments, rest.begin = found.segments[from:], nil
		if err := v.readHeaders(&rest); err != nil {
			return err
		}
		if v.parts[0].header != nil {
			v.narrowed = true
			v.logFirst = found.segments[0].first
			if found.begin != nil {
				v.logFirst = found.begin.first
			}
			return nil
		}
		v.parts = nil
	}
	return v.readHeaders(found)
}

// hidden reports whether no entry of the first segment counts.
func hidden(segments []*segment) bool {
	return slices.ContainsFunc(segments[1:], func(later *segment) bool { return later.first <= segments[0].first })
}

// judge is the error for damage in the segments [from, to], which Open came
// across: it looks at what surrounds it, and at the end of the log.
func (s *Store) judge(found *files, from, to uint64) error {
	v := newSurveyor(s.fs, s.dir, s.options)
	v.store.witness = s.witness
	if err := v.readHeaders(found); err != nil {
		return err
	}
	begin := v.parts[0].ordinal
	if err := v.walkParts(int(from-begin), int(to-begin)+1); err != nil {
		return err
	}
	if v.report.Whole() {
		return fmt.Errorf("segments %d to %d were damaged a moment ago and are not any more", from, to)
	}
	return v.report.corruption()
}

// walkParts draws the picture of the parts [from, to).
func (v *surveyor) walkParts(from, to int) error {
	v.from = from
	for v.from+1 < to && v.hidden(v.from) {
		v.from++ // the log begins with the first part of which an entry counts
	}
	for v.at = from; v.at < to; v.at++ {
		walk := v.walkPart
		if v.hidden(v.at) {
			walk = v.walkHidden
		}
		if err := walk(); err != nil {
			return err
		}
	}
	if to == len(v.parts) {
		v.judgeEnd()
		v.hearWitness()
	}
	return nil
}

// hidden tells that no entry of a part counts: a later one begins with the same
// or further down.
func (v *surveyor) hidden(k int) bool {
	for _, later := range v.parts[k+1:] {
		if later.first > 0 && later.first <= v.parts[k].first {
			return true
		}
	}
	return false
}

// walkHidden walks a part beside the picture: what it says of entries was
// superseded, and none is lost with it.
func (v *surveyor) walkHidden() error {
	kept, open, ends, from, start, damage := v.picture, v.open, v.ends, v.from, v.report.Start, len(*v.damaged)
	v.picture, v.open, v.ends, v.from = picture{}, nil, nil, v.at
	err := v.walkPart()
	v.picture, v.open, v.ends, v.from, v.report.Start = kept, open, ends, from, start
	for k := range (*v.damaged)[damage:] {
		d := &(*v.damaged)[damage+k]
		d.First, d.Last, d.Start, d.End = 0, 0, 0, 0
	}
	return err
}

// readHeaders makes the parts. A file that is missing has one too.
func (v *surveyor) readHeaders(found *files) error {
	segments := found.segments
	if b := found.begin; b != nil {
		segments = slices.DeleteFunc(slices.Clone(segments), func(s *segment) bool { return s.ordinal < b.ordinal })
		if len(segments) == 0 || segments[0].ordinal > b.ordinal {
			v.miss(b.ordinal, b.first)
		}
	}
	for _, seg := range segments {
		for n := len(v.parts); n > 0 && v.parts[n-1].ordinal+1 < seg.ordinal; n++ {
			v.miss(v.parts[n-1].ordinal+1, 0)
		}
		p := part{ordinal: seg.ordinal, first: seg.first, path: seg.path, size: seg.size}
		file, err := v.store.fs.Open(seg.path)
		if err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		p.header, err = v.store.readHeader(seg, file)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			p.reason, err = errors.New(corrupt.Detail), nil
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		v.parts = append(v.parts, p)
	}
	for k := 1; k < len(v.parts); k++ {
		p, next := &v.parts[k-1], &v.parts[k]
		if p.header == nil || next.header == nil {
			continue
		}
		if p.reason = next.header.comesAfter(p.header); p.reason != nil {
			p.header = nil
		}
	}
	return nil
}

func (v *surveyor) miss(ordinal, first uint64) {
	name := fmt.Sprintf("%020d-*.seg", ordinal)
	if first > 0 {
		name = segmentName(ordinal, first) + ".seg"
	}
	v.parts = append(v.parts, part{ordinal: ordinal, first: first, missing: true, damaged: true, path: filepath.Join(v.store.dir, name)})
}

func (v *surveyor) newest() bool { return v.at == len(v.parts)-1 }

// walkPart adds one part to the picture.
func (v *surveyor) walkPart() error {
	p := &v.parts[v.at]
	if v.at == v.from {
		v.picture.first = p.first
		if p.header != nil {
			v.report.Start = p.header.start
		} else {
			v.report.Start = unknownOffset
		}
	}
	v.sure = p.header != nil
	switch {
	case p.missing:
		v.lostIn(p, Damage{File: p.path, Detail: "the segment file is missing"})
		return nil
	case p.header == nil:
		v.lostIn(p, Damage{File: p.path, Size: headerSize, Detail: p.reason.Error()})
	default:
		v.hard = p.header.hard
		v.found(p.header.first, p.header.start)
		if !v.picture.begin(p.header) {
			before := &v.parts[v.at-1]
			before.damaged = true
			v.add(Damage{File: before.path, Position: p.header.endBefore, Detail: "its end does not fit what the next segment tells of it"})
			v.open = append(v.open, len(*v.damaged)-1)
			v.found(p.header.first, p.header.start)
		}
	}
	file, err := v.store.fs.Open(p.path)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	err = v.walkFile(p, file)
	v.done += p.size
	return errors.Join(err, file.Close(), v.tellBytes(v.done))
}

func (v *surveyor) walkFile(p *part, file File) error {
	w := &walker{scanner: scanner{file: file, path: p.path, header: p.header, size: p.size}, first: p.first}
	w.tell = func(position int64) error { return v.tellBytes(v.done + position) }
	w.holes = w.header != nil && w.header.mended()
	if err := v.findEnd(w); err != nil {
		return err
	}
	w.holes = w.end > 0
	if p.header == nil {
		if v.newest() || v.parts[v.at+1].header == nil || v.parts[v.at+1].header.saltBefore == 0 {
			return nil
		}
		w.header, w.salvaged = &header{salt: v.parts[v.at+1].header.saltBefore, first: p.first}, true
	}
	end, torn, err := w.walk(&visit{v, p, &source{p.path, w.header.salt}, w.footer})
	if v.newest() && unreadable(err) {
		// Nothing says what was there: the newest hard state, or the end.
		p.damaged = true
		v.add(Damage{File: p.path, Position: w.position, Detail: err.Error(), Renew: true})
		p.end, err = w.position, nil
	}
	p.end = end
	if err == nil && torn && v.newest() {
		v.report.Torn = &Torn{File: p.path, Position: end, Detail: "written and never synced"}
	}
	return err
}

// findEnd tells w where the frames of its part end: a mended segment knows that
// itself, of others the next one knows it.
func (v *surveyor) findEnd(w *walker) error {
	if h := w.header; h != nil && h.mended() {
		f, _, bad, err := w.look(h.footer)
		w.footer, w.end = h.footer, h.footer+frameHeaderSize
		if bad == nil {
			w.end = h.footer + f.size()
		}
		return err
	}
	if v.newest() {
		w.witnessed = v.store.witness.vouches(w.header)
		return nil
	}
	if next := v.parts[v.at+1].header; next != nil && next.endBefore >= headerSize {
		w.footer, w.end = next.footerBefore, next.endBefore
	}
	return nil
}

// add notes damage and returns its number.
func (v *surveyor) add(d Damage) int {
	*v.damaged = append(*v.damaged, d)
	return len(*v.damaged) - 1
}

// lostIn notes frames that are lost in p, nobody knows which. found tells of
// the next frame what entries they held.
func (v *surveyor) lostIn(p *part, d Damage) {
	p.damaged = true
	d.First, d.Start = v.picture.next(), v.picture.nextOffset
	v.open = append(v.open, v.add(d))
	v.unsure()
	v.picture.lose(p.ordinal)
}

// unsure notes that the hard state may have been in what was damaged last.
func (v *surveyor) unsure() {
	if p := &v.parts[v.at]; p.header == nil || !p.header.mended() {
		v.sure, v.hardAt = false, len(*v.damaged)-1
	}
}

// found ends what was lost: the log goes on at the entry next, which begins at
// offset, if that is known.
func (v *surveyor) found(next uint64, offset record.Offset) {
	for _, k := range v.open {
		d := &(*v.damaged)[k]
		if d.First < next {
			d.Last, d.End = next-1, d.Start
			v.ends = append(v.ends, k)
		} else {
			d.First, d.Start = 0, 0
		}
	}
	v.open = v.open[:0]
	if offset == unknownOffset {
		return
	}
	for _, k := range v.ends {
		(*v.damaged)[k].End = max(offset, (*v.damaged)[k].Start)
	}
	v.ends = v.ends[:0]
}

// visit is a surveyor on its way through one part.
type visit struct {
	*surveyor
	part   *part
	from   *source
	footer int64
}

func (v *visit) whole(h *frameHeader, position int64, payload []byte) {
	v.part.footer = 0
	switch h.kind {
	case entryFrame:
		v.found(h.index, h.first)
		v.picture.entry(h, whole, v.part.ordinal, v.from, position)
	case hardStateFrame, markFrame:
		v.found(h.index+1, unknownOffset)
		v.hard, _ = parseHardState(payload) // its length was looked at
		v.sure = v.part.header != nil       // it has the configuration, too
		v.picture.state(h.index, v.hard)
	case footerFrame:
		v.part.footer = position
		if v.picture.gap {
			v.found(h.index+1, unknownOffset)
			v.picture.reach(h.index+1, 0)
		}
	}
}

func (v *visit) broken(h *frameHeader, position int64, reason error) {
	d := Damage{File: v.part.path, Position: position, Size: h.size(), Detail: reason.Error()}
	v.part.damaged = true
	v.picture.apart = true
	switch h.kind {
	case entryFrame:
		v.found(h.index, h.first)
		d.First, d.Last = h.index, h.index
		d.Start, d.End = h.first, h.first+record.Offset(h.count)
		v.add(d)
		v.picture.entry(h, broken, v.part.ordinal, nil, position)
	case hardStateFrame, markFrame:
		v.found(h.index+1, unknownOffset)
		v.picture.state(h.index, HardState{})
		v.add(d)
		v.unsure()
	default:
		v.add(d)
	}
}

func (v *visit) lost(from, to int64, reason error) {
	d := Damage{File: v.part.path, Position: from, Size: to - from, Detail: reason.Error()}
	if v.footer > 0 && from >= v.footer {
		v.part.damaged = true
		v.add(d)
		return
	}
	v.lostIn(v.part, d)
}

// judgeEnd tells whether the newest segment says what this replica promised.
func (v *surveyor) judgeEnd() {
	for _, k := range v.open {
		d := &(*v.damaged)[k]
		d.Last, d.End = d.First, d.Start
		d.Detail += "; which entries follow is not known"
	}
	if !v.sure || v.picture.gap {
		d := &(*v.damaged)[v.hardAt]
		d.Renew = true
		d.Detail += "; the newest hard state may be lost with it"
	}
}

// hearWitness adds what the witness knows of and the log lacks, unless the end of
// the log is lost by what was found already.
func (v *surveyor) hearWitness() {
	p := &v.parts[len(v.parts)-1]
	if p.header == nil || v.report.forgotten() != nil {
		return
	}
	told, last := v.store.witness.told, v.picture.next()-1
	missing := v.store.witness.misses(tip{p.header, p.end, v.hard, last})
	if missing == "" {
		return
	}
	d := Damage{File: p.path, Position: p.end, Detail: missing, Renew: true}
	shorter := told.ordinal == p.ordinal && told.position > p.end
	if told.ordinal > p.ordinal {
		shorter = true
		d.File, d.Position = filepath.Join(v.store.dir, fmt.Sprintf("%020d-*.seg", p.ordinal+1)), 0
	}
	if shorter && told.last > last {
		d.First, d.Last, d.Start, d.End = last+1, told.last, v.picture.nextOffset, v.picture.nextOffset
	}
	v.add(d)
}

// readSnapshots finds out what the log can begin from.
func (v *surveyor) readSnapshots(found *files) error {
	usable, first := false, cmp.Or(v.logFirst, v.picture.first)
	for _, index := range slices.Backward(found.snapshots) {
		if v.narrowed && usable {
			break
		}
		_, _, size, err := v.store.readSnapshotAt(found.snapshotPath(v.store, index), index)
		var corrupt *CorruptError
		if err != nil && !errors.As(err, &corrupt) {
			return err
		}
		v.report.Snapshots++
		v.report.Bytes += size
		if corrupt != nil {
			v.spoiled = append(v.spoiled, index)
			v.add(Damage{File: v.store.snapshotPath(index), Size: size, Detail: corrupt.Detail})
			continue
		}
		v.snapshots = append(v.snapshots, index)
		switch {
		case index >= v.picture.next():
			v.add(Damage{
				File: v.store.snapshotPath(index), First: v.picture.next(), Last: index, Renew: true,
				Detail: fmt.Sprintf("the log ends at entry %d, and had this one when the snapshot was taken", v.picture.next()-1),
			})
		case index+1 >= first:
			usable = true
		}
	}
	slices.Reverse(v.snapshots)
	slices.Reverse(v.spoiled)
	if v.parts[v.from].header == nil {
		// Its header told the term before the first entry; a snapshot does, too.
		usable = usable && slices.Contains(v.snapshots, v.picture.first-1)
	}
	if !usable {
		v.add(Damage{
			File: v.parts[v.from].path, Renew: true,
			Detail: fmt.Sprintf("no valid snapshot of entry %d or behind: there is nothing to begin from", v.picture.first-1),
		})
	}
	return nil
}

// reportStrays adds the files that look like part of the log and are not. A
// watermark that was never made is no damage: it waits for room, or for the next
// sync.
func (v *surveyor) reportStrays(found *files, lacks error) {
	v.strays = found.strays
	for _, s := range found.strays {
		v.add(Damage{File: s.path, Detail: s.reason.Error() + "; it is not part of this log"})
	}
	if lacks != nil && !errors.Is(lacks, fs.ErrNotExist) {
		v.add(Damage{File: v.store.witnessPath(), Detail: lacks.Error()})
	}
}

// conclude adds the picture up.
func (v *surveyor) conclude() {
	r := &v.report
	r.Owner = v.store.options.Owner
	for _, p := range v.parts {
		if !p.missing {
			r.Segments++
		}
	}
	r.First, r.Last, r.End = v.picture.first, v.picture.next()-1, v.picture.nextOffset
	for _, s := range v.picture.spans {
		if s.kind == whole {
			r.Entries += s.last - s.first + 1
		}
	}
	v.hard.Commit = min(max(v.hard.Commit, r.First-1), max(r.Last, r.First-1))
	r.HardState = v.hard
}

// forgotten returns the damage for which the replica must come back under a new
// id, nil if there is none.
func (r *Report) forgotten() *Damage {
	for i := range r.Damage {
		if r.Damage[i].Renew {
			return &r.Damage[i]
		}
	}
	return nil
}
