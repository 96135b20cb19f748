package repair

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
)

// judgeEnd marks damage at the end of the log that may hide the newest hard state: the replica
// may have lost its term or its vote.
func (v *surveyor) judgeEnd() {
	for _, k := range v.open {
		d := &(*v.damaged)[k]
		d.Last, d.End = d.First, d.Start
		d.Detail += "; which entries follow is not known"
	}
	if !v.sure || v.inventory.gap {
		d := &(*v.damaged)[v.hardAt]
		d.Renew = true
		d.Detail += "; the newest hard state may be lost with it"
	}
}

// addWatermark reports what the durable watermark covers and the log lacks, unless damage already
// reported explains it.
func (v *surveyor) addWatermark() {
	p := &v.parts[len(v.parts)-1]
	if p.header == nil || v.report.forgotten() != nil {
		return
	}
	durable, last := v.watermark.Written, v.inventory.next()-1
	missing := v.watermark.Missing(store.LogEnd{Header: p.header, Position: p.end, Hard: v.hard, Last: last})
	if missing == "" {
		return
	}
	d := Damage{File: p.path, Position: p.end, Detail: missing, Renew: true}
	shorter := durable.Ordinal == p.ordinal && durable.Position > p.end
	if durable.Ordinal > p.ordinal {
		shorter = true
		d.File, d.Position = filepath.Join(v.dir.Path, fmt.Sprintf("%020d-*.seg", p.ordinal+1)), 0
	}
	if shorter && durable.Last > last {
		d.First, d.Last, d.Start, d.End = last+1, durable.Last, v.inventory.nextOffset, v.inventory.nextOffset
	}
	v.add(d)
}

// readSnapshots reads the snapshots and reports damage if the log can begin from none of them.
func (v *surveyor) readSnapshots(found *store.Files) error {
	usable, first := false, cmp.Or(v.logFirst, v.inventory.first)
	for _, index := range slices.Backward(found.Snapshots) {
		if v.narrowed && usable {
			break
		}
		_, _, size, err := v.dir.ReadSnapshotAt(found.SnapshotPath(index), index)
		var corrupt *segment.CorruptError
		if err != nil && !errors.As(err, &corrupt) {
			return err
		}
		v.report.Snapshots++
		v.report.Bytes += size
		if corrupt != nil {
			v.spoiled = append(v.spoiled, index)
			v.add(Damage{File: v.dir.SnapshotPath(index), Size: size, Detail: corrupt.Detail})
			continue
		}
		v.snapshots = append(v.snapshots, index)
		switch {
		case index >= v.inventory.next():
			v.add(Damage{
				File: v.dir.SnapshotPath(index), First: v.inventory.next(), Last: index, Renew: true,
				Detail: fmt.Sprintf("the log ends at entry %d, but had this entry when the snapshot was taken", v.inventory.next()-1),
			})
		case index+1 >= first:
			usable = true
		}
	}
	usable = usable || found.AsCreated()
	slices.Reverse(v.snapshots)
	slices.Reverse(v.spoiled)
	if v.parts[v.from].header == nil {
		// The lost header held the term before the first entry; a snapshot does, too.
		usable = usable && slices.Contains(v.snapshots, v.inventory.first-1)
	}
	if !usable {
		v.add(Damage{
			File: v.parts[v.from].path, Renew: true,
			Detail: fmt.Sprintf("no snapshot of entry %d or a later one is valid, so the log has nothing to begin from", v.inventory.first-1),
		})
	}
	return nil
}

// reportForeign reports the files whose names say that they belong to the log but that do not. A
// watermark that was never written is not damage: it is written when there is room, or with the
// next sync.
func (v *surveyor) reportForeign(found *store.Files, lacks error) {
	v.foreign = found.Foreign
	for _, s := range found.Foreign {
		v.add(Damage{File: s.Path, Detail: s.Reason.Error() + "; it is not part of this log"})
	}
	if lacks != nil && !errors.Is(lacks, fs.ErrNotExist) {
		v.add(Damage{File: v.watermark.Path(), Detail: lacks.Error()})
	}
}

// conclude fills in the totals of the report.
func (v *surveyor) conclude() {
	r := &v.report
	r.Owner = v.dir.Options.Owner
	for _, p := range v.parts {
		if !p.missing {
			r.Segments++
		}
	}
	r.First, r.Last, r.End = v.inventory.first, v.inventory.next()-1, v.inventory.nextOffset
	for _, s := range v.inventory.spans {
		if s.kind == whole {
			r.Entries += s.last - s.first + 1
		}
	}
	v.hard.Commit = min(max(v.hard.Commit, r.First-1), max(r.Last, r.First-1))
	r.HardState = v.hard
}
