// Package stopped reads the logs of a stopped node, from its data directory or from a copy of it.
// It changes nothing there, and prevents the node from starting meanwhile.
package stopped

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Log is the log of a replica in a directory: the records that the replica knew to be committed.
type Log struct {
	*runtime.Readable
	name  string
	store *store.Store
	lock  io.Closer // of the data directory
}

// OpenLog opens a log in dir, which is the data directory of a node, or the directory of one
// replica, whose only log is opened regardless of name. It reads the end of the log and, to find
// the name, the end of the catalog. It returns ErrRuns if a node runs on the directory.
func OpenLog(ctx context.Context, dir, name string, logger *slog.Logger) (_ *Log, err error) {
	replicas, data, err := Find(dir)
	if err != nil {
		return nil, err
	}
	lock, err := Lock(data)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	d := directory{data: data, replicas: replicas, logger: logger}
	if data != "" {
		if d.me, err = datadir.LoadIdentity(vfs.ReadOnly(), data); err != nil {
			return nil, err
		}
	}
	var r *Replica
	if dir != data {
		r = &replicas[0]
	} else if r, err = d.find(ctx, name); err != nil { // also where there is none at all
		return nil, err
	}
	l, err := d.open(r)
	if err != nil {
		return nil, err
	}
	l.name, l.lock = name, lock
	return l, nil
}

// Close closes the files.
func (l *Log) Close() error { return errors.Join(l.store.Close(), l.lock.Close()) }

// Digest returns the digest of the records below an offset of the log, up to the last whole batch.
func (l *Log) Digest(ctx context.Context, at record.Offset) (digest.Tree, error) {
	if err := l.within(at); err != nil {
		return digest.Tree{}, err
	}
	t, err := l.Readable.Digest(ctx, at)
	if err == nil && !t.Begun && at > 0 {
		err = record.Refuse(record.Precondition,
			"log %q has no digest at offset %d: it begins with the first append once the cluster is at feature level %d", l.name, at, cluster.DigestLevel)
	}
	return t, err
}

// Prove returns the record at an offset after it has proved that the record is in the log with a
// trusted digest as of at. If the proof fails, it returns digest.ErrUnproven.
func (l *Log) Prove(ctx context.Context, offset, at record.Offset, trusted digest.Hash) (record.Record, error) {
	if err := cmp.Or(l.within(offset), l.within(at)); err != nil {
		return record.Record{}, err
	}
	p, _, err := l.Readable.Prove(ctx, offset, at)
	if err == nil {
		err = p.Check(trusted)
	}
	if err != nil {
		return record.Record{}, err
	}
	for r, err := range p.Batch.Records {
		if r.Offset == offset || err != nil {
			return r, err
		}
	}
	return record.Record{}, digest.ErrUnproven
}

// within refuses an offset that is not one of the log's.
func (l *Log) within(at record.Offset) error {
	start, end, err := l.Bounds()
	switch {
	case err != nil:
		return err
	case at < start:
		return record.Trimmed(at, start, nil)
	case at > end:
		return record.Refuse(record.OffsetBeyondEnd, "offset %d is beyond the end of the log, which is %d", at, end)
	}
	return nil
}

// chunkBytes are read at once.
const chunkBytes = 1 << 20

// Records yields the records of [from, to), and stops after an error. A record is valid until the
// next one.
func (l *Log) Records(ctx context.Context, from, to record.Offset) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		reader := l.NewReader(from)
		defer reader.Close()
		for {
			c, err := reader.Next(to, chunkBytes)
			if err = errors.Join(err, ctx.Err()); err != nil {
				yield(record.Record{}, err)
				return
			}
			if len(c.Entries) == 0 {
				return
			}
			for r, err := range recordsOf(&c) {
				if r.Offset < from && err == nil {
					continue
				}
				if err == nil && r.Offset >= to || !yield(r, err) || err != nil {
					return
				}
			}
			c.Release()
		}
	}
}

// recordsOf yields all records of a chunk.
func recordsOf(c *runtime.Chunk) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for i := range c.Entries {
			e, err := record.ParseEntry(c.Entries[i].Payload)
			if err != nil {
				yield(record.Record{}, fmt.Errorf("entry %d: %w", c.Entries[i].Index, err))
				return
			}
			for _, b := range e.All {
				for r, err := range b.Records {
					if !yield(r, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// directory is the data directory in which the log is searched.
type directory struct {
	data     string // "": not that of a node
	replicas []Replica
	me       datadir.Identity
	logger   *slog.Logger
}

// open opens what a replica has.
func (d *directory) open(r *Replica) (_ *Log, err error) {
	files := datadir.NewFiles(vfs.ReadOnly(), nil, datadir.FilesOptions{Dir: d.data})
	reason, lost, err := files.MarkedLost(r.Log, r.ID)
	if err != nil {
		return nil, err
	}
	if lost && d.data != "" {
		return nil, fmt.Errorf("the replica in %s is marked as lost: %s", r.Dir, reason)
	}
	o := r.Options(d.data, d.me.FilesOf())
	o.Logger, o.Manual = d.logger, true
	s, err := repair.OpenReadOnly(vfs.ReadOnly(), r.Dir, o)
	if err != nil {
		return nil, err
	}
	readable, err := runtime.OpenStopped(s, d.logger)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the log in %s: %w", r.Dir, err), s.Close())
	}
	return &Log{Readable: readable, store: s}, nil
}

// find returns the node's replica of a log, according to its catalog.
func (d *directory) find(ctx context.Context, name string) (*Replica, error) {
	if !d.me.Member() {
		return nil, fmt.Errorf("%s is the data directory of a node that has not joined a cluster, so it has no logs", d.data)
	}
	state, err := d.catalog(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the catalog in %s: %w", d.data, err)
	}
	log, known := state.Logs[name]
	if !known {
		return nil, fmt.Errorf("the catalog in %s has no log %q", d.data, name)
	}
	if log.Config.InMemory() {
		return nil, fmt.Errorf("log %q is in memory only, so %s has no records of it", name, d.data)
	}
	placed, here := log.On(d.me.NodeID)
	at := slices.IndexFunc(d.replicas, func(r Replica) bool { return here && r.Log == log.ID && r.ID == placed.ID })
	if at < 0 {
		return nil, fmt.Errorf("%s has no replica of log %q: other nodes have its replicas", d.data, name)
	}
	return &d.replicas[at], nil
}

// catalog folds the node's replica of log 0.
func (d *directory) catalog(ctx context.Context) (_ cluster.State, err error) {
	state := cluster.NewState()
	at := slices.IndexFunc(d.replicas, func(r Replica) bool { return r.Log == cluster.CatalogID && r.ID == d.me.CatalogReplica })
	if at < 0 {
		return state, errors.New("the files of the replica are missing")
	}
	log, err := d.open(&d.replicas[at])
	if err != nil {
		return state, err
	}
	defer func() { err = errors.Join(err, log.store.Close()) }()
	start, end, err := log.Bounds()
	if err != nil {
		return state, err
	}
	for r, err := range log.Records(ctx, start, end) {
		if err != nil {
			return state, err
		}
		change, err := cluster.DecodeChange(r.Value)
		if err != nil {
			return state, fmt.Errorf("change %d: %w", r.Offset, err)
		}
		if err := state.Fold(change); err != nil {
			return state, fmt.Errorf("change %d: %w", r.Offset, err)
		}
	}
	return state, nil
}
