package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Uploader extends the archive of one log. Several may do so at a time: objects of one never
// replace those of another, and of two manifests one is stored. It must be used by one goroutine at
// a time.
type Uploader struct {
	Archive Archive
	Source  Source
	Cluster string
	LogID   uint64
	Log     string
	Created int64 // Unix milliseconds

	archived *archived // nil: to be loaded
	// again is set if the digest of the log began again below the end of the archive.
	again bool
}

// archived is what an Uploader remembers of an archive: its manifest may have many MiB.
type archived struct {
	objects int
	end     record.Offset
	tree    digest.Tree // as of end; of no use without objects
	version string      // of the manifest
}

func remembered(s Stored) (*archived, error) {
	a := &archived{objects: len(s.Manifest.Objects), end: s.Manifest.End(), version: s.version}
	if a.objects == 0 {
		return a, nil
	}
	var err error
	a.tree, err = s.Manifest.DigestTree()
	return a, err
}

// Source is a log to be archived, as the replica that leads it has it.
type Source interface {
	// Bounds returns the range of committed records.
	Bounds() (start, end record.Offset, err error)
	// Digest returns the tree over the records below an offset, in whole batches.
	Digest(ctx context.Context, at record.Offset) (digest.Tree, error)
	// Read calls add with each committed entry with records from the one that holds offset from up to
	// until, in order, until add returns false.
	Read(ctx context.Context, from, until record.Offset, add func(e *segment.Entry) (more bool, err error)) error
	// Config returns the configuration of the log as the catalog has it.
	Config() json.RawMessage
}

var (
	// ErrDiffers means that the archive has other records than the log.
	ErrDiffers = errors.New("the archive has other records than the log; it is not extended, and trying again is of no use: compare both with \"strandline archive verify\" and \"strandline log digest\"")
	// ErrForged means that the records of a replica are not those that its digest proves.
	ErrForged = errors.New("the replica of the leader has other records than were appended; they are not archived: run \"strandline log verify\" and transfer the log to another node")
	// ErrNoDigest means that a log has no digest.
	ErrNoDigest = errors.New("the log has no digest yet, which the archive needs; it begins with the first append once the cluster is at feature level 3")
)

// Begin loads the manifest if needed, and compares the digest of the log with that of the archive.
func (u *Uploader) Begin(ctx context.Context) error {
	if u.archived != nil {
		return nil
	}
	s, err := u.Archive.Load(ctx, u.Cluster, u.LogID, u.Log, u.Created)
	if err != nil {
		return err
	}
	a, err := remembered(s)
	if err != nil {
		return err
	}
	start, end, err := u.Source.Bounds()
	if err != nil {
		return err
	}
	_, continues, err := u.next(a, start, end)
	if err != nil {
		return err
	}
	u.again = false
	if continues {
		if err := u.compare(ctx, a, end); err != nil {
			return err
		}
	}
	u.archived = a
	return nil
}

// compare compares the digest of the log, which ends at end, with that of its archive.
func (u *Uploader) compare(ctx context.Context, a *archived, end record.Offset) error {
	own, err := u.Source.Digest(ctx, a.end)
	if err != nil {
		return err
	}
	if !own.Begun {
		later, err := u.Source.Digest(ctx, end)
		switch {
		case err != nil:
			return err
		case !later.Begun:
			return ErrNoDigest
		}
		own.From = later.From
	}
	switch {
	case own.From != a.tree.From:
		u.again = true
	case !sameTree(&own, &a.tree):
		return fmt.Errorf("log %q as of offset %d has digest %s, its archive %s: %w", u.Log, a.end, own.Root(), a.tree.Root(), ErrDiffers)
	}
	return nil
}

// next returns where the next object begins in a log whose records are [start, end), and reports
// whether it continues the archive. If it does not, records between the end of the archive and start
// were trimmed before they were archived, or skipped, or the archive is empty. There is nothing to
// archive if the offset is end.
func (u *Uploader) next(a *archived, start, end record.Offset) (from record.Offset, continues bool, err error) {
	switch {
	case a.objects >= MaxObjects:
		return 0, false, fmt.Errorf("the archive of log %q has %d objects, which is the limit; trying again is of no use: copy its objects away and remove its manifest", u.Log, MaxObjects)
	case a.objects == 0:
		return start, false, nil
	case a.end > end:
		return 0, false, fmt.Errorf("the archive of log %q ends at offset %d, and the log at %d: the log has lost records that are in the archive; it is not archived until an operator has decided between them", u.Log, a.end, end)
	case a.end < start:
		return start, false, nil
	}
	return a.end, true, nil
}

// Pending returns the range of committed records that are not archived. It may be called after
// Begin, which has to be called again after an error.
func (u *Uploader) Pending() (from, end record.Offset, err error) {
	start, end, err := u.Source.Bounds()
	if err == nil {
		from, _, err = u.next(u.archived, start, end)
	}
	if err != nil {
		u.archived = nil // the log may grow again, with other records
	}
	return from, end, err
}

// Upload archives the oldest records that are not archived, up to ObjectBytes, and returns the
// object. It may be called after Begin, if records are pending, of about so many bytes. After an error
// they may be archived or not; Begin has to be called again.
func (u *Uploader) Upload(ctx context.Context, pending int64) (Object, error) {
	a := u.archived
	u.archived = nil
	start, end, err := u.Source.Bounds()
	if err != nil {
		return Object{}, err
	}
	from, continues, err := u.next(a, start, end)
	if err != nil {
		return Object{}, err
	}
	continues = continues && !u.again
	tree := a.tree
	if !continues {
		if tree, err = u.base(ctx, a, from, end); err != nil {
			return Object{}, err
		}
	}
	o, data, err := u.build(ctx, tree, from, end, pending)
	if err != nil {
		return Object{}, err
	}
	// The object has the records as this replica stores them, and the digest has them as they were
	// appended.
	own, err := u.Source.Digest(ctx, o.End)
	switch {
	case err != nil:
		return Object{}, err
	case continues && (!own.Begun || own.From != o.Tree.From): // the digest began again, in an entry without records
		u.archived, u.again = a, true
		return u.Upload(ctx, pending)
	case !own.Begun:
		return Object{}, ErrNoDigest
	case !sameTree(&own, &o.Tree):
		return Object{}, fmt.Errorf("log %q as of offset %d has digest %s, the records that were read %s: %w", u.Log, o.End, own.Root(), o.Tree.Root(), ErrForged)
	}
	s, err := u.Archive.Load(ctx, u.Cluster, u.LogID, u.Log, u.Created)
	if err != nil {
		return Object{}, err
	}
	if s.version != a.version {
		return Object{}, fmt.Errorf("the manifest of log %q: %w", u.Log, ErrChanged)
	}
	if s, err = u.Archive.Add(ctx, s, s.Manifest.With(&o, !continues, u.Source.Config()), data); err != nil {
		return Object{}, err
	}
	u.archived = &archived{objects: len(s.Manifest.Objects), end: o.End, tree: o.Tree, version: s.version}
	u.again = false
	return o, nil
}

// build returns an object that begins at the end of a tree, with records from an offset on.
func (u *Uploader) build(ctx context.Context, tree digest.Tree, from, end record.Offset, pending int64) (Object, []byte, error) {
	b, err := NewBuilder(u.Cluster, u.LogID, u.Log, tree)
	if err != nil {
		return Object{}, nil, err
	}
	b.Grow(pending)
	// The tree ends with a whole batch, of which the first records may be trimmed.
	err = u.Source.Read(ctx, max(from, tree.End), end, func(e *segment.Entry) (bool, error) {
		err := b.Add(e)
		return b.Size() < ObjectBytes, err
	})
	if err != nil {
		return Object{}, nil, err
	}
	return b.Finish()
}

// base returns the tree of the digest as of the start of an object that does not continue the archive.
// If the digest of the records there is lost, the object begins with the digest.
func (u *Uploader) base(ctx context.Context, a *archived, from, end record.Offset) (digest.Tree, error) {
	later, err := u.Source.Digest(ctx, end)
	switch {
	case err != nil:
		return digest.Tree{}, err
	case !later.Begun:
		return digest.Tree{}, ErrNoDigest
	case later.From >= from:
		return digest.Begin(later.From), nil
	}
	tree, err := u.Source.Digest(ctx, from)
	if err == nil && tree.End < a.end {
		err = fmt.Errorf("the digest of log %q ends at offset %d, its archive at %d", u.Log, tree.End, a.end)
	}
	return tree, err
}
