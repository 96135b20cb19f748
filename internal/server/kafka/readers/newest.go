package readers

import (
	"context"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
)

// Newest finds records with the latest time. A log has no index of producers' times, so a search
// reads the whole log. The result is kept, and the next search begins after it.
type Newest struct {
	node backend.Node
	// known serializes searches, and holds their results by log id.
	known chan map[uint64]newestRecord
}

// newestRecord is the result of a search.
type newestRecord struct {
	found   record.Record // offset -1: none
	through record.Offset // the search has seen all records below
}

// maxNewest bounds the logs whose results are kept.
const maxNewest = 1000

// NewNewest returns a Newest for the logs of n, without results.
func NewNewest(n backend.Node) *Newest {
	s := &Newest{node: n, known: make(chan map[uint64]newestRecord, 1)}
	s.known <- map[uint64]newestRecord{}
	return s
}

// Find returns the record with the latest time, as its producer gave it, the first of several;
// offset -1 in an empty log. If ctx ends a search, the next one continues it.
func (s *Newest) Find(ctx context.Context, log string, b verbs.Bounds) (record.Record, error) {
	var known map[uint64]newestRecord
	select {
	case known = <-s.known:
		defer func() { s.known <- known }()
	case <-ctx.Done():
		return record.Record{}, ctx.Err()
	}
	at, ok := known[b.ID]
	if !ok || at.found.Offset < b.Start {
		at = newestRecord{found: record.Record{Offset: -1, Timestamp: -1}, through: b.Start}
	}
	var err error
	if at.through < b.End {
		err = backend.Fold(ctx, s.node, log, at.through, b.End, at.add)
	}
	if len(known) >= maxNewest {
		clear(known)
	}
	known[b.ID] = at
	return at.found, err
}

// add examines the records of a chunk. It decodes only batches whose header allows that one of
// their records is the latest.
func (at *newestRecord) add(c *reading.Chunk) error {
	defer c.Release()
	for _, run := range c.Parts {
		for len(run) > 0 {
			batch, rest, err := record.Split(run)
			if err != nil {
				return record.Refuse(record.Corrupt, "stored batch after offset %d: %v", at.through, err)
			}
			if run = rest; batch.MaxTimestamp() > at.found.Timestamp {
				for r, err := range batch.Records {
					if err != nil {
						return err
					}
					if r.Timestamp > at.found.Timestamp && r.Offset >= at.through {
						at.found = record.Record{Offset: r.Offset, Timestamp: r.Timestamp}
					}
				}
			}
			at.through = max(at.through, batch.End())
		}
	}
	return nil
}
