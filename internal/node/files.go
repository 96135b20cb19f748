package node

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

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// files are the directories and files of the replicas on this node.
type files struct {
	options *Options
	disk    vfs.FS
	logger  *slog.Logger
	self    *self
	created *replicaList
	// dirs is held by whoever makes the directory of a replica, and alone by whoever
	// removes that of a log since no replica is in it.
	dirs sync.RWMutex
}

// removeEmpty removes the directory of a log, if no replica is in it.
func (f *files) removeEmpty(dir string) error {
	f.dirs.Lock()
	defer f.dirs.Unlock()
	replicas, err := f.disk.ListDirs(dir)
	if err != nil || len(replicas) > 0 {
		return err
	}
	return f.disk.RemoveAll(dir)
}

func (f *files) forget(log, replica uint64) error {
	if err := f.disk.RemoveAll(f.replicaDir(log, replica)); err != nil {
		return err
	}
	if log == catalogID {
		return nil // an old node.json may name it, and must find that it was made
	}
	if err := f.removeWatermark(log, replica); err != nil {
		return err
	}
	return f.created.remove(replica)
}

func (f *files) logsDir() string { return filepath.Join(f.options.DataDir, "logs") }

// replicaDir is where a replica's segments are.
func (f *files) replicaDir(log, replica uint64) string {
	return filepath.Join(f.logDir(log), strconv.FormatUint(replica, 10))
}

func (f *files) logDir(log uint64) string {
	return filepath.Join(f.logsDir(), strconv.FormatUint(log, 10))
}

// owner is whose files those of a replica here are.
func (f *files) owner(log, replica uint64) segment.Owner {
	return segment.Owner{Cluster: f.self.ClusterID(), Log: log, Replica: replica}
}

func (f *files) segmentOptions(owner segment.Owner, logger *slog.Logger) store.Options {
	return store.Options{
		Owner: owner, Watermark: WatermarkPath(f.options.DataDir, owner.Log, owner.Replica), SegmentBytes: f.options.SegmentBytes, SyncDelay: f.options.SyncDelay, Logger: logger,
	}
}

// makeReplica makes the files of a new replica, which begins as all of its log
// do, and enters it as made. What an interrupted try left is removed.
func (f *files) create(owner segment.Owner, founders []uint64) error {
	f.dirs.RLock()
	defer f.dirs.RUnlock()
	dir := f.replicaDir(owner.Log, owner.Replica)
	if err := f.disk.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove an unfinished replica: %w", err)
	}
	b, err := core.Bootstrap(founders)
	if err != nil {
		return err
	}
	store, err := store.Create(f.disk, dir, f.segmentOptions(owner, f.logger.With("log", owner.Log)), b)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	return f.created.add(owner.Replica)
}

// wasMade reports whether a replica was created on this node once: the list says so,
// or its files or its watermark are there. Any of them may be gone, or be an older
// copy.
func (f *files) wasCreated(log, replica uint64) bool {
	return f.created.has(replica) || f.hasLog(log, replica) || f.hasWatermark(log, replica)
}

// hasLog reports whether a replica has a segment, which is so from when its files
// are complete.
func (f *files) hasLog(log, replica uint64) bool {
	files, err := f.disk.List(f.replicaDir(log, replica))
	return err == nil && slices.ContainsFunc(files, func(f vfs.FileInfo) bool { return strings.HasSuffix(f.Name, ".seg") })
}

// lostMark is a file in the directory of a replica that has lost what it knew,
// and reports why. Whatever else lies there is not to be opened any more.
const lostMark = "lost"

// asideDir is where the files of such a replica are kept. They are the
// operator's to look at and to remove.
func (f *files) asideDir(log, replica uint64) string {
	return filepath.Join(f.options.DataDir, "set-aside", fmt.Sprintf("%d-%d", log, replica))
}

// markedLost reports whether a replica was marked as lost, and why.
func (f *files) markedLost(log, replica uint64) (reason string, yes bool) {
	text, err := f.disk.ReadFile(filepath.Join(f.replicaDir(log, replica), lostMark))
	return string(text), !errors.Is(err, fs.ErrNotExist) // one that cannot be read is there
}

// markLost marks a replica as lost, for ever.
func (f *files) markLost(log, replica uint64, reason string) error {
	if _, marked := f.markedLost(log, replica); marked {
		return nil
	}
	path := filepath.Join(f.replicaDir(log, replica), lostMark)
	if err := vfs.WriteFileDurably(f.disk, path, []byte(reason+"\n")); err != nil {
		return fmt.Errorf("mark replica %d as lost: %w", replica, err)
	}
	return nil
}

// setAside marks a replica as lost, for ever and before anything else, and
// moves its files away. A crash leaves some of them here, with the mark; the
// next try moves the rest.
func (f *files) setAside(log, replica uint64, reason string) error {
	from, to := f.replicaDir(log, replica), f.asideDir(log, replica)
	files, err := f.disk.List(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	if err := f.markLost(log, replica, reason); err != nil {
		return err
	}
	if err := f.disk.MkdirAll(to); err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	for _, file := range files {
		if file.Name == lostMark {
			continue
		}
		if err := f.disk.Rename(filepath.Join(from, file.Name), filepath.Join(to, file.Name)); err != nil {
			return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
		}
	}
	if err := errors.Join(f.disk.SyncDir(to), f.disk.SyncDir(from)); err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	if len(files) > 0 {
		f.logger.Warn("the files of a replica are kept aside; remove them when nobody needs them", "directory", to, "reason", reason)
	}
	return nil
}

// watermarksDir holds how far each replica on disk certainly went. It lies
// outside the replicas' directories: an older copy of such a directory, or of all
// of them, does not bring it back too.
func watermarksDir(data string) string { return filepath.Join(data, "watermarks") }

// WatermarkPath is the durable watermark of a replica in the data directory of
// its node.
func WatermarkPath(data string, log, replica uint64) string {
	return filepath.Join(watermarksDir(data), fmt.Sprintf("%d-%d", log, replica))
}

// removeWatermark is called when the files of a replica are gone for good.
func (f *files) removeWatermark(log, replica uint64) error {
	err := f.disk.Remove(WatermarkPath(f.options.DataDir, log, replica))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hasWatermark reports whether a replica has one, readable or not.
func (f *files) hasWatermark(log, replica uint64) bool {
	_, err := f.disk.ReadFile(WatermarkPath(f.options.DataDir, log, replica))
	return !errors.Is(err, fs.ErrNotExist)
}
