package cluster

// Damage describes what is known to be wrong with the files of a replica.
type Damage struct {
	// Lost is set if the replica's acknowledged entries and votes are lost: the files are missing,
	// were marked as lost, or are an older copy.
	Lost bool
	// Corrupt is set if stored bytes are not what was written. If neither Lost nor Corrupt is set,
	// the files could not be opened, and their content is not known.
	Corrupt bool
	// Full is set if all damage is in one full segment, whose entries are all committed.
	Full bool
	// Shared is set if other nodes hold the log too, and can supply entries.
	Shared bool
}

// Remedy is a node's reaction to damage.
type Remedy int

const (
	// KeepServing serves what can be read: no other node holds the log, or a trim that will reach
	// this replica removes the damage.
	KeepServing Remedy = iota
	// RepairSegment fetches the entries of one segment while the replica runs.
	RepairSegment
	// Trim removes the segments that this replica's own trims permit to remove, at once.
	Trim
	// TakeOut stops the replica: it neither votes nor leads nor acknowledges until it is repaired or
	// replaced. StoppedRemedy is the next step.
	TakeOut
	// Repair fetches the missing entries from the other nodes, then opens the files.
	Repair
	// Renew requests another replica id from the catalog. The replica must never participate under
	// the old one again, see RenewReplicas.
	Renew
	// Refuse leaves the files to an operator, since they are the only copy.
	Refuse
	// Retry opens the files again later. Other nodes may serve the log meanwhile.
	Retry
)

// RunningRemedy returns the remedy for damage found while the replica runs. A replica with damage
// in a full segment endangers no vote and no acknowledgement, so it continues during the repair.
// If that repair turns out to be impossible, the caller calls it again with Full unset.
func (d Damage) RunningRemedy() Remedy {
	switch {
	case !d.Shared:
		return KeepServing
	case d.Full && !d.Lost:
		return RepairSegment
	}
	return TakeOut
}

// StoppedRemedy returns the remedy for a replica that does not run: one that was taken out, could
// not be opened, or could not be repaired (then Lost is set).
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

// TrimmedElsewhere describes entries that cannot be read here, in a full segment of a running
// replica, and that another replica has trimmed, see TrimmedBy.
type TrimmedElsewhere struct {
	Last    uint64 // index of the last such entry
	Applied uint64 // index that this replica has applied
	Start   uint64 // first index that this replica's own trims have kept
	Trimmed bool   // Trim was carried out with this Start or a later one
}

// Remedy returns KeepServing, Trim or TakeOut. A replica that has applied these entries also
// applies the trim that another one has applied, and then removes the segment. But segments begin
// at different entries on each replica: a segment that also holds entries behind the trim stays.
// A replica that is taken out continues behind the trim, or is replaced.
func (e TrimmedElsewhere) Remedy() Remedy {
	switch {
	case e.Applied < e.Last:
		return TakeOut // it has to apply entries that no replica has
	case e.Start <= e.Last:
		return KeepServing
	case !e.Trimmed:
		return Trim
	}
	return TakeOut
}

// Beginning is the beginning of a replica's log: its first index, and the term of the entry
// before it. Index is 0 if it is not known.
type Beginning struct{ Index, Term uint64 }

// Holder is the answer of another replica about a missing entry.
type Holder struct {
	Begins Beginning
	// Lacks is set if the entry is not there intact: the log ends before it, or is damaged there,
	// too.
	Lacks bool
}

// TrimmedBy returns the lowest beginning of the replicas whose logs begin behind index, if there
// is one and no other replica has the entry at index. Then no replica has the entry and none
// needs it, since its trim is committed, and a repair skips to the beginning. It returns false if
// a replica has the entry, or may have it.
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
