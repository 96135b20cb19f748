package node

import "strandline.dev/internal/record"

// identify refuses a log that has the name that the caller asks for, but is not
// the log that the caller knows by that name.
func (c Caller) identify(name string, id uint64) *record.Refusal {
	switch {
	case c.Log == 0 || c.Log == id:
		return nil
	case c.Log > id:
		// Ids rise, so this node has not heard of the caller's log yet.
		return record.Refuse(record.NotLeader, "this node does not know a log %q with id %d yet", name, c.Log)
	}
	r := record.Refuse(record.LogReplaced,
		"log %q with id %d was deleted; another one of that name, with id %d, was created after it", name, c.Log, id)
	r.LogID = id
	return r
}
