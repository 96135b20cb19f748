package datadir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
)

// sumOf returns the checksum of the content of a file that has no checksum yet.
func sumOf(what any) uint32 {
	data, err := json.Marshal(what)
	if err != nil {
		return 0 // it has nothing that cannot be encoded
	}
	return record.Checksum(data)
}

// sumMatches reports whether the member sum of a file equals sumOf of its content without the sum,
// including members that this version does not know. without is the value of sum in such content:
// "0", or empty if the member is absent. In the latter case a file without sum matches too.
func sumMatches(file []byte, without string) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, file) != nil {
		return false
	}
	object := compact.Bytes()
	from, to := memberSum(object)
	if from == 0 {
		return without == ""
	}
	sum, err := strconv.ParseUint(string(object[from:to]), 10, 32)
	if without == "" {
		from -= len(`,"sum":`) // it is not the first
	}
	return err == nil && uint64(record.Checksum(slices.Concat(object[:max(from, 0)], []byte(without), object[to:]))) == sum
}

// memberSum returns where the value of the member sum is in a compact object; 0, 0: there
// is none.
func memberSum(object []byte) (from, to int) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, 0
	}
	for d.More() {
		name, err := d.Token()
		from = int(d.InputOffset()) + len(":")
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return 0, 0
		}
		if name == "sum" {
			return from, int(d.InputOffset())
		}
	}
	return 0, 0
}

// belonging names the node that a file belongs to. Files from before a node had an id have none.
type belonging struct {
	Cluster string `json:"cluster_id,omitempty"`
	Node    uint64 `json:"node_id,omitempty"`
}

func belongingTo(me *Identity) belonging { return belonging{me.FilesOf(), me.NodeID} }

// foreign is an error if the file is known to be another node's.
func (b belonging) foreign(path string, me *Identity) error {
	if b == (belonging{}) || b == belongingTo(me) {
		return nil
	}
	return fmt.Errorf("%s belongs to node %d of cluster %s, not to node %d of cluster %s", path, b.Node, b.Cluster, me.NodeID, me.FilesOf())
}

// SaveJSON writes a file atomically: after a crash it is complete or absent.
func SaveJSON(disk vfs.FS, path string, what any) error {
	data, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	if err := vfs.WriteFileDurably(disk, path, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
