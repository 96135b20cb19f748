package cluster

// Damage is what is known to be wrong with the files of a replica.
type Damage struct {
	// Lost: what the replica promised is gone, its votes too: the files are not
	// there, were marked as lost, or are an older copy.
	Lost bool
	// Corrupt: stored bytes are not what was written. Where neither is set, the
	// files could not be opened, and nothing is known of what they hold.
	Corrupt bool
	// Full: the damage is in one full segment only, whose entries are all committed.
	Full bool
	// Shared: other nodes hold the log too, and can be asked for entries.
	Shared bool
}

// Remedy is what a node does about damage.
type Remedy int

const (
	// KeepServing what can be read: no other node holds the log, or a trim that is on
	// its way to this replica removes the damage.
	KeepServing Remedy = iota
	// RepairSegment fetches the entries of one segment while the replica runs.
	RepairSegment
	// Trim removes the segments that this replica's own trims allow to remove, at once.
	Trim
	// TakeOut closes the replica: it neither votes nor leads nor acknowledges until
	// it is repaired or replaced. What to do next is StoppedRemedy.
	TakeOut
	// Repair fetches what is missing from the other nodes, then opens the files.
	Repair
	// Renew asks the catalog for another replica id in the place of this one, which
	// must never speak again, see RenewReplicas.
	Renew
	// Refuse leaves the files to an operator: they are the only copy.
	Refuse
	// Retry opens the files again later: others may serve the log meanwhile.
	Retry
)

// RunningRemedy is what to do about damage found while the replica runs. A replica
// with damage in a full segment endangers no vote and no acknowledgement, so it goes
// on during the repair. When that repair turns out to be impossible, drive it again
// with Full false.
func (d Damage) RunningRemedy() Remedy {
	switch {
	case !d.Shared:
		return KeepServing
	case d.Full && !d.Lost:
		return RepairSegment
	}
	return TakeOut
}

// StoppedRemedy is what to do about a replica that does not run: one that was taken
// out, could not be opened, or could not be repaired (then Lost is set).
func (d Damage) StoppedRemedy() Remedy {
	switch {
	case !d.Lost && !d.Corrupt:
		return Retry
	case !d.Shared:
		return Refuse
	case d.Lost:
		return Renew
	}
	return Repair
}

// TrimmedElsewhere are entries that cannot be read here, in a full segment of a
// replica that runs, and are trimmed on another one, see TrimmedBy.
type TrimmedElsewhere struct {
	Last    uint64 // the index of the last of them
	Applied uint64 // by this replica
	Start   uint64 // the first index that this replica's own trims have left
	Trimmed bool   // Trim was done with this Start or a later one
}

// Remedy is KeepServing, Trim or TakeOut. A replica that has applied these entries
// applies the trim that another one has applied, too, and removes the segment. But
// segments begin elsewhere on each replica: one that holds entries behind that trim,
// too, stays. Taken out, the replica continues behind the trim, or is replaced.
func (e TrimmedElsewhere) Remedy() Remedy {
	switch {
	case e.Applied < e.Last:
		return TakeOut // it has to apply what nobody has
	case e.Start <= e.Last:
		return KeepServing
	case !e.Trimmed:
		return Trim
	}
	return TakeOut
}

// Beginning is where a replica's log begins: its first index, and the term of the
// entry before. Index 0: it is not known.
type Beginning struct{ Index, Term uint64 }

// Holder is what another replica says about an entry that is missing.
type Holder struct {
	Begins Beginning
	// Lacks: the entry is not there whole. The log ends before it, or is damaged there too.
	Lacks bool
}

// TrimmedBy returns the lowest beginning of the replicas that begin behind index, if
// there is one and no other has the entry at index: then nobody has it any more, nobody
// needs it, since its trim is committed, and a repair skips to the beginning. It returns
// false if one of them has the entry, or if that is not known of one.
func TrimmedBy(index uint64, others []Holder) (lowest Beginning, trimmed bool) {
	for _, h := range others {
		switch b := h.Begins; {
		case b.Index > index:
			if !trimmed || b.Index < lowest.Index {
				lowest, trimmed = b, true
			}
		case !h.Lacks:
			return Beginning{}, false
		}
	}
	return lowest, trimmed
}
