package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// FilesOptions has the locations of the files of a node's replicas, and how they are written.
type FilesOptions struct {
	Dir          string // the data directory
	SegmentBytes int64
	SyncDelay    time.Duration
	Cluster      func() string // see Identity.FilesOf
	Logger       *slog.Logger
}

// NewFiles returns the files of a data directory. created lists the replicas created there.
func NewFiles(disk vfs.FS, created *ReplicaList, o FilesOptions) *Files {
	return &Files{FilesOptions: o, disk: disk, Created: created}
}

// Files are the directories and files of the replicas on this node.
type Files struct {
	FilesOptions
	disk    vfs.FS
	Created *ReplicaList

	// dirs is held for reading to create the directory of a replica, and for writing to remove the
	// directory of a log because it has no replica.
	dirs sync.RWMutex
}

// RemoveEmpty removes the directory of a log if it contains no replica.
func (f *Files) RemoveEmpty(dir string) error {
	f.dirs.Lock()
	defer f.dirs.Unlock()
	replicas, err := f.disk.ListDirs(dir)
	if err != nil || len(replicas) > 0 {
		return err
	}
	return f.disk.RemoveAll(dir)
}

func (f *Files) Forget(log, replica uint64) error {
	if err := f.disk.RemoveAll(f.ReplicaDir(log, replica)); err != nil {
		return err
	}
	if log == 0 {
		return nil // the catalog: an old node.json may name the replica, which must then count as created
	}
	if err := f.RemoveWatermark(log, replica); err != nil {
		return err
	}
	return f.Created.Remove(replica)
}

func (f *Files) LogsDir() string { return filepath.Join(f.Dir, "logs") }

// ReplicaDir returns the directory of a replica's segments.
func (f *Files) ReplicaDir(log, replica uint64) string {
	return filepath.Join(f.LogDir(log), strconv.FormatUint(replica, 10))
}

func (f *Files) LogDir(log uint64) string {
	return filepath.Join(f.LogsDir(), strconv.FormatUint(log, 10))
}

// Owner returns the owner that the files of a replica on this node name.
func (f *Files) Owner(log, replica uint64) segment.Owner {
	return segment.Owner{Cluster: f.Cluster(), Log: log, Replica: replica}
}

func (f *Files) SegmentOptions(owner segment.Owner, logger *slog.Logger) store.Options {
	return store.Options{
		Owner: owner, Watermark: WatermarkPath(f.Dir, owner.Log, owner.Replica), SegmentBytes: f.SegmentBytes, SyncDelay: f.SyncDelay, Logger: logger,
	}
}

// Create is Make for a replica that is not opened yet.
func (f *Files) Create(owner segment.Owner, founders []uint64) error {
	made, err := f.Make(owner, founders, f.Logger.With("log", owner.Log))
	if err != nil {
		return err
	}
	return made.Close()
}

// Make creates the files of a new replica, with the initial state of its log, adds the replica to
// the list, and returns its log, which is open and durable. It removes the files of an interrupted
// attempt.
func (f *Files) Make(owner segment.Owner, founders []uint64, logger *slog.Logger) (*store.Store, error) {
	f.dirs.RLock()
	defer f.dirs.RUnlock()
	dir := f.ReplicaDir(owner.Log, owner.Replica)
	if err := f.disk.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove an unfinished replica: %w", err)
	}
	b, err := core.Bootstrap(founders)
	if err != nil {
		return nil, err
	}
	made, err := store.Create(f.disk, dir, f.SegmentOptions(owner, logger), b)
	if err != nil {
		return nil, err
	}
	if err := f.Created.Add(owner.Replica); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// WasCreated reports whether a replica was ever created on this node: it is in the list, or its
// files or its watermark exist. Any of these may be missing or an older copy. An error means that
// the disk could not be read.
func (f *Files) WasCreated(log, replica uint64) (bool, error) {
	if f.Created.Has(replica) {
		return true, nil
	}
	if has, err := f.HasLog(log, replica); has || err != nil {
		return has, err
	}
	// A watermark that exists and cannot be read counts as one.
	_, err := f.disk.ReadFile(WatermarkPath(f.Dir, log, replica))
	if vfs.Exhausted(err) {
		return false, fmt.Errorf("find the watermark of replica %d: %w", replica, err)
	}
	return !errors.Is(err, fs.ErrNotExist), nil
}

// HasLog reports whether a replica has a segment, which it has once its files are complete. An
// error means that the disk could not be read, and allows no conclusion about the replica.
func (f *Files) HasLog(log, replica uint64) (bool, error) {
	files, err := f.disk.List(f.ReplicaDir(log, replica))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("find the files of replica %d: %w", replica, err)
	}
	return slices.ContainsFunc(files, isSegment), nil
}

func isSegment(f vfs.FileInfo) bool { return strings.HasSuffix(f.Name, ".seg") }

// LostMark is the name of a file in the directory of a lost replica. It contains the reason. The
// other files in the directory must not be opened any more.
const LostMark = "lost"

// AsideDir is the directory to which the files of lost replicas are moved. The operator may inspect
// and remove them.
func (f *Files) AsideDir(log, replica uint64) string {
	return filepath.Join(f.Dir, "set-aside", fmt.Sprintf("%d-%d", log, replica))
}

// MarkedLost reports whether a replica was marked as lost, and why. A mark that cannot be read
// counts. An error means that the directory could not be read.
func (f *Files) MarkedLost(log, replica uint64) (reason string, yes bool, err error) {
	text, err := f.disk.ReadFile(filepath.Join(f.ReplicaDir(log, replica), LostMark))
	if vfs.Exhausted(err) {
		return "", false, fmt.Errorf("check whether replica %d is marked as lost: %w", replica, err)
	}
	return string(text), !errors.Is(err, fs.ErrNotExist), nil
}

// MarkLost marks a replica as lost, permanently.
func (f *Files) MarkLost(log, replica uint64, reason string) error {
	if _, marked, err := f.MarkedLost(log, replica); marked || err != nil {
		return err
	}
	path := filepath.Join(f.ReplicaDir(log, replica), LostMark)
	if err := vfs.WriteFileDurably(f.disk, path, []byte(reason+"\n")); err != nil {
		return fmt.Errorf("mark replica %d as lost: %w", replica, err)
	}
	return nil
}

// SetAside first marks a replica as lost, permanently, and then moves its files away. A crash may
// leave some of the files here with the mark; the next call moves the rest.
func (f *Files) SetAside(log, replica uint64, reason string) error {
	from, to := f.ReplicaDir(log, replica), f.AsideDir(log, replica)
	files, err := f.disk.List(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	if err := f.MarkLost(log, replica, reason); err != nil {
		return err
	}
	// The names of the directories first: files that were moved into them must not go with them.
	if err := errors.Join(f.disk.MkdirAll(to), f.disk.SyncDir(filepath.Dir(to)), f.disk.SyncDir(f.Dir)); err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	for _, file := range files {
		if file.Name == LostMark || file.Name == LostMark+vfs.TemporarySuffix {
			continue // the mark itself, and files that a crash left of it
		}
		if err := f.disk.Rename(filepath.Join(from, file.Name), filepath.Join(to, file.Name)); err != nil {
			return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
		}
	}
	if err := errors.Join(f.disk.SyncDir(to), f.disk.SyncDir(from)); err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	if len(files) > 0 {
		f.Logger.Warn("the files of a replica are set aside; remove them when they are no longer needed", "directory", to, "reason", reason)
	}
	return nil
}

// WatermarksDir is the directory of the durable watermarks. It is outside the directories of the
// replicas, so that restoring an older copy of those does not restore older watermarks.
func WatermarksDir(data string) string { return filepath.Join(data, "watermarks") }

// WatermarkPath returns the path of a replica's durable watermark in the data directory of its
// node.
func WatermarkPath(data string, log, replica uint64) string {
	return filepath.Join(WatermarksDir(data), fmt.Sprintf("%d-%d", log, replica))
}

// RemoveWatermark removes the durable watermark of a replica after its files were removed
// permanently.
func (f *Files) RemoveWatermark(log, replica uint64) error {
	err := f.disk.Remove(WatermarkPath(f.Dir, log, replica))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
