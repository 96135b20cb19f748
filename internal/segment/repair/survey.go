package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Survey reads every frame of the log in dir and its snapshots. It changes nothing; no process
// may write to the log meanwhile. If progress is not nil, it is called from time to time with the
// number of bytes read so far and the total. Survey returns an error if files cannot be read, if
// ctx is done, or, as ErrNoLog, if there is no log. Damage is reported in the result. Only the
// Owner and Watermark of o are used.
func Survey(ctx context.Context, disk vfs.FS, dir string, o store.Options, progress func(done, total int64)) (*Report, error) {
	v, err := survey(ctx, disk, dir, o, progress)
	if err != nil {
		return nil, fmt.Errorf("survey log in %s: %w", dir, err)
	}
	return &v.report, nil
}

// surveyor walks the files of a log and builds the inventory of its entries.
type surveyor struct {
	layout
	watermark *store.WatermarkFile
	forged    uint64 // see walk.forged
	report    Report
	inventory inventory

	snapshots []uint64
	spoiled   []uint64 // snapshots that are not valid
	foreign   []store.ForeignFile
	hard      segment.HardState
	sure      bool // hard is the newest

	damaged     *[]Damage // of report
	open        []int     // of Damage: the next valid frame shows which entries are lost
	ends        []int     // of Damage: the next valid entry shows where the lost records end
	hardAt      int       // the damage from which on hard may not be the newest
	done        int64
	reportBytes func(done int64) error
}

func newSurveyor(disk vfs.FS, dir string, o store.Options) *surveyor {
	o = store.Options{Owner: o.Owner, Watermark: o.Watermark}
	d := store.NewDir(disk, dir, o)
	v := &surveyor{layout: layout{dir: d}, watermark: store.NewWatermarkFile(d)}
	v.damaged = &v.report.Damage
	v.reportBytes = func(int64) error { return nil }
	return v
}

func survey(ctx context.Context, disk vfs.FS, dir string, o store.Options, progress func(done, total int64)) (*surveyor, error) {
	return surveyFrom(ctx, disk, dir, o, 0, 0, progress)
}

// surveyFrom is like survey but reads only the newest snapshot and the segments from the one
// before the ordinal suspect on; 0: all. If forged is not 0, the entry of that index counts as
// lost.
func surveyFrom(ctx context.Context, disk vfs.FS, dir string, o store.Options, suspect, forged uint64, progress func(done, total int64)) (*surveyor, error) {
	v := newSurveyor(disk, dir, o)
	v.forged = forged
	found, err := v.dir.List()
	if err != nil {
		return nil, err
	}
	lacks, err := v.watermark.Read()
	if err != nil {
		return nil, err
	}
	v.report.Unfinished, v.report.Aside = found.Unfinished(), found.Aside
	if err := found.Foresee(); err != nil {
		return nil, err
	}
	if len(found.Segments) == 0 && found.Begin == nil {
		return nil, segment.ErrNoLog
	}
	if err := v.narrow(found, suspect); err != nil {
		return nil, err
	}
	for _, p := range v.parts {
		v.report.Bytes += p.size
	}
	v.reportBytes = func(done int64) error {
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
	v.reportForeign(found, lacks)
	v.conclude()
	return v, nil
}

// diagnose returns the error for damage that Recover found. It examines the segments around the
// damage, and the end of the log.
func diagnose(disk vfs.FS, dir string, o store.Options, suspect *store.SuspectError) error {
	v := newSurveyor(disk, dir, o)
	v.dir.Options.Owner, v.watermark = suspect.Watermark.Dir.Options.Owner, suspect.Watermark
	if err := v.readHeaders(suspect.Found); err != nil {
		return err
	}
	begin := v.parts[0].ordinal
	if err := v.walkParts(int(suspect.From-begin), int(suspect.To-begin)+1); err != nil {
		return err
	}
	if v.report.Whole() {
		return fmt.Errorf("segments %d to %d were damaged before and no longer are", suspect.From, suspect.To)
	}
	return v.report.corruption()
}

// walkParts adds the parts [from, to) to the inventory.
func (v *surveyor) walkParts(from, to int) error {
	v.from = from
	for v.from+1 < to && v.hidden(v.from) {
		v.from++ // the log begins with the first part that has a valid entry
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
		v.addWatermark()
	}
	return nil
}

// walkHidden walks a part without adding it to the inventory: its entries were truncated, and
// none is lost with it.
func (v *surveyor) walkHidden() error {
	kept, open, ends, from, start, damage := v.inventory, v.open, v.ends, v.from, v.report.Start, len(*v.damaged)
	v.inventory, v.open, v.ends, v.from = inventory{}, nil, nil, v.at
	err := v.walkPart()
	v.inventory, v.open, v.ends, v.from, v.report.Start = kept, open, ends, from, start
	for k := range (*v.damaged)[damage:] {
		d := &(*v.damaged)[damage+k]
		d.First, d.Last, d.Start, d.End = 0, 0, 0, 0
	}
	return err
}

// walkPart adds one part to the inventory.
func (v *surveyor) walkPart() error {
	p := &v.parts[v.at]
	if v.at == v.from {
		v.inventory.first = p.first
		if p.header != nil {
			v.report.Start = p.header.Start
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
		v.lostIn(p, Damage{File: p.path, Size: format.HeaderSize, Detail: p.reason.Error()})
	default:
		v.hard = p.header.Hard
		v.found(p.header.First, p.header.Start)
		if !v.inventory.begin(p.header) {
			before := &v.parts[v.at-1]
			before.damaged = true
			v.add(Damage{File: before.path, Position: p.header.EndBefore, Detail: "its end does not match the header of the next segment"})
			v.open = append(v.open, len(*v.damaged)-1)
			v.found(p.header.First, p.header.Start)
		}
	}
	file, err := v.dir.FS.Open(p.path)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	err = v.walkFile(p, file)
	v.done += p.size
	return errors.Join(err, file.Close(), v.reportBytes(v.done))
}

func (v *surveyor) walkFile(p *part, file vfs.File) error {
	footer, end, err := v.findEnd(p, file)
	if err != nil {
		return err
	}
	w := &walk{
		first: p.first, forged: v.forged, footer: footer,
		progress: func(position int64) error { return v.reportBytes(v.done + position) },
	}
	salt := uint64(0)
	switch {
	case p.header != nil:
		salt, w.link = p.header.Salt, p.header.Link()
		if v.newest() {
			w.watermark = v.watermark.DurableIn(p.header)
		}
	case v.newest() || v.parts[v.at+1].header == nil || v.parts[v.at+1].header.SaltBefore == 0:
		return nil
	default:
		salt, w.salvaged = v.parts[v.at+1].header.SaltBefore, true
	}
	w.Walker = store.NewWalker(file, p.path, salt, cmp.Or(end, p.size), end > 0)
	var torn bool
	p.end, torn, err = w.frames(&visit{v, p, &source{p.path, salt}, footer})
	if v.newest() && vfs.Unreadable(err) {
		// Nothing shows whether the newest hard state was there, or where the log ends.
		p.damaged = true
		v.add(Damage{File: p.path, Position: w.Position, Detail: err.Error(), Renew: true})
		p.end, err = w.Position, nil
	}
	if err == nil && torn && v.newest() {
		v.report.Torn = &Torn{File: p.path, Position: p.end, Detail: "written and never synced"}
	}
	return err
}
