package archive

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Verdict is what a verification of one log's archive has found.
type Verdict struct {
	Objects  int
	Bytes    int64
	Digest   digest.Hash   // as of End, as computed from the objects
	From     record.Offset // where the digest begins
	Start    record.Offset
	End      record.Offset
	Problems []Problem
}

// Problem is something wrong with an archive. Records [First, End) are concerned.
type Problem struct {
	Object     string // name of the object; empty: the archive lacks records between two objects
	First, End record.Offset
	Detail     string
}

func (p Problem) String() string {
	where := "offsets"
	if p.Object != "" {
		where = p.Object + ", offsets"
	}
	return fmt.Sprintf("%s [%d, %d): %s", where, p.First, p.End, p.Detail)
}

// Verify reads all objects of a log's archive, and compares checksums, continuity and digests with
// the manifest. visit, if not nil, is called with each entry of each intact object. An error means
// that not everything could be read; what is wrong with what was read is in the verdict.
func (a Archive) Verify(ctx context.Context, m *Manifest, visit func(e *segment.Entry) error) (Verdict, error) {
	v := Verdict{Start: m.Start(), End: m.End()}
	dir := prefix(m.Cluster, m.LogID)
	// tree is the tree as of the end of the part before, and known if that could be computed.
	var tree digest.Tree
	known := false
	for i := range m.Objects {
		p := &m.Objects[i]
		problem := func(format string, args ...any) {
			v.Problems = append(v.Problems, Problem{Object: p.Name, First: p.First, End: p.End, Detail: fmt.Sprintf(format, args...)})
		}
		if i > 0 && p.Base != nil {
			if missing := m.missing(i, &tree, known); missing != nil {
				v.Problems = append(v.Problems, *missing)
			}
		}
		data, _, err := a.Bucket.Get(ctx, dir+p.Name, MaxObjectBytes)
		if Missing(err) || errors.Is(err, ErrTooLarge) {
			problem("%v", err)
			known = false
			continue
		}
		if err != nil {
			return v, err
		}
		v.Objects++
		v.Bytes += int64(len(data))
		o, err := ReadObject(data, nil)
		if err != nil {
			problem("%v", err)
			known = false
			continue
		}
		before := len(v.Problems)
		if o.Cluster != m.Cluster || o.LogID != m.LogID || o.Log != m.Log {
			problem("it is of log %q (%d) of cluster %s", o.Log, o.LogID, o.Cluster)
		}
		if o.First != p.First || o.End != p.End || o.Size != p.Bytes || o.Entries != p.Entries || o.Name() != p.Name {
			problem("it has offsets [%d, %d) in %d entries and %d bytes; the manifest names %d entries and %d bytes", o.First, o.End, o.Entries, o.Size, p.Entries, p.Bytes)
		}
		if got := o.Tree.Root().String(); got != p.Digest || o.Tree.From != p.DigestFrom {
			problem("its digest as of offset %d is %s from offset %d on; the manifest names %s from %d on", o.End, got, o.Tree.From, p.Digest, p.DigestFrom)
		}
		if base, err := parseTree(o.Base, o.First); known && p.Base == nil && (err != nil || !sameTree(&base, &tree)) {
			problem("it does not continue the digest of the object before")
		}
		tree, known = o.Tree, true
		if visit == nil || len(v.Problems) > before {
			continue
		}
		if _, err := ReadObject(data, visit); err != nil {
			return v, err
		}
	}
	if last, err := m.DigestTree(); known && (err != nil || !sameTree(&last, &tree)) {
		v.Problems = append(v.Problems, Problem{First: m.Start(), End: m.End(), Detail: "the tree of the digest in the manifest is not that of the last object"})
	}
	v.Digest, v.From = tree.Root(), tree.From
	return v, nil
}

// missing returns the problem of a part that does not continue the one before, or nil if no record
// lies between them: a fast-forward skips offsets.
func (m *Manifest) missing(i int, before *digest.Tree, known bool) *Problem {
	p, end := &m.Objects[i], m.Objects[i-1].End
	base, err := parseTree(p.Base, p.First)
	if err == nil && known && sameTree(&base, before) {
		return nil
	}
	if p.First == end {
		return &Problem{First: end, End: end, Detail: "the digest of the log begins again here: digests before and behind cannot be compared"}
	}
	return &Problem{First: end, End: p.First, Detail: "these records are not in the archive: they were trimmed before they were archived"}
}
