package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"strandline.dev/internal/vfs"
)

// FileDamage describes a damaged file of the node itself.
type FileDamage struct {
	Path   string
	Detail string
}

// CheckData checks node.json, replicas.json and lives.json in the data directory of a stopped node.
// cluster is the id that the files name, or empty if it is not known.
func CheckData(disk vfs.FS, dir string) (cluster string, damage []FileDamage, err error) {
	id, err := LoadIdentity(disk, dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", nil, err
	case err != nil:
		damage = append(damage, FileDamage{filepath.Join(dir, "node.json"), err.Error()})
	case !id.Member():
		logs, err := disk.ListDirs(filepath.Join(dir, "logs"))
		if err != nil {
			return "", nil, fmt.Errorf("list logs on disk: %w", err)
		}
		if len(logs) > 0 {
			damage = append(damage, FileDamage{filepath.Join(dir, "node.json"), "the file is missing"})
		}
		return "", damage, nil
	}
	me := new(Me)
	me.Store(&id)
	list, err := LoadReplicaList(disk, dir, me)
	if err != nil {
		return "", nil, err
	}
	if list.Damaged != nil {
		damage = append(damage, FileDamage{list.path, list.Damaged.Error()})
	}
	incarnations, err := LoadIncarnations(disk, dir, me)
	if err != nil {
		return "", nil, err
	}
	if incarnations.Damaged != nil {
		damage = append(damage, FileDamage{incarnations.path, incarnations.Damaged.Error()})
	}
	if incarnations.Older != nil {
		damage = append(damage, FileDamage{WatermarksDir(dir), "an older copy: " + incarnations.Older.Error()})
	}
	return id.FilesOf(), damage, nil
}
