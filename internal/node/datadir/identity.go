package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/unknown"
	"strandline.dev/internal/vfs"
)

// FormatVersion is the version of the data directory's layout, and of the
// catalog's records.
const FormatVersion = 2

// Identity is the content of node.json: the identity of this node. It is written when the node
// becomes a member of a cluster, and again only when its replica of the catalog is replaced. An
// older copy is harmless.
//
//	data/lock                       flock: one process at a time
//	data/nonce                      distinguishes a waiting node from others
//	data/node.json
//	data/replicas.json              which replicas were created here, see ReplicaList
//	data/logs/<log>/<replica>/      segments and snapshots of one replica
//	data/set-aside/<log>-<replica>/ files of a replica that could not be trusted
//
// Log and replica are decimal ids; log 0 is the catalog.
type Identity struct {
	Format    int    `json:"format_version"`
	ClusterID string `json:"cluster_id"`
	NodeID    uint64 `json:"node_id"`
	Name      string `json:"name"`
	// CatalogReplica is the id of this node's replica of log 0. CatalogVoters are the initial
	// voters of log 0.
	CatalogReplica uint64   `json:"catalog_replica"`
	CatalogVoters  []uint64 `json:"catalog_voters"`
	// Sum is the record.Checksum of the file with Sum 0: a corrupted id would be the id of another
	// node. Files of early releases do not have it.
	Sum uint32 `json:"sum,omitempty"`
	// Seeds are the nodes of the cluster when this node was admitted. Through them it reaches the
	// catalog.
	Seeds []cluster.Node `json:"seeds,omitempty"`
	// Former are the ids that the cluster had before it was recovered, oldest first; see package
	// recovery. The files of replicas keep the oldest.
	Former  []string        `json:"former_ids,omitempty"`
	Unknown unknown.Members `json:"-"`
}

func (id Identity) MarshalJSON() ([]byte, error) {
	type known Identity
	return unknown.Marshal(known(id), id.Unknown)
}

func (id *Identity) UnmarshalJSON(data []byte) (err error) {
	type known Identity
	id.Unknown, err = unknown.Unmarshal(data, (*known)(id))
	return err
}

// Me is the Identity of this node, shared by all parts of the node. It has no cluster until the
// node becomes a member, which happens once.
type Me struct{ atomic.Pointer[Identity] }

// FilesOf returns the id of the cluster that the files in the directory name.
func (id *Identity) FilesOf() string {
	if len(id.Former) > 0 {
		return id.Former[0]
	}
	return id.ClusterID
}

// Member: the node belongs to a cluster.
func (id *Identity) Member() bool { return id.ClusterID != "" }

// LoadIdentity reads node.json. In a directory without it, the node is not a member of a cluster
// yet.
func LoadIdentity(disk vfs.FS, dir string) (Identity, error) {
	path := filepath.Join(dir, "node.json")
	data, err := disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, nil
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read node.json: %w", err)
	}
	var id Identity
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("read %s: %w; restore it from a copy", path, err)
	}
	if !sumMatches(data, "") {
		return id, fmt.Errorf("%s does not match its checksum; restore it from a copy", path)
	}
	if id.Format != FormatVersion {
		return id, fmt.Errorf("%s has format version %d, but this program supports %d: run the release that wrote it", path, id.Format, FormatVersion)
	}
	if id.ClusterID == "" || id.NodeID == 0 || id.CatalogReplica == 0 || len(id.CatalogVoters) == 0 {
		return id, fmt.Errorf("%s is incomplete; restore it from a copy", path)
	}
	return id, nil
}

// Save writes node.json, after everything that it refers to is durable.
func (id Identity) Save(disk vfs.FS, dir string) error {
	id.Sum = 0
	id.Sum = sumOf(id)
	return SaveJSON(disk, filepath.Join(dir, "node.json"), id)
}
