package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"strandline.dev/internal/segment"
)

// formatVersion is the version of the data directory's layout.
const formatVersion = 1

// identity is node.json: who this node is. It is written once.
//
//	data/lock                       flock: one process at a time
//	data/node.json
//	data/logs/<log>/<replica>/      segments and snapshots of one replica
//
// Log and replica are decimal ids; log 0 is the catalog.
type identity struct {
	Format         int    `json:"format_version"`
	ClusterID      string `json:"cluster_id"`
	NodeID         uint64 `json:"node_id"`
	CatalogReplica uint64 `json:"catalog_replica"`
}

// loadIdentity reads node.json. In a new directory it writes the one that
// create returns, after everything that it refers to is durable.
func loadIdentity(disk segment.FS, dir string, create func() (identity, error)) (identity, error) {
	path := filepath.Join(dir, "node.json")
	data, err := disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id, err := create()
		if err != nil {
			return id, err
		}
		data, err := json.MarshalIndent(id, "", "  ")
		if err != nil {
			return id, fmt.Errorf("encode node.json: %w", err)
		}
		if err := segment.WriteFileDurably(disk, path, append(data, '\n')); err != nil {
			return id, fmt.Errorf("write node.json: %w", err)
		}
		return id, nil
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
	if id.ClusterID == "" || id.NodeID == 0 || id.CatalogReplica == 0 {
		return id, fmt.Errorf("%s is incomplete; restore it from a copy, it is never changed", path)
	}
	return id, nil
}
