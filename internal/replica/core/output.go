package core

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Output is what the owner of a core has to do, in this order: hand over the
// writes, send the messages, deliver the answers, save snapshots, trim.
type Output struct {
	Writes    []Write
	Messages  []*raftpb.Message
	Answers   []Answered
	Snapshots []Snapshot
	// Feeds are ranges to be read from the log, see Fed.
	Feeds []Feed
	// Base: the snapshot at the start of the log is to be read, see BaseLoaded.
	Base bool
	// Hash, if not empty, is to be hashed, see Hashed.
	Hash HashRange
	// Trim, if not 0, says that nobody needs records below it any more: they are trimmed, and covered by
	// the digest.
	Trim record.Offset
	// Damaged is what is wrong with the stored log, see Options.Damaged.
	Damaged error
	// Again, if not 0, is a time by Now.Nano at which Advance has to be called even if
	// nothing comes before.
	Again int64
}

// Feed is a range of entries [Lo, Hi) that a follower who lags needs.
type Feed struct {
	Lo, Hi   uint64
	Bytes    int    // at the most, but for one entry
	Follower uint64 // 0: there is none any more
	Need     lagging.Need
}

// Write is bytes to make durable. The caller must report that to the core with Written.
type Write struct {
	segment.Write
	// Install, if any, comes before the rest.
	Install   *Install
	responses []*raftpb.Message
	// Begun is when the group write that it is part of began, and InFile when that was in
	// the file and not yet synced, see Now.Nano. Whoever has made it durable says so.
	Begun, InFile int64
}

// Waits reports whether something waits for the write to be durable.
func (w *Write) Waits() bool { return w.MustSync || w.Install != nil || len(w.responses) > 0 }

// Install is a snapshot that replaces the whole log of this replica: a follower that needs
// entries which the leader has trimmed gets one. It holds no records, only the state at the
// place where the leader's log begins now: end of the log, sessions, configuration. The
// entries follow.
type Install struct {
	Index, Term uint64
	Start       record.Offset
	Hard        segment.HardState
	conf, table []byte
}

// Encode returns the content of the snapshot as it is stored. It is for the writer: the
// table, as the leader encoded it, may be large.
func (i *Install) Encode() []byte { return encodeState(i.conf, i.table) }

// HashRange is batches of [From, Until) to be hashed, see Hashed.
type HashRange struct{ From, Until record.Offset }

// Answered is an answer on its way to who asked.
type Answered struct {
	Done   func(sequence.Answer)
	Answer sequence.Answer
}

// Snapshot is the state of the log as of Index, for the segment after it. It is
// encoded beside the loop, see upkeep: that takes long for many sessions.
type Snapshot struct {
	Index, Term uint64
	Conf        []byte
	Table       *sequence.Table // a copy
}

// Encode returns the content of the snapshot.
func (s *Snapshot) Encode() []byte { return encodeState(s.Conf, s.Table.Snapshot(nil)) }

// Clear empties the lists, dropping what they refer to.
func (o *Output) Clear() {
	clear(o.Writes)
	clear(o.Messages)
	clear(o.Answers)
	clear(o.Snapshots)
	o.Writes, o.Messages, o.Answers, o.Snapshots = o.Writes[:0], o.Messages[:0], o.Answers[:0], o.Snapshots[:0]
	o.Feeds = o.Feeds[:0]
	o.Hash, o.Trim, o.Damaged, o.Again = HashRange{}, 0, nil, 0
}

// round is what the owner gives to a core, and what it gets.
type round struct {
	now Now
	out Output // gathers the output
}

// Now is the time as the owner of a core sees it.
type Now struct {
	Monotonic int64 // ms, never goes back; leases
	Unix      int64 // ms; stamps entries
	Suspended int64 // ms that Monotonic has stood still, as the machine was suspended; the age of what is known counts them
	Nano      int64 // ns of the same clock as Monotonic, to measure with; 0: nobody does
}

func (r *round) answer(done func(sequence.Answer), a sequence.Answer) {
	if done != nil {
		r.out.Answers = append(r.out.Answers, Answered{done, a})
	}
}
