package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

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
func (n *Node) removeWatermark(log, replica uint64) error {
	err := n.disk.Remove(WatermarkPath(n.options.DataDir, log, replica))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hasWatermark reports whether a replica has one, readable or not.
func (n *Node) hasWatermark(log, replica uint64) bool {
	_, err := n.disk.ReadFile(WatermarkPath(n.options.DataDir, log, replica))
	return !errors.Is(err, fs.ErrNotExist)
}

// removeOrphanedWatermarks removes those of replicas that are not known and have no
// files: a crash came between the removals of the two. One of the catalog stays, as
// an old node.json may name its replica.
func (n *Node) removeOrphanedWatermarks(known map[string]bool) error {
	files, err := n.disk.List(watermarksDir(n.options.DataDir))
	if err != nil {
		return fmt.Errorf("list watermarks: %w", err)
	}
	for _, file := range files {
		var log, replica uint64
		if _, err := fmt.Sscanf(file.Name, "%d-%d", &log, &replica); err != nil || log == catalogID {
			continue
		}
		if known[n.replicaDir(log, replica)] || n.hasLog(log, replica) {
			continue
		}
		if err := n.removeWatermark(log, replica); err != nil {
			return fmt.Errorf("remove the watermark of a replica that is gone: %w", err)
		}
	}
	return nil
}
