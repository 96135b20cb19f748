package stopped

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Replica is a replica with files in a directory.
type Replica struct {
	Log, ID uint64 // ids; both 0 where the directory was copied from a place that is not known
	Dir     string
}

// Options returns the options for reading its files, which are in the data directory of a node and
// name a cluster. An empty cluster means unknown.
func (r *Replica) Options(data, cluster string) (o store.Options) {
	if cluster != "" && r.ID > 0 {
		o.Owner = segment.Owner{Cluster: cluster, Log: r.Log, Replica: r.ID}
	}
	if data != "" {
		o.Watermark = datadir.WatermarkPath(data, r.Log, r.ID)
	}
	return o
}

// Find returns the replicas in dir, and the data directory of their node, or "" if dir is a copy of
// a replica's directory.
func Find(dir string) (replicas []Replica, data string, err error) {
	logs, err := numbered(filepath.Join(dir, "logs"))
	if err == nil {
		for _, log := range logs {
			under := filepath.Join(dir, "logs", strconv.FormatUint(log, 10))
			ids, err := numbered(under)
			if err != nil {
				return nil, "", err
			}
			for _, id := range ids {
				replicas = append(replicas, Replica{Log: log, ID: id, Dir: filepath.Join(under, strconv.FormatUint(id, 10))})
			}
		}
		return replicas, dir, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	isReplica := slices.ContainsFunc(names, func(e fs.DirEntry) bool {
		return slices.Contains([]string{".seg", ".snap", ".begin"}, filepath.Ext(e.Name()))
	})
	if !isReplica {
		return nil, "", fmt.Errorf("%s has no log: give the --data directory of a node, or the directory of one replica in it, DIR/logs/LOG/REPLICA", dir)
	}
	r := Replica{Dir: dir}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	above := filepath.Dir(whole)
	if filepath.Base(filepath.Dir(above)) == "logs" {
		var errs [2]error
		r.Log, errs[0] = strconv.ParseUint(filepath.Base(above), 10, 64)
		r.ID, errs[1] = strconv.ParseUint(filepath.Base(whole), 10, 64)
		if errors.Join(errs[:]...) == nil {
			return []Replica{r}, filepath.Dir(filepath.Dir(above)), nil
		}
		r.Log, r.ID = 0, 0
	}
	return []Replica{r}, "", nil
}

// numbered returns the directories in dir whose names are numbers, rising.
func numbered(dir string) (ids []uint64, err error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range names {
		if id, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && e.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// ErrRuns is the error of Lock if a node runs on the directory.
var ErrRuns = errors.New("a node is running on this directory")

// Lock prevents a node from starting on its data directory until the closer is closed. Other
// processes may read the directory too. Lock does nothing for a directory that was never used, and
// for "".
func Lock(data string) (io.Closer, error) {
	name := filepath.Join(data, "lock")
	if _, err := os.Stat(name); data == "" || errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	lock, err := vfs.ReadOnly().Lock(name)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: %w", ErrRuns, err)
	}
	return lock, err
}
