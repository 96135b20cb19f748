package repair

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// SurveyDigests is like Survey but, if there is no damage, also compares the records with their
// contents in later entries and with the digests in the snapshots. To do so it reads the records
// a second time. decode returns the tree in a snapshot.
func SurveyDigests(ctx context.Context, disk vfs.FS, dir string, o store.Options, decode func(snapshot []byte) (digest.Tree, error), progress func(done, total int64)) (*Report, error) {
	v, err := survey(ctx, disk, dir, o, progress)
	if err == nil && v.report.Whole() {
		err = (&digestSurvey{surveyor: v, reader: spanReader{fs: v.dir.FS}}).add(ctx, decode)
	}
	if err != nil {
		return nil, fmt.Errorf("survey log in %s: %w", dir, err)
	}
	return &v.report, nil
}

// digestSurvey compares the entries of an undamaged log with its digests.
type digestSurvey struct {
	*surveyor
	reader spanReader
	walker *digest.Walker // nil: no tree to start from is known
}

// add reports the entries that are not what was appended.
func (v *digestSurvey) add(ctx context.Context, decode func(snapshot []byte) (digest.Tree, error)) error {
	defer v.reader.close()
	if v.report.Start == 0 {
		v.begin(&digest.Tree{})
	}
	next := v.inventory.first
	for _, index := range v.snapshots {
		if index+1 < v.inventory.first {
			continue
		}
		start := record.Offset(0)
		if v.walker != nil {
			start = v.walker.Covered
		}
		if err := v.follow(ctx, next, index); err != nil {
			return err
		}
		_, data, err := v.dir.ReadSnapshot(index)
		if err != nil {
			return err
		}
		t, err := decode(data)
		switch w := v.walker; {
		case err != nil: // written by a newer version
			v.walker = nil
		case w == nil:
			v.begin(&t)
		case (t.Begun || w.Begun) && (t.Root() != w.Root() || t.Batches != w.Batches || t.Covered != w.Covered):
			v.surveyor.add(Damage{
				File: v.dir.SnapshotPath(index), First: next, Last: index, Start: start, End: t.End, Renew: true,
				Detail: "the records before it do not match its digest, although each record matches its own checksums; compare the replicas with \"strandline log diff\"",
			})
			v.begin(&t)
		}
		next = index + 1
	}
	return v.follow(ctx, next, v.inventory.next()-1)
}

func (v *digestSurvey) begin(t *digest.Tree) {
	v.walker = digest.NewWalker(t, true, math.MaxInt64, nil)
}

// follow adds the entries [from, to], which are whole, to the tree.
func (v *digestSurvey) follow(ctx context.Context, from, to uint64) error {
	if v.walker == nil || from > to {
		return nil
	}
	for k := max(v.inventory.at(from), 0); k < len(v.inventory.spans) && v.inventory.spans[k].first <= to; k++ {
		s := &v.inventory.spans[k]
		err := v.reader.entries(s, max(from, s.first), min(to, s.last), func(f segment.Entry) bool {
			if e, err := record.ParseEntry(f.Payload); err == nil && e.First == f.First && e.Count == f.Count {
				for _, x := range v.walker.Add(&e, f.Index) {
					v.forged(x)
				}
			}
			return ctx.Err() == nil
		})
		if err != nil || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
	}
	return nil
}

// forged reports an entry that is not what was appended, once.
func (v *digestSurvey) forged(x *digest.ForgedError) {
	d := Damage{First: x.Index, Last: x.Index, Start: x.First, End: x.End, Detail: x.Error()}
	if at := v.inventory.at(x.Index); at >= 0 && v.inventory.spans[at].from != nil {
		d.File = v.inventory.spans[at].from.path
	}
	v.surveyor.add(d)
}
