package datadir

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

// ageMark is watermarks/incarnation: the number of lives.json once more, beside the durable
// watermarks. Where older copies of the logs and of their watermarks are brought back
// together nothing in either shows it, but this file is older then, too. It is written
// before lives.json, so it is never behind it but for that reason.
type ageMark struct {
	belonging
	Number uint64 `json:"life"`
	Run    uint64 `json:"run"`
	Sum    uint32 `json:"sum"` // record.Checksum of the file with Sum 0
}

func ageMarkPath(dir string) string { return filepath.Join(WatermarksDir(dir), "incarnation") }

func saveAgeMark(disk vfs.FS, dir string, me *Identity, own peer.Incarnation) error {
	m := ageMark{belonging: belongingTo(me), Number: own.Number, Run: own.Run}
	m.Sum = sumOf(m) // which has none yet
	return SaveJSON(disk, ageMarkPath(dir), m)
}

// readAgeMark returns how old the watermarks are. One that cannot be used is an error, and as
// old as can be.
func readAgeMark(disk vfs.FS, dir string, me *Identity) (peer.Incarnation, error) {
	path := ageMarkPath(dir)
	data, err := disk.ReadFile(path)
	if err != nil {
		return peer.Incarnation{}, fmt.Errorf("read %s: %w", path, err)
	}
	var m ageMark
	if err := json.Unmarshal(data, &m); err != nil {
		return peer.Incarnation{}, fmt.Errorf("read %s: %w", path, err)
	}
	if !sumMatches(data, "0") {
		return peer.Incarnation{}, fmt.Errorf("%s does not match its checksum", path)
	}
	if err := m.foreign(path, me); err != nil {
		return peer.Incarnation{}, err
	}
	return peer.Incarnation{Number: m.Number, Run: m.Run}, nil
}
