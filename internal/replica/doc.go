// Package replica is one replica of one log. It is the only room that knows
// go.etcd.io/raft.
//
// Core (core.go) decides: it drives Raft, the sequencer and the tail as one
// single-owner state machine whose inputs are method calls and whose outputs
// come out of Advance. It writes nothing, sends nothing and starts nothing.
//
// Replica (run.go) acts: one goroutine feeds the core and performs its
// outputs, a second one (writer.go) makes its writes durable. Readers
// (reader.go) run in their callers' goroutines, beside both.
package replica
