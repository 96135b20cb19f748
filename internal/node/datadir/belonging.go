package datadir

import "fmt"

// belonging says whose a file is. Files of before there was one have none.
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
