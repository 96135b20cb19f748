package readers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
)

// Newest finds records with the latest time. A log has no index of producers' times, so a search
// reads the whole log. The result is kept, and the next search begins after it.
//
// A client searches one log at a time, and a log is searched by one client at a time: others that
// ask about it wait for the same result, and continue the search in turn, so that it does not depend
// on the client that began it. Nobody waits for a search of another log by somebody else.
type Newest struct {
	lanes *budget.Lanes // by client

	mu    sync.Mutex
	known map[uint64]*newestRecord // by log id
}

// newestRecord is the result of searches of one log.
type newestRecord struct {
	waiting  atomic.Int32  // clients that want to search
	searched chan struct{} // has room for the one that searches, who has the rest
	found    record.Record // offset -1: none
	through  record.Offset // the search has seen all records below
}

// searchTime is how long a client searches while others wait to continue its search; a chunk may exceed it.
const searchTime = 100 * time.Millisecond

// errOthersContinue ends a part of a search.
var errOthersContinue = errors.New("others continue the search")

// maxNewest bounds the logs whose results are kept.
const maxNewest = 1000

// NewNewest returns a Newest without results.
func NewNewest() *Newest {
	return &Newest{lanes: budget.NewLanes(), known: map[uint64]*newestRecord{}}
}

// Find returns the record with the latest time, as its producer gave it, the first of several;
// offset -1 in an empty log. If the call ends before its search, the next search continues it.
func (s *Newest) Find(q *backend.Call, log string, b verbs.Bounds) (record.Record, error) {
	client := ""
	if q.Caller.By != nil {
		client = q.Caller.By.Whose()
	}
	if err := s.lanes.Acquire(q.Ctx, client); err != nil {
		return record.Record{}, err
	}
	defer s.lanes.Release(client)
	at := s.of(b.ID)
	for {
		found, err := at.search(q, log, b)
		if !errors.Is(err, errOthersContinue) {
			return found, err
		}
	}
}

// search searches to the end of the bounds, or for searchTime if others wait: then the error is errOthersContinue. Those who
// wait search in the order in which they came.
func (at *newestRecord) search(q *backend.Call, log string, b verbs.Bounds) (record.Record, error) {
	at.waiting.Add(1)
	select {
	case at.searched <- struct{}{}:
		at.waiting.Add(-1)
		defer func() { <-at.searched }()
	case <-q.Ctx.Done():
		at.waiting.Add(-1)
		return record.Record{}, q.Ctx.Err()
	}
	if forgotten := at.found.Offset >= 0 && at.found.Offset < b.Start; forgotten || at.through < b.Start {
		at.found, at.through = record.Record{Offset: -1, Timestamp: -1}, b.Start
	}
	if at.through >= b.End {
		return at.found, nil
	}
	began := time.Now()
	err := backend.Fold(q.Ctx, q.Node, q.System(), log, reading.Request{
		From: reading.From{Kind: reading.FromOffset, Offset: at.through}, Until: b.End, Metered: true, PayBy: q.PayBy,
	}, func(c *reading.Chunk) error {
		if err := at.add(q.Ctx, c); err != nil {
			return err
		}
		if at.waiting.Load() > 0 && at.through < b.End && time.Since(began) >= searchTime {
			return errOthersContinue
		}
		return nil
	})
	return at.found, err
}

// of returns the result of a log.
func (s *Newest) of(id uint64) *newestRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.known[id]
	if at == nil {
		if len(s.known) >= maxNewest {
			clear(s.known)
		}
		at = &newestRecord{searched: make(chan struct{}, 1), found: record.Record{Offset: -1, Timestamp: -1}}
		s.known[id] = at
	}
	return at
}

// add examines the records of a chunk. It decodes only batches whose header allows that one of
// their records is the latest.
func (at *newestRecord) add(ctx context.Context, c *reading.Chunk) error {
	defer func() {
		c.Taken()
		c.Release()
	}()
	later := func(b record.Batch) bool { return b.MaxTimestamp() > at.found.Timestamp }
	for r, err := range c.RecordsOf(ctx, later) {
		c.Taken() // the records before r
		if err != nil {
			return err
		}
		if r.Timestamp > at.found.Timestamp && r.Offset >= at.through {
			at.found = record.Record{Offset: r.Offset, Timestamp: r.Timestamp}
		}
	}
	at.through = max(at.through, c.Through())
	return nil
}
