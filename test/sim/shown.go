package sim

import (
	"bytes"
	"errors"
	"fmt"

	"strandline.dev/internal/record"
)

// read gives the records from an offset on, as a server would, up to limit of
// them and to the end that is known here.
func (n *node) read(from int64, limit int) (shown, *record.Refusal) {
	if n.replica == nil {
		return shown{}, notHere()
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
