package recovery

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Directory is the data directory of a stopped node. An open Directory holds the lock of the
// directory.
type Directory struct {
	Disk   vfs.FS
	Path   string
	Logger *slog.Logger
	me     datadir.Identity
	files  *datadir.Files
	// pending is the plan that is begun and not finished, nil if there is none.
	pending *cluster.RecoveryPlan
	started bool // pending was
}

// Open opens the data directory of a member of a cluster.
func Open(disk vfs.FS, path string, logger *slog.Logger) (*Directory, error) {
	id, err := datadir.LoadIdentity(disk, path)
	if err != nil {
		return nil, err
	}
	if !id.Member() {
		return nil, fmt.Errorf("%s is not the data directory of a node that belongs to a cluster", path)
	}
	d := &Directory{Disk: disk, Path: path, Logger: logger, me: id}
	d.files = datadir.NewFiles(disk, nil, datadir.FilesOptions{Dir: path, Cluster: id.FilesOf, Logger: logger})
	if err := d.load(); err != nil {
		return nil, err
	}
	if p := d.pending; p != nil && id.ClusterID != p.Was && id.ClusterID != p.Cluster {
		return nil, fmt.Errorf("%s belongs to node %q of cluster %s, but contains a plan to recover cluster %s: move the plan away", path, id.Name, id.ClusterID, p.Was)
	}
	return d, nil
}

// ClusterID returns the id of the node's current cluster.
func (d *Directory) ClusterID() string { return d.me.ClusterID }

// Node returns the id of the node.
func (d *Directory) Node() uint64 { return d.me.NodeID }

// Take returns the data of the node. It opens logs as the next start would, and changes nothing
// else.
func (d *Directory) Take() (cluster.Remains, error) {
	s := cluster.Remains{Cluster: d.me.ClusterID, Node: d.me.NodeID, Name: d.me.Name, Taken: time.Now().UnixMilli(), Nonce: rand.Text(), Replicas: []cluster.RemainingReplica{}}
	logs, err := d.numbered(d.files.LogsDir())
	if err != nil {
		return s, err
	}
	for _, log := range logs {
		ids, err := d.numbered(d.files.LogDir(log))
		if err != nil {
			return s, err
		}
		for _, id := range ids {
			if log == cluster.CatalogID && id != d.me.CatalogReplica {
				continue // it was replaced
			}
			r := cluster.RemainingReplica{Log: log, ID: id}
			err := d.look(&r, &s)
			switch {
			case errors.Is(err, segment.ErrNoLog):
				continue // it was never finished, or is set aside
			case unusable(err):
				r = cluster.RemainingReplica{Log: log, ID: id, Problem: err.Error()}
			case err != nil:
				return s, fmt.Errorf("read %s: %w; to continue without it, move it out of %s", d.files.ReplicaDir(log, id), err, d.Path)
			}
			s.Replicas = append(s.Replicas, r)
		}
	}
	return s, nil
}

// numbered are the names of directories that are numbers, in order.
func (d *Directory) numbered(path string) (ids []uint64, err error) {
	names, err := d.Disk.ListDirs(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	for _, name := range names {
		if id, err := strconv.ParseUint(name, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// lostError is the error of a replica that is marked as lost.
type lostError string

func (e lostError) Error() string { return "it is marked as lost: " + string(e) }

// unusable reports whether err is a defect of the files of a replica, so that the log must continue
// without it. Any other error, such as a permission error or a disk that cannot be written, allows
// no conclusion about the files.
func unusable(err error) bool {
	return errors.As(err, new(lostError)) || errors.As(err, new(*segment.CorruptError)) || vfs.Unreadable(err)
}

// look describes the content of the files of a replica, and folds that of the catalog.
func (d *Directory) look(r *cluster.RemainingReplica, s *cluster.Remains) (err error) {
	files, err := d.Disk.List(d.files.ReplicaDir(r.Log, r.ID))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(files, func(f vfs.FileInfo) bool { return strings.HasSuffix(f.Name, ".seg") }) {
		return segment.ErrNoLog
	}
	switch reason, err := d.Disk.ReadFile(filepath.Join(d.files.ReplicaDir(r.Log, r.ID), datadir.LostMark)); {
	case err == nil:
		return lostError(strings.TrimSpace(string(reason)))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	log, err := d.open(r.Log, r.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	hard := log.HardState()
	has, err := core.ReadStopped(log, hard, log.LastIndex())
	if err != nil {
		return err
	}
	m := has.Members()
	r.Term, r.Last, r.LastTerm, r.Committed = hard.Term, has.Last, has.LastTerm, has.Committed
	r.Voters, r.Outgoing, r.Learners = m.Voters, m.Outgoing, m.Learners
	now := has.InForce()
	r.InForce, r.OutgoingInForce = now.Voters, now.Outgoing
	r.Start, r.End = has.Bounds()
	if r.Log == cluster.CatalogID {
		s.Catalog, err = readCatalog(log)
	}
	return err
}

func (d *Directory) open(log, replica uint64) (*store.Store, error) {
	o := d.files.SegmentOptions(d.files.Owner(log, replica), d.Logger)
	o.Manual = true
	return repair.Open(d.Disk, d.files.ReplicaDir(log, replica), o)
}

// readCatalog folds all changes that are stored. Where the log was trimmed a checkpoint is
// among them.
func readCatalog(log segment.Log) (*cluster.State, error) {
	state := cluster.NewState()
	for next := log.FirstIndex(); next <= log.LastIndex(); {
		entries, err := log.Entries(next, log.LastIndex()+1, 4<<20)
		if err != nil {
			return nil, fmt.Errorf("read entry %d of the catalog: %w", next, err)
		}
		for _, e := range entries {
			if err := foldCatalog(&state, e.Payload, e.Count); err != nil {
				return nil, fmt.Errorf("entry %d of the catalog: %w", e.Index, err)
			}
		}
		next += uint64(len(entries))
	}
	return &state, nil
}

// foldCatalog adds the changes in the payload of an entry with some records.
func foldCatalog(state *cluster.State, payload []byte, records uint32) error {
	if records == 0 {
		return nil
	}
	e, err := record.ParseEntry(payload)
	if err != nil {
		return err
	}
	for run := e.Body; len(run) > 0; {
		batch, rest, err := record.Split(run)
		if err != nil {
			return err
		}
		run = rest
		for r, err := range batch.Records {
			if err != nil {
				return err
			}
			change, err := cluster.DecodeChange(r.Value)
			if err != nil {
				return err
			}
			if err := state.Fold(change); err != nil {
				return err
			}
		}
	}
	return nil
}
