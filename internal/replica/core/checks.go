package core

import (
	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// checks keeps the recent keys of a log, by which its leader decides checks, within the memory of
// the node.
type checks struct {
	proposer *proposer
	reads    *reads
	all      *budget.Shares
	counted  int64 // the part of this log in all
}

// KeepKeys makes this replica keep recent keys, as the first check does, and returns the offset
// from which on it has them. ok is false if it does not lead.
func (k *checks) KeepKeys() (from record.Offset, ok bool) {
	if k.reads.notServing() != nil {
		return 0, false
	}
	return k.proposer.sequencer.KeepKeys(), true
}

// KeysFrom returns the offset from which on recent keys are kept, or -1 if none are.
func (k *checks) KeysFrom() record.Offset { return k.proposer.sequencer.KeysFrom() }

func (k *checks) bound() {
	if k.proposer.sequencer.KeysFrom() >= 0 {
		k.proposer.sequencer.BoundKeys(int(k.all.Share(sequence.MaxRecentBytes)))
	}
}

func (k *checks) count() {
	if bytes := int64(k.proposer.sequencer.KeyBytes()); bytes != k.counted {
		k.all.Changed(k.counted, bytes)
		k.counted = bytes
	}
}
