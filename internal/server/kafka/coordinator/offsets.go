package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/kafka/backend"
)

const (
	// maxCommitted bounds the committed offsets of all groups together, and
	// MaxCommitMetadata what a consumer may add to one.
	maxCommitted      = 1_000_000
	MaxCommitMetadata = 4 << 10

	// OffsetsKept is how long the offsets of a group without members are kept.
	OffsetsKept = 7 * 24 * time.Hour

	// checkpointAfter, plus the number of offsets, is how many records the log gets before all
	// offsets are written again and the earlier records are trimmed.
	checkpointAfter = 10_000

	// offsetBatch bounds the records of one append to the log, offsetRecord
	// the commits of one record. offsetBytes bounds the bytes of an append of several records, and of
	// a record with several commits.
	offsetBatch  = 500
	offsetRecord = 500
	offsetBytes  = 1 << 20

	// checkpointAgain is how many more records are written before a failed checkpoint is repeated,
	// because its part that was written remains in the log.
	checkpointAgain = checkpointAfter / 10
)

// offsets stores the committed offsets of groups. The log is authoritative: each record is one
// offsetChange in JSON, and the state is folded from them. All changes that wait while an append is
// in progress share the next append.
//
// A change is decided and appended within one leadership of this node, or not at all: appends
// require that the log ends where the state was folded to, and a change from an earlier leadership
// is refused before. Otherwise a commit that waited while another node coordinated for a moment
// could overwrite a later commit that the other node has acknowledged.
type offsets struct {
	node   backend.Node
	memory *budget.Shares // of the node

	mu      sync.Mutex
	state   commits
	counted int           // of state.bytes, in memory
	term    uint64        // of the leadership that state is of; 0: none yet
	next    record.Offset // the first record not folded yet
	since   int           // records since the newest checkpoint
	again   int           // of since, at which a checkpoint that has failed is tried again; 0: none has
	pending []*offsetWrite
	writing bool
}

// offsetWrite is a change on its way into the log.
type offsetWrite struct {
	encodedChange
	term uint64
	done chan<- error // has room for the answer
}

// encodedChange is a change and the value of its record.
type encodedChange struct {
	offsetChange
	value []byte
}

// encoded encodes a change, as several of half the commits each if they are more than offsetBytes together: JSON
// escapes a byte of metadata with up to six.
func encoded(c offsetChange) ([]encodedChange, error) {
	value, err := json.Marshal(&c)
	if err != nil {
		return nil, fmt.Errorf("encode commit: %w", err)
	}
	if len(value) <= offsetBytes || len(c.Commits) < 2 {
		return []encodedChange{{c, value}}, nil
	}
	one, other, half := c, c, len(c.Commits)/2
	one.Commits, other.Commits = c.Commits[:half:half], c.Commits[half:]
	first, err := encoded(one)
	if err != nil {
		return nil, err
	}
	second, err := encoded(other)
	return append(first, second...), err
}

func newOffsets(n backend.Node, memory *budget.Shares) *offsets {
	return &offsets{node: n, memory: memory, state: newCommits()}
}

// count counts the state in the node's memory. o.mu is held.
func (o *offsets) count() {
	o.memory.Changed(int64(o.counted), int64(o.state.bytes))
	o.counted = o.state.bytes
}

// load folds all that the log has when a leadership of this node begins.
func (o *offsets) load(ctx context.Context, term uint64) error {
	o.setTerm(0) // pending changes of an earlier leadership must not follow this state
	if err := o.catchUp(ctx); err != nil {
		return err
	}
	o.setTerm(term)
	return nil
}

func (o *offsets) setTerm(term uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.term = term
}

// write makes changes that were decided on in a leadership durable and then
// visible, each by itself. Once begun they are not stopped by ctx, which ends the
// wait alone.
func (o *offsets) write(ctx context.Context, term uint64, changes ...offsetChange) error {
	var all []encodedChange
	for _, c := range changes {
		pieces, err := encoded(c)
		if err != nil {
			return err
		}
		all = append(all, pieces...)
	}
	done := make(chan error, len(all))
	writes := make([]*offsetWrite, len(all))
	for i, e := range all {
		writes[i] = &offsetWrite{e, term, done}
	}
	if err := o.enqueue(writes); err != nil {
		return err
	}
	var failed error
	for range writes {
		select {
		case err := <-done:
			failed = cmp.Or(failed, err)
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	return failed
}

// ended returns the error of a wait that ended early. If the caller did not give up, the node is
// stopping and the write may still happen: the client asks the next coordinator.
func ended(ctx context.Context) error {
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		return err
	}
	return kerr.NotCoordinator
}

func (o *offsets) enqueue(writes []*offsetWrite) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	more, largest, own := 0, 0, 0
	for _, w := range writes {
		c := &w.offsetChange
		more += o.state.more(c)
		if g := o.state.groups[c.Group]; g != nil {
			largest = max(largest, g.memory(c.Group))
		}
		if h := o.state.held[o.state.principalOf(c)]; c.By != "" {
			largest, own = max(largest, h.bytes), max(own, h.count)
		}
	}
	// A principal has half of all at most, as a group has: the rest is for others.
	if more > 0 && (own+o.state.count+more > maxCommitted || o.memory.Crowds(int64(largest))) {
		return kerr.InvalidCommitOffsetSize
	}
	o.pending = append(o.pending, writes...)
	if !o.writing && len(o.pending) > 0 {
		o.writing = true
		go o.writeAll()
	}
	return nil
}

// writeAll appends pending changes until there are none left.
func (o *offsets) writeAll() {
	for {
		batch, ok := o.nextWrites()
		if !ok {
			return
		}
		changes := make([]encodedChange, len(batch))
		for i, w := range batch {
			changes[i] = w.encodedChange
		}
		err := o.append(batch[0].term, changes)
		for _, w := range batch {
			w.done <- err
		}
		if err == nil {
			// A failed checkpoint is repeated after a later commit.
			_ = o.checkpoint()
		}
	}
}

// nextWrites removes and returns pending writes of one leadership, as many as fit into an append.
// ok is false if there are none.
func (o *offsets) nextWrites() (batch []*offsetWrite, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, bytes := 0, 0
	for n < len(o.pending) && o.pending[n].term == o.pending[0].term && joins(n, bytes, o.pending[n].value) {
		bytes += len(o.pending[n].value)
		n++
	}
	batch, o.pending = o.pending[:n:n], o.pending[n:]
	o.writing = n > 0
	return batch, n > 0
}

// joins reports whether a record with the given value fits into an append that has the given number
// of records and bytes.
func joins(records, bytes int, value []byte) bool {
	return records == 0 || records < offsetBatch && bytes+len(value) <= offsetBytes
}

// appendTime bounds how long one append to the log may take.
const appendTime = 30 * time.Second

// append adds changes to the log, if it is still led by this node in a term, and
// folds them.
func (o *offsets) append(term uint64, changes []encodedChange) error {
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	batch, err := batchOf(changes)
	if err != nil {
		return err
	}
	for {
		end, err := o.endIn(term)
		if err != nil {
			return err
		}
		err = appendTo(ctx, o.node, backend.OffsetsLog, end, batch)
		if errors.Is(err, &record.Refusal{Reason: record.EndMismatch}) {
			// Within this leadership, an append whose answer did not arrive in
			// time has moved the end. If another leader has, ours has ended.
			if err := o.catchUp(ctx); err != nil {
				return err
			}
			if b, err := o.node.Bounds(backend.System, backend.OffsetsLog); err != nil || b.Term != term {
				return kerr.NotCoordinator
			}
			continue
		}
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.next != end {
			return nil // another goroutine has folded them meanwhile
		}
		for i := range changes {
			o.state.fold(&changes[i].offsetChange)
		}
		o.next = end + record.Offset(len(changes))
		o.since += len(changes)
		o.count()
		return nil
	}
}

// endIn returns the end of the log that the state was folded to, if that is the
// state of a leadership.
func (o *offsets) endIn(term uint64) (record.Offset, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.term != term {
		return 0, kerr.NotCoordinator
	}
	return o.next, nil
}

func batchOf(changes []encodedChange) (record.Batch, error) {
	var b record.Builder
	b.Reset(nil)
	for i := range changes {
		c := &changes[i]
		if err := b.Add(record.Record{Timestamp: c.Time, Key: []byte(c.Group), Value: c.value}); err != nil {
			return nil, err
		}
	}
	return b.Finish(record.None)
}

// appendTo appends a batch if the log ends at an offset, and waits.
func appendTo(ctx context.Context, n backend.Node, log string, end record.Offset, batch record.Batch) error {
	answers := make(chan sequence.Answer, 1)
	n.Append(backend.System, log, &sequence.Append{
		ExpectedEnd: end, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch), Atomic: true,
	}, nil, func(a sequence.Answer) { answers <- a })
	select {
	case a := <-answers:
		if a.Refusal != nil {
			return a.Refusal
		}
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// catchUp folds every record that is committed now.
func (o *offsets) catchUp(ctx context.Context) error {
	info, err := o.node.Info(ctx, backend.System, backend.OffsetsLog)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.count()
	if o.next < info.Start {
		// The checkpoint at the start of the log contains everything that was not folded.
		o.state, o.next = newCommits(), info.Start
	}
	if o.next >= info.End {
		return nil
	}
	return backend.Fold(ctx, o.node, backend.System, backend.OffsetsLog, reading.Request{
		From: reading.From{Kind: reading.FromOffset, Offset: o.next}, Until: info.End,
	}, func(c *reading.Chunk) error { return o.foldChunk(ctx, c) })
}

func (o *offsets) foldChunk(ctx context.Context, c *reading.Chunk) error {
	defer c.Release()
	for r, err := range c.Records(ctx) {
		if err != nil {
			return err
		}
		var change offsetChange
		if err := json.Unmarshal(r.Value, &change); err != nil {
			return fmt.Errorf("read commit %d of %s: %w", r.Offset, backend.OffsetsLog, err)
		}
		o.state.fold(&change)
		o.next = r.Offset + 1
		o.since++
	}
	return nil
}

// checkpoint writes all offsets anew and trims the records before, once in a
// while.
func (o *offsets) checkpoint() error {
	o.mu.Lock()
	if o.since < max(checkpointAfter+o.state.count, o.again) {
		o.mu.Unlock()
		return nil
	}
	begin, term := o.next, o.term
	changes := o.state.whole()
	o.mu.Unlock()
	err := o.rewrite(begin, term, changes)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.again = o.since + checkpointAgain
		return err
	}
	o.since, o.again = 0, 0
	return nil
}

// rewrite appends changes that are all there is, and trims the records before begin.
func (o *offsets) rewrite(begin record.Offset, term uint64, changes []offsetChange) error {
	var some []encodedChange
	bytes := 0
	for _, c := range changes {
		pieces, err := encoded(c)
		if err != nil {
			return err
		}
		for _, e := range pieces {
			if !joins(len(some), bytes, e.value) {
				if err := o.append(term, some); err != nil {
					return err
				}
				some, bytes = some[:0], 0
			}
			some, bytes = append(some, e), bytes+len(e.value)
		}
	}
	if len(some) > 0 {
		if err := o.append(term, some); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	_, _, err := o.node.Trim(ctx, backend.System, backend.OffsetsLog, begin, false)
	return err
}

// logs are those that offsets are of, false for each.
func (o *offsets) logs() map[offsetOf]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.logs()
}

// dispensable are the changes that forget groups which have outlived their offsets,
// and the offsets of logs that are gone.
func (o *offsets) dispensable(now time.Time, gone map[offsetOf]bool) []offsetChange {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append(o.state.expired(now.UnixMilli()), o.state.orphaned(now.UnixMilli(), gone)...)
}

// membership returns the changes by which the log's knowledge of groups with members is behind.
func (o *offsets) membership(inhabited map[string]string, allHeard bool, now time.Time) []offsetChange {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.membership(inhabited, allHeard, now.UnixMilli())
}

// of returns what a group has committed; nil for one that is not known.
func (o *offsets) of(group string) *groupCommits {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.of(group)
}

// principal returns the principal to whose share the committed offsets of a group count; empty: not known.
func (o *offsets) principal(group string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g := o.state.groups[group]; g != nil {
		return g.principal
	}
	return ""
}

// namesAtOnce is how many group names are processed in one step, during which no commit can
// proceed.
const namesAtOnce = 1000

// names are the groups from a name on that are known, of those that are wanted, as many as are asked for or with
// 0 all: nothing is built of the others.
func (o *offsets) names(from string, most int, wanted func(group string) bool) (names []string) {
	for {
		o.mu.Lock()
		some := o.state.names(from, namesAtOnce)
		o.mu.Unlock()
		for _, name := range some {
			if wanted(name) {
				names = append(names, name)
			}
			if most > 0 && len(names) == most {
				return names
			}
		}
		if len(some) < namesAtOnce {
			return names
		}
		from = some[len(some)-1] + "\x00"
	}
}
