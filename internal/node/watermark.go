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
