package node

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

// identify refuses a log that has the name that the caller asks for, but is not
// the log that the caller knows by that name.
func (c Caller) identify(name string, id uint64) *record.Refusal {
	return cluster.Identify(name, c.Log, id)
}
