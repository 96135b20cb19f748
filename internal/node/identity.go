package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"strandline.dev/internal/segment"
)

// formatVersion is the version of the data directory's layout, and of the
// catalog's records.
const formatVersion = 2

// identity is node.json: who this node is. It is written once, when the node
// becomes a member of a cluster.
//
//	data/lock                       flock: one process at a time
//	data/token                      what a waiting node calls itself by
//	data/node.json
//	data/replicas.json              which replicas were made here, see replicaList
//	data/logs/<log>/<replica>/      segments and snapshots of one replica
//
// Log and replica are decimal ids; log 0 is the catalog.
type identity struct {
	Format    int    `json:"format_version"`
	ClusterID string `json:"cluster_id"`
	NodeID    uint64 `json:"node_id"`
	Name      string `json:"name"`
	// CatalogReplica is this node's replica of log 0; CatalogVoters are those
	// that log 0 began with.
	CatalogReplica uint64   `json:"catalog_replica"`
	CatalogVoters  []uint64 `json:"catalog_voters"`
	// Seeds are the nodes there were when this one was taken in: enough to
	// talk to those who bring it the catalog.
	Seeds []catalogNode `json:"seeds,omitempty"`
}

// member: the node belongs to a cluster.
func (id *identity) member() bool { return id.ClusterID != "" }

// loadIdentity reads node.json; in a directory without it the node is no member
// of a cluster yet.
func loadIdentity(disk segment.FS, dir string) (identity, error) {
	path := filepath.Join(dir, "node.json")
	data, err := disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, fmt.Errorf("read node.json: %w", err)
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("read %s: %w; restore it from a copy, it is never changed", path, err)
	}
	if id.Format != formatVersion {
		return id, fmt.Errorf("%s has format version %d, this program knows %d", path, id.Format, formatVersion)
	}
	if id.ClusterID == "" || id.NodeID == 0 || id.CatalogReplica == 0 || len(id.CatalogVoters) == 0 {
		return id, fmt.Errorf("%s is incomplete; restore it from a copy, it is never changed", path)
	}
	return id, nil
}

// save writes node.json, after everything that it refers to is durable.
func (id identity) save(disk segment.FS, dir string) error {
	return saveJSON(disk, filepath.Join(dir, "node.json"), id)
}

// saveJSON writes a file that is there completely or not at all.
func saveJSON(disk segment.FS, path string, what any) error {
	data, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	if err := segment.WriteFileDurably(disk, path, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
