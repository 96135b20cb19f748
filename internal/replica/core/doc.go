// Package core decides for one replica of one log: it drives Raft, the sequencer and the tail as
// one state machine. Inputs are method calls; Advance returns what the caller has to write, send
// and answer.
//
// It does no I/O of its own, reads no clock and starts no goroutine: SetNow sets the time, and
// while a replica starts it reads the stored log through the given segment.Log. Start with Core
// in core.go.
package core
