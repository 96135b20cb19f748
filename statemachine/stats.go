package statemachine

import "time"

// Stats describes a Replica, for metrics.
type Stats struct {
	// Applied is the offset up to which records are applied, and End that of the end of the log as last
	// known.
	Applied, End int64
	// Records were applied since Open.
	Records int64
	// Proposals were begun since Open, and Pending have not ended.
	Proposals, Pending int64
	// Snapshots were taken since Open, and SnapshotFailures were not, or were not followed by a move of
	// the hold. Snapshot is the offset of the newest one known, or -1, and SnapshotAge the time since it was
	// taken or found.
	Snapshots, SnapshotFailures int64
	Snapshot                    int64
	SnapshotAge                 time.Duration
	// Digests were compared with those of others, at the offsets of this replica.
	Digests int64
}

// Lag returns the number of records by which the state is behind the log, as last known.
func (s Stats) Lag() int64 { return max(0, s.End-s.Applied) }

// counts are the parts of Stats that change.
type counts struct {
	records, proposals, pending, snapshots, snapshotFailures, digests int64

	snapshot   int64
	snapshotAt time.Time
}

// Stats returns the current figures.
func (r *Replica[R]) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stats{
		Applied: r.next, End: max(r.end, r.next), Records: r.counts.records, Proposals: r.counts.proposals, Pending: r.counts.pending,
		Snapshots: r.counts.snapshots, SnapshotFailures: r.counts.snapshotFailures, Snapshot: -1, Digests: r.counts.digests,
	}
	if r.counts.snapshot >= 0 {
		s.Snapshot, s.SnapshotAge = r.counts.snapshot, time.Since(r.counts.snapshotAt)
	}
	return s
}

// Progress is how much of a boot is done.
type Progress struct {
	// SnapshotBytes of SnapshotSize have been restored; 0 of 0 without a snapshot.
	SnapshotBytes, SnapshotSize int64
	// From is the offset at which the records begin that are applied after that, Applied how far it has
	// come, and End where the boot ends.
	From, Applied, End int64
}

// Done reports whether the boot has ended.
func (p Progress) Done() bool { return p.SnapshotBytes >= p.SnapshotSize && p.Applied >= p.End }

// progress reports the progress of a boot, at most every so often.
type progress struct {
	Progress
	hook func(Progress) // nil: none
	last time.Time
}

const progressTime = 100 * time.Millisecond

func (p *progress) report() {
	if p.hook == nil {
		return
	}
	if now := time.Now(); p.Done() || now.Sub(p.last) >= progressTime {
		p.last = now
		p.hook(p.Progress)
	}
}
