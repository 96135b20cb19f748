package replicas

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
)

// Cleaner removes files that crashes have left on the disk.
type Cleaner struct {
	options *settings.Options
	disk    vfs.FS
	logger  *slog.Logger
	me      *datadir.Me
	catalog *catalog.Shared
	files   *datadir.Files
	tasks   *background.Tasks
	opener  *Opener
}

// NewCleaner returns a Cleaner of the data directory.
func NewCleaner(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, files *datadir.Files, tasks *background.Tasks,
	opener *Opener,
) *Cleaner {
	return &Cleaner{options: options, disk: disk, logger: logger, me: me, catalog: catalog, files: files, tasks: tasks, opener: opener}
}

// CleanUp removes leftover files once the newest state is known.
func (cl *Cleaner) CleanUp(ctx context.Context) bool {
	c := cl.catalog.Load()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := c.Refresh(ctx); err != nil {
		return false
	}
	cl.opener.Rehost()
	state := c.Shown.Load()
	cl.tasks.Run(func(context.Context) {
		if err := cl.RemoveOrphans(state); err != nil {
			cl.logger.Warn("could not remove files that belong to no log", "error", err)
		}
	})
	return true
}

// RemoveOrphans removes files of replicas that the catalog does not assign to this node. The state
// must have been the newest: a replica with an id assigned by then is never assigned to this node
// later. Files of newer replicas may be created meanwhile.
func (cl *Cleaner) RemoveOrphans(state *cluster.State) error {
	me := cl.me.Load()
	known := map[string]bool{cl.files.ReplicaDir(cluster.CatalogID, me.CatalogReplica): true}
	for _, l := range state.Logs {
		if r, here := l.On(me.NodeID); here {
			known[cl.files.ReplicaDir(l.ID, r.ID)] = true
		}
	}
	logs, err := cl.disk.ListDirs(cl.files.LogsDir())
	if err != nil {
		return fmt.Errorf("list logs on disk: %w", err)
	}
	for _, log := range logs {
		replicas, err := cl.disk.ListDirs(filepath.Join(cl.files.LogsDir(), log))
		if err != nil {
			return fmt.Errorf("list replicas on disk: %w", err)
		}
		for _, replica := range replicas {
			if known[filepath.Join(cl.files.LogsDir(), log, replica)] {
				continue
			}
			if err := cl.removeOrphan(state, log, replica); err != nil {
				return err
			}
		}
		if err := cl.files.RemoveEmpty(filepath.Join(cl.files.LogsDir(), log)); err != nil {
			return fmt.Errorf("remove directory of log %s: %w", log, err)
		}
	}
	return cl.removeOrphanedWatermarks(state, known)
}

// removeOrphan removes the files of a replica that is gone. Those under the name of
// one that is placed elsewhere, in another log or on another node, were moved here
// by somebody, and may be all that is left of it: they are set aside.
func (cl *Cleaner) removeOrphan(state *cluster.State, log, replica string) error {
	logID, err := strconv.ParseUint(log, 10, 64)
	if err != nil {
		return nil // not ours
	}
	id, err := strconv.ParseUint(replica, 10, 64)
	if err != nil || id >= state.NextReplica || logID == cluster.CatalogID && id > cl.me.Load().CatalogReplica {
		return nil
	}
	if at, node := state.PlaceOf(id); node != 0 && (at != logID || node != cl.me.Load().NodeID) {
		reason := fmt.Sprintf("the catalog places replica %d elsewhere than in log %d on this node", id, logID)
		if err := cl.files.SetAside(logID, id, reason); err != nil {
			return err
		}
		return cl.disk.RemoveAll(cl.files.ReplicaDir(logID, id))
	}
	cl.logger.Info("removing files of a replica that the catalog does not put here", "log", log, "replica", replica)
	if err := cl.files.Forget(logID, id); err != nil {
		return fmt.Errorf("remove files of log %s: %w", log, err)
	}
	return nil
}

// removeOrphanedWatermarks removes those of replicas that are not known and have no
// files: a crash came between the removals of the two. One of the catalog stays, as
// an old node.json may name its replica.
func (cl *Cleaner) removeOrphanedWatermarks(state *cluster.State, known map[string]bool) error {
	files, err := cl.disk.List(datadir.WatermarksDir(cl.options.DataDir))
	if err != nil {
		return fmt.Errorf("list watermarks: %w", err)
	}
	for _, file := range files {
		var log, replica uint64
		if _, err := fmt.Sscanf(file.Name, "%d-%d", &log, &replica); err != nil || log == cluster.CatalogID || replica >= state.NextReplica {
			continue
		}
		if known[cl.files.ReplicaDir(log, replica)] {
			continue
		}
		has, err := cl.files.HasLog(log, replica)
		if err != nil {
			return err
		}
		if has {
			continue
		}
		if err := cl.files.RemoveWatermark(log, replica); err != nil {
			return fmt.Errorf("remove the watermark of a removed replica: %w", err)
		}
	}
	return nil
}
