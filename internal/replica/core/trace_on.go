//go:build with_tla

package core

import (
	"encoding/json"

	"go.etcd.io/raft/v3"
)

// traceRaft makes Raft report its events, see Config.TraceRaft.
func traceRaft(c *raft.Config, report func(event []byte)) {
	if report != nil {
		c.TraceLogger = raftTrace(report)
	}
}

type raftTrace func(event []byte)

func (report raftTrace) TraceEvent(e *raft.TracingEvent) {
	event, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers only
	}
	report(event)
}
