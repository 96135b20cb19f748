//go:build !with_tla

package core

import "go.etcd.io/raft/v3"

// traceRaft does nothing: Raft reports events only in programs built with the tag with_tla.
func traceRaft(*raft.Config, func(event []byte)) {}
