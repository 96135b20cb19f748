package core

import "go.etcd.io/raft/v3/raftpb"

// base is the snapshot at the start of the stored log, which a follower gets that
// lacks the oldest entries. Raft asks for it on the loop, where a disk must not be
// read: so it hears that there is none at the moment, the snapshot is read aside,
// and Raft is nudged to ask again.
type base struct {
	index, term uint64
	data        []byte // nil: it is not in memory
	wanted      bool   // goes out with the next Output
	reading     bool
	unused      int // ticks since somebody took it
}

// take returns the snapshot of an entry, if it is in memory; else it is wanted.
func (b *base) take(index uint64) (data []byte, term uint64, ok bool) {
	b.unused = 0
	if b.data == nil || b.index != index {
		b.wanted = true
		return nil, 0, false
	}
	return b.data, b.term, true
}

// begin reports whether the snapshot has to be read now.
func (b *base) begin() bool {
	begin := b.wanted && !b.reading
	b.wanted, b.reading = false, b.reading || begin
	return begin
}

// tick releases what nobody takes any more.
func (b *base) tick() {
	if b.unused++; b.unused > feedTicks {
		b.data = nil
	}
}

// withMembers is the configuration of a snapshot for followers that are members
// now. It may be older than they are, and Raft takes no snapshot that does not name
// it; so members that came later are named as learners, which they were before
// anything else. Voters are those of the snapshot's index: what changed since is in
// the entries that follow.
func withMembers(conf, now *raftpb.ConfState) *raftpb.ConfState {
	known := map[uint64]bool{}
	for _, ids := range [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()} {
		for _, id := range ids {
			known[id] = true
		}
	}
	for _, ids := range [][]uint64{now.GetVoters(), now.GetVotersOutgoing(), now.GetLearners(), now.GetLearnersNext()} {
		for _, id := range ids {
			if !known[id] {
				known[id] = true
				conf.Learners = append(conf.Learners, id)
			}
		}
	}
	return conf
}

// A leader that has lost the snapshot at the start of its log, and nothing else,
// can do everything but bring a follower up that lacks the oldest entries. It
// lets another lead, who has that snapshot.

// baselessEvery is the least time between two such handovers, in ticks: a
// minute. Where nobody has the snapshot, leadership does not go round.
const baselessEvery = 1200

// baseless is set while a follower needs the snapshot that is not here.
type baseless struct {
	wanted bool
	ticks  int // until the next handover for it
}

// tick reports whether it is time to hand over.
func (b *baseless) tick() bool {
	b.ticks = max(0, b.ticks-1)
	wanted := b.wanted && b.ticks == 0
	b.wanted = false
	return wanted
}
