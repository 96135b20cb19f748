package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

const (
	catalogID   = 0
	catalogName = "_catalog"

	// checkpointEvery is how many changes the catalog keeps before it is
	// written anew as a whole and trimmed, so that opening a node does not
	// take longer with its age.
	checkpointEvery = 1000
)

// catalog is the cluster's list of logs. Its truth is log 0: every record is
// one catalogChange in JSON, and the state is what the changes add up to.
// Changes are conditional appends, so two that were decided on the same state
// never both land.
type catalog struct {
	node *Node
	host *hosted

	mu    sync.Mutex
	state catalogState
	next  record.Offset // the first record not folded yet
}

// openCatalog recovers the catalog's replica and folds its records.
func openCatalog(n *Node) (*catalog, error) {
	c := &catalog{node: n, state: newCatalogState()}
	c.host = n.host(catalogLog{ID: catalogID, Name: catalogName, Replica: n.identity.CatalogReplica})
	n.addLog(c.host)
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if err := c.host.awaitOffice(ctx); err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.catchUp(ctx)
}

// openTimeout bounds how long a log may take to be ready after recovery.
const openTimeout = time.Minute

// snapshot returns the logs as of now, linearizably.
func (c *catalog) snapshot(ctx context.Context) ([]catalogLog, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	return c.state.list(), nil
}

// change decides on the newest state and records what decide returns. It tries
// again when another change came first.
func (c *catalog) change(ctx context.Context, decide func(*catalogState) (catalogChange, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.catchUp(ctx); err != nil {
			return err
		}
		change, err := decide(&c.state)
		if err != nil {
			return err
		}
		err = c.append(ctx, change)
		if errors.Is(err, &record.Refusal{Reason: record.EndMismatch}) {
			continue
		}
		if err != nil {
			return fmt.Errorf("change the catalog: %w", err)
		}
		if err := c.catchUp(ctx); err != nil {
			return err
		}
		return c.checkpoint(ctx)
	}
}

func (c *catalog) append(ctx context.Context, change catalogChange) error {
	value, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode change: %w", err)
	}
	var b record.Builder
	b.Reset(nil)
	if err := b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Value: value}); err != nil {
		return err
	}
	batch, err := b.Finish(record.None)
	if err != nil {
		return err
	}
	return c.host.appendAt(ctx, c.next, batch)
}

// catchUp folds every record that is committed now.
func (c *catalog) catchUp(ctx context.Context) error {
	if err := c.host.confirm(ctx); err != nil {
		return err
	}
	start, end, err := c.host.replica.Tail().Bounds()
	if err != nil {
		return err
	}
	c.next = max(c.next, start)
	reader := &Reader{host: c.host, next: c.next, until: end, reader: c.host.replica.NewReader(c.next)}
	defer reader.Close()
	for {
		chunk, err := reader.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		if err := c.fold(chunk); err != nil {
			return err
		}
		c.next = chunk.First + record.Offset(chunk.Count)
	}
}

func (c *catalog) fold(chunk Chunk) error {
	for r, err := range chunk.Records {
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		var change catalogChange
		if err := json.Unmarshal(r.Value, &change); err != nil {
			return fmt.Errorf("read change %d of the catalog: %w", r.Offset, err)
		}
		if err := c.state.fold(change); err != nil {
			return fmt.Errorf("change %d of the catalog: %w", r.Offset, err)
		}
	}
	return nil
}

// checkpoint writes the whole state as one change and trims those before, once
// in a while.
func (c *catalog) checkpoint(ctx context.Context) error {
	start, _, err := c.host.replica.Tail().Bounds()
	if err != nil || c.next-start < checkpointEvery {
		return err
	}
	whole := c.state.clone()
	at := c.next
	if err := c.append(ctx, catalogChange{Checkpoint: &whole}); err != nil {
		if errors.Is(err, &record.Refusal{Reason: record.EndMismatch}) {
			return nil // somebody else is changing it; the next change tries again
		}
		return fmt.Errorf("checkpoint the catalog: %w", err)
	}
	if _, err := c.host.command(ctx, record.Command{Kind: record.Trim, Offset: at}); err != nil {
		return fmt.Errorf("trim the catalog: %w", err)
	}
	return nil
}

// reserveSessions takes count session ids for this node.
func (c *catalog) reserveSessions(ctx context.Context, count record.SessionID) (first record.SessionID, err error) {
	err = c.change(ctx, func(s *catalogState) (catalogChange, error) {
		first = s.NextSession
		return catalogChange{Sessions: first + count}, nil
	})
	return first, err
}

// appendAt appends one batch if the log ends at an offset.
func (h *hosted) appendAt(ctx context.Context, end record.Offset, batch record.Batch) error {
	a := &sequence.Append{
		ExpectedEnd: end, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch),
	}
	_, err := h.await(ctx, func(done func(sequence.Answer)) { h.append(a, done) })
	return err
}
