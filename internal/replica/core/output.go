package core

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Output is what the caller of Advance has to do, in this order: hand over the writes, send the
// messages, deliver the answers, save snapshots, trim.
type Output struct {
	Writes    []Write
	Messages  []*raftpb.Message
	Answers   []Answered
	Snapshots []Snapshot
	// Feeds are ranges to read from the log, see Fed.
	Feeds []Feed
	// Base is set if the snapshot at the start of the log must be read, see BaseLoaded.
	Base bool
	// Hash, if not empty, is a range to hash, see Hashed.
	Hash HashRange
	// Trim, if not 0, is the offset below which records are no longer needed: they are trimmed, and
	// covered by the digest.
	Trim record.Offset
	// Damaged describes damage of the stored log, see Options.Damaged.
	Damaged error
	// Again, if not 0, is a time in terms of Now.Nano at which Advance must be called even without
	// input.
	Again int64
}

// Feed is a range of entries [Lo, Hi) that a lagging follower needs.
type Feed struct {
	Lo, Hi   uint64
	Bytes    int    // maximum size, but at least one entry
	Follower uint64 // 0: there is none
	Need     lagging.Need
}

// Write is data to make durable. The caller must report that to the core with Written.
type Write struct {
	segment.Write
	// Install, if not nil, precedes the rest.
	Install   *Install
	responses []*raftpb.Message
	// Begun is when the group write that contains it began, and InFile when that was in the file and
	// not yet synced, see Now.Nano. The writer sets both.
	Begun, InFile int64
}

// Waits reports whether something waits for the write to be durable.
func (w *Write) Waits() bool { return w.MustSync || w.Install != nil || len(w.responses) > 0 }

// Install is a snapshot that replaces the whole log of this replica. A follower that needs
// entries that the leader has trimmed gets one. It contains no records, only the state at the
// place where the leader's log now begins: end of the log, sessions, configuration. The entries
// follow.
type Install struct {
	Index, Term uint64
	Start       record.Offset
	Hard        segment.HardState
	conf, table []byte
}

// Encode returns the content of the snapshot as it is stored. The writer calls it, since the
// table, as the leader encoded it, may be large.
func (i *Install) Encode() []byte { return encodeState(i.conf, i.table) }

// HashRange is the batches of [From, Until) to be hashed, see Hashed.
type HashRange struct{ From, Until record.Offset }

// Answered is an answer to be delivered.
type Answered struct {
	Done   func(sequence.Answer)
	Answer sequence.Answer
}

// Snapshot is the state of the log as of Index, for the segment after it. It is encoded outside
// the loop, see upkeep, since encoding many sessions takes long.
type Snapshot struct {
	Index, Term uint64
	Conf        []byte
	Table       *sequence.Table // a copy
}

// Encode returns the content of the snapshot.
func (s *Snapshot) Encode() []byte { return encodeState(s.Conf, s.Table.Snapshot(nil)) }

// Clear empties the lists and drops what they refer to.
func (o *Output) Clear() {
	clear(o.Writes)
	clear(o.Messages)
	clear(o.Answers)
	clear(o.Snapshots)
	o.Writes, o.Messages, o.Answers, o.Snapshots = o.Writes[:0], o.Messages[:0], o.Answers[:0], o.Snapshots[:0]
	o.Feeds = o.Feeds[:0]
	o.Hash, o.Trim, o.Damaged, o.Again = HashRange{}, 0, nil, 0
}

// round is the input of the current round, and its output.
type round struct {
	now Now
	out Output // output under construction
}

// Now is the current time.
type Now struct {
	Monotonic int64 // milliseconds, never decreasing
	Stalled   int64 // milliseconds of Monotonic in which the process did not run, see Pulse
	Unix      int64 // milliseconds; stamps entries
	Suspended int64 // milliseconds that Monotonic does not include because the machine was suspended; the age of knowledge does
	Nano      int64 // nanoseconds of the same clock as Monotonic, for measurements; 0: none
}

// lease returns the time of leases in milliseconds. It passes only while clients can give signs of
// life, since they may do so at any time.
func (n Now) lease() int64 { return n.Monotonic - n.Stalled }

func (r *round) answer(done func(sequence.Answer), a sequence.Answer) {
	if done != nil {
		r.out.Answers = append(r.out.Answers, Answered{done, a})
	}
}
