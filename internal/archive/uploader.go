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

	stored *Stored // nil: to be loaded
	// again is set if the digest of the log began again below the end of the archive.
	again bool
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
	// ErrNoDigest means that a log has no digest.
	ErrNoDigest = errors.New("the log has no digest yet, which the archive needs; it begins with the first append once the cluster is at feature level 3")
)

// Begin loads the manifest if needed, and compares the digest of the log with that of the archive.
func (u *Uploader) Begin(ctx context.Context) error {
	if u.stored != nil {
		return nil
	}
	s, err := u.Archive.Load(ctx, u.Cluster, u.LogID, u.Log, u.Created)
	if err != nil {
		return err
	}
	start, end, err := u.Source.Bounds()
	if err != nil {
		return err
	}
	u.again = false
	if at := s.Manifest.End(); len(s.Manifest.Objects) > 0 && start <= at && at <= end {
		archived, err := s.Manifest.DigestTree()
		if err != nil {
			return err
		}
		own, err := u.Source.Digest(ctx, at)
		switch {
		case err != nil:
			return err
		case !own.Begun:
			return ErrNoDigest
		case own.From != archived.From:
			u.again = true
		case !sameTree(&own, &archived):
			return fmt.Errorf("log %q as of offset %d has digest %s, its archive %s: %w", u.Log, at, own.Root(), archived.Root(), ErrDiffers)
		}
	}
	u.stored = &s
	return nil
}

// Archived returns the manifest, or nil before Begin has succeeded and after a failed Upload.
func (u *Uploader) Archived() *Manifest {
	if u.stored == nil {
		return nil
	}
	return u.stored.Manifest
}

// Pending returns the range of committed records that are not archived. It may be called after
// Begin.
func (u *Uploader) Pending() (from, end record.Offset, err error) {
	start, end, err := u.Source.Bounds()
	if err != nil {
		return 0, 0, err
	}
	from, _, err = u.stored.Manifest.Next(start, end)
	return from, end, err
}

// Upload archives the oldest records that are not archived, up to ObjectBytes, and returns the
// object. It may be called after Begin, if records are pending, of about so many bytes. After an error
// they may be archived or not; Begin has to be called again.
func (u *Uploader) Upload(ctx context.Context, pending int64) (Object, error) {
	s := *u.stored
	u.stored = nil
	start, end, err := u.Source.Bounds()
	if err != nil {
		return Object{}, err
	}
	from, continues, err := s.Manifest.Next(start, end)
	if err != nil {
		return Object{}, err
	}
	continues = continues && !u.again
	tree, err := u.base(ctx, s.Manifest, from, end, continues)
	if err != nil {
		return Object{}, err
	}
	b, err := NewBuilder(u.Cluster, u.LogID, u.Log, tree)
	if err != nil {
		return Object{}, err
	}
	b.Grow(pending)
	// The tree ends with a whole batch, of which the first records may be trimmed.
	err = u.Source.Read(ctx, max(from, tree.End), end, func(e *segment.Entry) (bool, error) {
		err := b.Add(e)
		return b.Size() < ObjectBytes, err
	})
	if err != nil {
		return Object{}, err
	}
	o, data, err := b.Finish()
	if err != nil {
		return Object{}, err
	}
	stored, err := u.Archive.Add(ctx, s, s.Manifest.With(&o, !continues, u.Source.Config()), data)
	if err != nil {
		return Object{}, err
	}
	u.stored, u.again = &stored, false
	return o, nil
}

// base returns the tree of the digest as of the start of the next object.
func (u *Uploader) base(ctx context.Context, m *Manifest, from, end record.Offset, continues bool) (digest.Tree, error) {
	if continues {
		return m.DigestTree()
	}
	tree, err := u.Source.Digest(ctx, from)
	if err != nil {
		return digest.Tree{}, err
	}
	if !tree.Begun {
		later, err := u.Source.Digest(ctx, end)
		switch {
		case err != nil:
			return digest.Tree{}, err
		case !later.Begun:
			return digest.Tree{}, ErrNoDigest
		}
		from = max(from, later.From)
		tree = digest.Tree{Begun: true, From: from, Covered: from, End: from}
	}
	if tree.End < m.End() {
		return digest.Tree{}, fmt.Errorf("the digest of log %q ends at offset %d, its archive at %d", u.Log, tree.End, m.End())
	}
	return tree, nil
}
