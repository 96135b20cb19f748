package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// Begin stores the plan, unless it was stored before. After it returns nil, Finish or the next
// start of the node recovers the directory.
func (d *Directory) Begin(plan *cluster.RecoveryPlan, now cluster.Remains) error {
	if err := d.Check(plan, now); err != nil || d.Progress(plan) != Untouched {
		return err
	}
	file, err := encodeSummed(plan)
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	if err := vfs.WriteFileDurably(d.Disk, planPath(d.Path), file); err != nil {
		return errors.Join(fmt.Errorf("write the plan: %w", err), d.load()) // which may be there
	}
	d.pending = plan
	return nil
}

// Finish carries out a plan that was begun, and returns the files and directories that hold the
// previous data. It returns nothing if there is no plan. It may be called again after a failure or
// a crash at any point.
func (d *Directory) Finish() (kept []string, err error) {
	plan := d.pending
	if plan == nil {
		return nil, nil
	}
	if err := d.finish(plan); err != nil {
		return nil, errors.Join(fmt.Errorf("recover %s: %w", d.Path, err), d.reload())
	}
	d.pending, d.started = nil, false
	return d.kept(plan), nil
}

func (d *Directory) finish(plan *cluster.RecoveryPlan) error {
	if !d.started {
		if err := d.Disk.Rename(planPath(d.Path), startedPath(d.Path)); err != nil {
			return err
		}
		d.started = true
	}
	// Also if an earlier process renamed it, because it may not have synced the directory.
	if err := errors.Join(d.Disk.MkdirAll(asideDir(d.Path)), d.Disk.SyncDir(d.Path)); err != nil {
		return err
	}
	if d.me.ClusterID == plan.Was {
		if err := d.carryOut(plan); err != nil {
			return err
		}
	}
	if err := d.Disk.Rename(startedPath(d.Path), donePath(d.Path, plan.Cluster)); err != nil {
		return err
	}
	return errors.Join(d.Disk.SyncDir(asideDir(d.Path)), d.Disk.SyncDir(d.Path))
}

// carryOut does what the plan wants of this node. Its new identity comes last: with that it belongs
// to the new cluster.
func (d *Directory) carryOut(plan *cluster.RecoveryPlan) error {
	for i := range plan.Logs {
		if l := &plan.Logs[i]; len(l.Survivors) > 0 && l.Survivors[0].Node == d.me.NodeID && l.Term > 0 {
			if err := d.continueLog(plan, l); err != nil {
				return fmt.Errorf("log %s: %w", l.Name, err)
			}
		}
	}
	for _, u := range plan.Unused {
		if u.Node != d.me.NodeID {
			continue
		}
		if err := d.files.SetAside(u.Log, u.ID, "the cluster was recovered without this replica: "+u.Problem); err != nil {
			return err
		}
	}
	if err := datadir.SaveJSON(d.Disk, beforePath(d.Path, plan.Was), d.me); err != nil {
		return err
	}
	me := d.me
	me.ClusterID, me.Former = plan.Cluster, append(slices.Clone(d.me.Former), plan.Was)
	me.Seeds = plan.State.Members()
	if err := me.Save(d.Disk, d.Path); err != nil {
		return err
	}
	d.me = me
	return nil
}

// continueLog writes the entries with which a log continues with the replica on this node. Repeated
// after a crash, it replaces them by the same entries.
func (d *Directory) continueLog(plan *cluster.RecoveryPlan, l *cluster.LogRecovery) (err error) {
	first := l.Survivors[0]
	log, err := d.open(l.Log, first.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	has, err := core.ReadStopped(log, log.HardState(), first.Last)
	if err != nil {
		return err
	}
	if has.Last != first.Last || has.LastTerm != first.LastTerm {
		return fmt.Errorf("replica %d ends with entry %d of term %d, not with %d of term %d", first.ID, has.Last, has.LastTerm, first.Last, first.LastTerm)
	}
	c := core.Continuation{Replica: first.ID, Keep: l.Keep(), Term: l.Term, Unix: plan.Unix, WriterTerms: cluster.RecoveryWriterTerms}
	if l.Log == cluster.CatalogID {
		value, err := json.Marshal(plan.State.Checkpoint("recovery-" + plan.Cluster))
		if err != nil {
			return fmt.Errorf("encode the catalog: %w", err)
		}
		c.Records = [][]byte{value}
	}
	w, err := has.Continue(c)
	if err != nil {
		return err
	}
	if log.HardState() == *w.HardState && log.LastIndex() == w.HardState.Commit {
		return nil
	}
	_, err = log.Write([]segment.Write{w})
	return err
}

// Resume finishes a recovery that was begun in a data directory and interrupted, if there is
// one. The caller holds the directory's lock.
func Resume(disk vfs.FS, path string, logger *slog.Logger) error {
	d := &Directory{Disk: disk, Path: path}
	if err := d.load(); d.pending == nil || err != nil {
		return err
	}
	d, err := Open(disk, path, logger)
	if err != nil {
		return err
	}
	kept, err := d.Finish()
	if err == nil {
		logger.Warn("a recovery of the cluster that was interrupted is finished", "cluster", d.ClusterID(), "kept", kept)
	}
	return err
}
