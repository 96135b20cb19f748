package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// read gives the records from an offset on, as a server would, up to limit of
// them and to the end that is known here.
func (n *node) read(from int64, limit int) (shown, *record.Refusal) {
	if n.replica == nil {
		return shown{}, notHere()
	}
	if refusal := n.behind(); refusal != nil || n.outdated() {
		return shown{}, cmp.Or(refusal, notHere())
	}
	if n.replica.Status().Short {
		return shown{}, record.Refuse(record.NotLeader, "it is not known here yet where the log begins")
	}
	reader := n.replica.NewReader(record.Offset(from))
	defer reader.Close()
	chunk, err := reader.Next(record.Offset(from+int64(limit)), 1<<20)
	s := shown{first: from, start: int64(chunk.Start), end: int64(chunk.End)}
	if err != nil {
		var refusal *record.Refusal
		if !errors.As(err, &refusal) {
			refusal = record.Refuse(record.StorageFailed, "read: %v", err)
		}
		if refusal.Reason == record.OffsetTrimmed && n.replica.Status().Short {
			refusal = record.Refuse(record.NotLeader, "it is not known here whether those records were trimmed")
		}
		return s, refusal
	}
	for _, f := range chunk.Entries {
		entry, err := record.ParseEntry(f.Payload)
		if err != nil {
			return s, record.Refuse(record.Corrupt, "%v", err)
		}
		if err := s.add(entry.Body); err != nil {
			return s, record.Refuse(record.Corrupt, "%v", err)
		}
	}
	return s, nil
}

// shown is a frame of a read.
type shown struct {
	first      int64
	start, end int64
	values     [][]byte
}

// add takes the batches of an entry, without what lies before first.
func (s *shown) add(batches []byte) error {
	for len(batches) > 0 {
		batch, rest, err := record.Split(batches)
		if err != nil {
			return err
		}
		if err := batch.Verify(); err != nil {
			return err
		}
		batches = rest
		for one, err := range batch.Records {
			if err != nil {
				return err
			}
			if int64(one.Offset) < s.first {
				continue
			}
			if want := s.first + int64(len(s.values)); int64(one.Offset) != want {
				return fmt.Errorf("offset %d stands where %d should", one.Offset, want)
			}
			s.values = append(s.values, bytes.Clone(one.Value))
		}
	}
	return nil
}

// notHere refuses what is asked of a node without a replica of the log.
func notHere() *record.Refusal {
	return record.Refuse(record.NotLeader, "this node holds no replica of the log")
}

// folded is what a replica made of the entries up to an index.
type folded struct {
	sum  uint32
	node uint64
}

// compareFolded compares the table of the replica here with those that others had at
// the same index: one that differs breaks no rule until its replica leads, or never.
func (n *node) compareFolded() {
	if n.folded == n.replica.Applied() {
		return
	}
	w := n.world
	index, table := n.replica.Folded()
	n.folded = index
	// Not of all of it: the table ends in its checksum, and with that all have one.
	mine := folded{record.Checksum(table[:len(table)-4]), n.id}
	other, known := w.folded[index]
	switch {
	case !known:
		w.folded[index] = mine
	case other.sum != mine.sum:
		w.fail("nodes %d and %d have folded the entries up to %d into different tables", other.node, n.id, index)
	default:
		w.counts.Compared++
	}
}

// compareDigest compares the digest that is computed of what a replica has stored with the
// one in its table, which compareFolded has compared with those of the others.
func (w *world) compareDigest(n *node, start, end record.Offset) {
	if !w.digests {
		return
	}
	_, table := n.replica.Folded()
	want, err := sequence.RestoreDigest(table)
	if err != nil {
		w.fail("node %d: %v", n.id, err)
		return
	}
	l := w.limitsOf().Table
	// An entry is proposed while less is uncovered; it may have a request that is larger than the target.
	if uncovered := want.Uncovered; uncovered > l.Uncovered+uint64(4*l.EntryTarget+64<<10) {
		w.fail("node %d: the digest trails the end by %d bytes", n.id, uncovered)
	}
	err = n.replica.CheckDigests(context.Background(), nil, func(index uint64, reason error) { w.fail("node %d, entry %d: %v", n.id, index, reason) })
	if err != nil {
		w.fail("node %d: %v", n.id, err)
	}
	for _, at := range []record.Offset{start, start + (end-start)/2, want.Covered, end} {
		if at < start {
			continue // it is trimmed, and not covered yet
		}
		got, err := n.replica.Digest(context.Background(), at)
		var refusal *record.Refusal
		if n.baseless == n.replicaID && errors.As(err, &refusal) && refusal.Reason == record.StorageFailed {
			continue
		}
		if err != nil {
			w.fail("node %d has no digest at offset %d: %v", n.id, at, err)
			return
		}
		other, known := w.roots[at]
		w.roots[at] = [32]byte(got.Root())
		switch {
		case at == want.Covered && got.Root() != want.Root():
			w.fail("node %d has stored %d batches with digest %v, and folded %d with digest %v", n.id, got.Batches, got.Root(), want.Batches, want.Root())
		case known && other != [32]byte(got.Root()):
			w.fail("node %d has another digest at offset %d than another node", n.id, at)
		case want.Begun:
			w.counts.Digests++
			if want.Batches > 0 && want.Covered < end {
				w.counts.Trailing++
			}
		}
	}
}
