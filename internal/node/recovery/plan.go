package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
)

// Progress is the progress of a data directory with a plan.
type Progress int

const (
	// Untouched means that nothing of the plan is in the directory.
	Untouched Progress = iota
	// Planned means that the plan is stored and nothing else has changed, so another plan may
	// replace it.
	Planned
	// Started means that the directory is being changed: the recovery can only be finished.
	Started
	// Committed means that the node belongs to the recovered cluster.
	Committed
)

func (p Progress) String() string {
	return [...]string{"untouched", "planned", "started", "committed"}[p]
}

// Progress returns the progress of this directory with a plan.
func (d *Directory) Progress(plan *cluster.RecoveryPlan) Progress {
	switch {
	case d.me.ClusterID == plan.Cluster:
		return Committed
	case d.pending == nil || d.pending.Cluster != plan.Cluster:
		return Untouched
	case d.started:
		return Started
	}
	return Planned
}

// Pending returns the plan that was begun in this directory and is not finished, or nil.
func (d *Directory) Pending() *cluster.RecoveryPlan { return d.pending }

// Done returns the finished plan that created the node's current cluster, or nil.
func (d *Directory) Done() (*cluster.RecoveryPlan, error) {
	return d.read(donePath(d.Path, d.me.ClusterID))
}

// Disregard lets the next Begin replace the pending plan. It refuses if that plan was started.
func (d *Directory) Disregard() error {
	if d.started {
		return fmt.Errorf("the recovery of %s as cluster %s was started and can only be finished", d.Path, d.pending.Cluster)
	}
	d.pending = nil
	return nil
}

// load reads the pending plan. The name of its file shows whether it was started.
func (d *Directory) load() (err error) {
	if d.pending, err = d.read(startedPath(d.Path)); d.pending != nil || err != nil {
		d.started = d.pending != nil
		return err
	}
	d.started = false
	d.pending, err = d.read(planPath(d.Path))
	return err
}

// reload finds out how far a step has come that failed: it may have been done all the same.
func (d *Directory) reload() error {
	id, err := datadir.LoadIdentity(d.Disk, d.Path)
	if err != nil {
		return err
	}
	d.me = id
	return d.load()
}

func (d *Directory) read(path string) (*cluster.RecoveryPlan, error) {
	data, err := d.Disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	plan := new(cluster.RecoveryPlan)
	if err := decodeSummed(data, plan); err != nil {
		return nil, fmt.Errorf("read %s: %w; copy the plan from another node of the recovery, which has it as %s, %s or set-aside/recovery-CLUSTER.json",
			path, err, filepath.Base(planPath(d.Path)), filepath.Base(startedPath(d.Path)))
	}
	return plan, nil
}

// planPath is where the plan is until the first step is taken, startedPath until the last is, and
// donePath afterwards.
func planPath(dir string) string { return filepath.Join(dir, "recovery.json") }

func startedPath(dir string) string { return filepath.Join(dir, "recovery-started.json") }

func donePath(dir, id string) string {
	return filepath.Join(asideDir(dir), "recovery-"+id+".json")
}

// beforePath is where the identity is kept that the node had in the cluster of an id.
func beforePath(dir, id string) string {
	return filepath.Join(asideDir(dir), "node-"+id+".json")
}

func asideDir(dir string) string { return filepath.Join(dir, "set-aside") }

// kept are the files and directories that hold what a plan has changed as it was before.
func (d *Directory) kept(plan *cluster.RecoveryPlan) (paths []string) {
	for _, u := range plan.Unused {
		if u.Node == d.me.NodeID {
			paths = append(paths, d.files.AsideDir(u.Log, u.ID))
		}
	}
	return append(paths, beforePath(d.Path, plan.Was), donePath(d.Path, plan.Cluster))
}

// summed is the stored form of plans and remains: JSON with its checksum.
type summed struct {
	Content json.RawMessage `json:"content"`
	Sum     uint32          `json:"sum"` // record.Checksum of Content
}

func encodeSummed(content any) ([]byte, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return json.Marshal(summed{data, record.Checksum(data)})
}

func decodeSummed(data []byte, content any) error {
	var s summed
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if len(s.Content) == 0 || record.Checksum(s.Content) != s.Sum {
		return errors.New("the file does not match its checksum")
	}
	return json.Unmarshal(s.Content, content)
}

// EncodeRemains encodes remains as a file for other machines.
func EncodeRemains(s cluster.Remains) ([]byte, error) { return encodeSummed(s) }

// DecodeRemains decodes the output of EncodeRemains.
func DecodeRemains(data []byte) (s cluster.Remains, err error) {
	if err := decodeSummed(data, &s); err != nil {
		return s, err
	}
	if s.Cluster == "" || s.Node == 0 {
		return s, errors.New("the file is not a report of a node's data")
	}
	return s, nil
}

// Check refuses a directory that is not part of a plan, has another plan, or whose node has run
// since.
func (d *Directory) Check(plan *cluster.RecoveryPlan, now cluster.Remains) error {
	if d.Progress(plan) != Untouched {
		return nil
	}
	at := slices.IndexFunc(plan.Remains, func(s cluster.Remains) bool { return s.Node == d.me.NodeID })
	switch {
	case d.pending != nil:
		return fmt.Errorf("%s has another plan, to continue as cluster %s, not as %s", d.Path, d.pending.Cluster, plan.Cluster)
	case d.me.ClusterID != plan.Was:
		return fmt.Errorf("node %q in %s belongs to cluster %s, and the plan is for cluster %s", d.me.Name, d.Path, d.me.ClusterID, plan.Was)
	case at < 0:
		return fmt.Errorf("node %q in %s is not part of the recovery as cluster %s: it is lost for that cluster, and can join it with an empty directory and a new name",
			d.me.Name, d.Path, plan.Cluster)
	case !now.Same(plan.Remains[at]):
		return fmt.Errorf("node %q in %s has run since its remains were written: if no node was recovered with them, write the remains of all nodes again; otherwise the node is lost, and can join with an empty directory and a new name",
			d.me.Name, d.Path)
	}
	return nil
}
