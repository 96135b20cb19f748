// Package core decides for one replica of one log: it drives Raft, the sequencer
// and the tail as one state machine with a single owner. Inputs are method calls;
// Advance returns what the owner has to write, send and answer.
//
// It does no I/O of its own, reads no clock and starts no goroutine: time comes
// with SetNow, and what it reads of the stored log while a replica starts comes
// from the segment.Log that it was given. Begin with Core in core.go.
package core
