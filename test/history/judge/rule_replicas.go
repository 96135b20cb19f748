package judge

import (
	"strandline.dev/test/history"
)

// replicas: two that have an entry have the same, as far as they know it to be
// committed, and none has a hole.
type replicas struct {
	idle
	court
	entries map[*book]*sparse[entry]
	copies  map[replicaOf]*copied
}

type entry struct {
	known bool
	term  uint64
	hash  uint64
	at    history.Place
}

type replicaOf struct {
	book *book
	node string
}

// copied is what a replica has: entries up to, not including, next.
type copied struct {
	next, commit uint64
	at           history.Place
}

func newReplicas(c court, _ Options) rule {
	return &replicas{court: c, entries: map[*book]*sparse[entry]{}, copies: map[replicaOf]*copied{}}
}

func (r *replicas) noted(e *history.Event, b *book, at history.Place) {
	if e.Kind != history.Replica || e.Index == 0 {
		return
	}
	if r.entries[b] == nil {
		r.entries[b] = &sparse[entry]{}
	}
	have := r.copies[replicaOf{b, e.Node}]
	if have == nil {
		have = &copied{next: e.Index}
		r.copies[replicaOf{b, e.Node}] = have
	}
	if e.Index != have.next {
		r.accuse(b, []history.Place{have.at, at}, "the replica on node %s has no entry %d", e.Node, have.next)
	}
	have.next, have.commit, have.at = e.Index+uint64(len(e.Hashes)), max(have.commit, e.Commit), at
	for i, hash := range e.Hashes {
		index := e.Index + uint64(i)
		if index > e.Commit {
			return
		}
		r.compare(b, index, entry{true, e.RaftTerm, hash, at}, e.Node)
	}
}

func (r *replicas) compare(b *book, index uint64, e entry, node string) {
	known := r.entries[b].at(int64(index))
	if !known.known {
		*known = e
		return
	}
	if known.term != e.term || known.hash != e.hash {
		r.accuse(b, []history.Place{known.at, e.at}, "entry %d is %016x of term %d on one node, and %016x of term %d on node %s",
			index, known.hash, known.term, e.hash, e.term, node)
	}
}

func (r *replicas) closed() {
	for at, have := range r.copies {
		if have.next <= have.commit {
			r.accuse(at.book, []history.Place{have.at}, "the replica on node %s has committed entry %d, and no entry %d", at.node, have.commit, have.next)
		}
	}
}
