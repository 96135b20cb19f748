package kafkadoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// offsetsLog keeps what consumer groups have committed. Who leads it
// coordinates all groups.
const offsetsLog = "_offsets"

const (
	// maxCommitted bounds the committed offsets of all groups together, and
	// maxCommitMetadata what a consumer may add to one.
	maxCommitted      = 1_000_000
	maxCommitMetadata = 4 << 10

	// offsetsKept is how long the offsets of a group without members live.
	offsetsKept = 7 * 24 * time.Hour

	// checkpointAfter is how many records the log gets, and as many again as
	// there are offsets, before all offsets are written anew and the records
	// before are trimmed.
	checkpointAfter = 10_000

	// offsetBatch bounds the records of one append to the log, offsetRecord
	// the commits of one record.
	offsetBatch  = 500
	offsetRecord = 500
)

// offsets are what groups have committed. The truth is the log; every record is
// one offsetChange in JSON, and the state is what they add up to. All commits
// that wait while one append is under way share the next. Appends are
// conditional on the end of the log that the state was folded to: a
// coordinator that was one for a while only notices.
type offsets struct {
	node Node

	mu      sync.Mutex
	groups  map[string]map[partition]committed
	count   int           // of all offsets in groups
	next    record.Offset // the first record not folded yet
	since   int           // records since the newest checkpoint
	pending []*offsetWrite
	writing bool
}

type partition struct {
	topic  string
	number int32
}

// committed is one group's place in one partition.
type committed struct {
	Offset   int64  `json:"o"`
	Epoch    int32  `json:"e"` // of the leader; -1: not told
	Metadata string `json:"m,omitempty"`
	Time     int64  `json:"-"` // unix ms
}

// offsetChange is one record of the log.
type offsetChange struct {
	Group   string         `json:"group"`
	Time    int64          `json:"time"` // unix ms
	Commits []offsetCommit `json:"commits,omitempty"`
	Delete  bool           `json:"delete,omitempty"` // the group with all its offsets
}

type offsetCommit struct {
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	committed
}

// offsetWrite is a change on its way into the log.
type offsetWrite struct {
	change offsetChange
	done   chan error
}

func newOffsets(n Node) *offsets {
	return &offsets{node: n, groups: map[string]map[partition]committed{}}
}

// write makes a change durable and then visible. Once begun it is not stopped
// by ctx, which ends the wait alone.
func (o *offsets) write(ctx context.Context, c offsetChange) error {
	w := &offsetWrite{change: c, done: make(chan error, 1)}
	o.mu.Lock()
	if len(c.Commits) > 0 && o.count+len(c.Commits) > maxCommitted {
		o.mu.Unlock()
		return kerr.InvalidCommitOffsetSize
	}
	o.pending = append(o.pending, w)
	first := !o.writing
	o.writing = true
	o.mu.Unlock()
	if first {
		go o.writeAll()
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeAll appends what is pending until there is no more.
func (o *offsets) writeAll() {
	for {
		o.mu.Lock()
		n := min(len(o.pending), offsetBatch)
		if n == 0 {
			o.writing = false
			o.mu.Unlock()
			return
		}
		batch := o.pending[:n:n]
		o.pending = o.pending[n:]
		o.mu.Unlock()
		changes := make([]offsetChange, n)
		for i, w := range batch {
			changes[i] = w.change
		}
		err := o.append(changes)
		for _, w := range batch {
			w.done <- err
		}
		if err == nil {
			// What fails here is tried again after the next commit.
			_ = o.checkpoint()
		}
	}
}

// appendTime bounds how long one append to the log may take.
const appendTime = 30 * time.Second

// append adds changes to the log and folds them.
func (o *offsets) append(changes []offsetChange) error {
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	batch, err := encodeChanges(changes)
	if err != nil {
		return err
	}
	for {
		o.mu.Lock()
		end := o.next
		o.mu.Unlock()
		err := appendTo(ctx, o.node, offsetsLog, end, batch)
		if errors.Is(err, &record.Refusal{Reason: record.EndMismatch}) {
			if err := o.catchUp(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for i := range changes {
			o.fold(&changes[i])
		}
		o.next = end + record.Offset(len(changes))
		o.since += len(changes)
		return nil
	}
}

func encodeChanges(changes []offsetChange) (record.Batch, error) {
	var b record.Builder
	b.Reset(nil)
	for i := range changes {
		value, err := json.Marshal(&changes[i])
		if err != nil {
			return nil, fmt.Errorf("encode commit: %w", err)
		}
		if err := b.Add(record.Record{Timestamp: changes[i].Time, Key: []byte(changes[i].Group), Value: value}); err != nil {
			return nil, err
		}
	}
	return b.Finish(record.None)
}

// appendTo appends a batch if the log ends at an offset, and waits.
func appendTo(ctx context.Context, n Node, log string, end record.Offset, batch record.Batch) error {
	answers := make(chan sequence.Answer, 1)
	n.Append(system, log, &sequence.Append{
		ExpectedEnd: end, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch), Atomic: true,
	}, func(a sequence.Answer) { answers <- a })
	select {
	case a := <-answers:
		if a.Refusal != nil {
			return a.Refusal
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// catchUp folds every record that is committed now.
func (o *offsets) catchUp(ctx context.Context) error {
	info, err := o.node.Info(ctx, system, offsetsLog)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next < info.Start {
		// All that was not folded is in the checkpoint that the log begins with.
		o.groups, o.count, o.next = map[string]map[partition]committed{}, 0, info.Start
	}
	if o.next >= info.End {
		return nil
	}
	r, err := o.node.Read(ctx, system, offsetsLog, node.ReadRequest{
		From: node.From{Kind: node.FromOffset, Offset: o.next}, Until: info.End,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := o.foldChunk(&c); err != nil {
			return err
		}
	}
}

func (o *offsets) foldChunk(c *node.Chunk) error {
	defer c.Release()
	for r, err := range c.Records {
		if err != nil {
			return err
		}
		var change offsetChange
		if err := json.Unmarshal(r.Value, &change); err != nil {
			return fmt.Errorf("read commit %d of %s: %w", r.Offset, offsetsLog, err)
		}
		o.fold(&change)
		o.next = r.Offset + 1
		o.since++
	}
	return nil
}

func (o *offsets) fold(c *offsetChange) {
	of := o.groups[c.Group]
	if c.Delete {
		o.count -= len(of)
		delete(o.groups, c.Group)
		return
	}
	if of == nil {
		of = map[partition]committed{}
		o.groups[c.Group] = of
	}
	before := len(of)
	for _, one := range c.Commits {
		one.committed.Time = c.Time
		of[partition{one.Topic, one.Partition}] = one.committed
	}
	o.count += len(of) - before
}

// checkpoint writes all offsets anew and trims the records before, once in a
// while.
func (o *offsets) checkpoint() error {
	o.mu.Lock()
	if o.since < checkpointAfter+o.count {
		o.mu.Unlock()
		return nil
	}
	begin := o.next
	changes := o.whole()
	o.mu.Unlock()
	for len(changes) > 0 {
		n := min(len(changes), offsetBatch)
		if err := o.append(changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
	}
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	if _, _, err := o.node.Trim(ctx, system, offsetsLog, begin, false); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = 0
	return nil
}

// whole is the state as changes.
func (o *offsets) whole() []offsetChange {
	var changes []offsetChange
	for group, of := range o.groups {
		byTime := map[int64][]offsetCommit{}
		for p, c := range of {
			byTime[c.Time] = append(byTime[c.Time], offsetCommit{Topic: p.topic, Partition: p.number, committed: c})
		}
		for t, commits := range byTime {
			for len(commits) > 0 {
				n := min(len(commits), offsetRecord)
				changes = append(changes, offsetChange{Group: group, Time: t, Commits: commits[:n]})
				commits = commits[n:]
			}
		}
	}
	return changes
}

// outlived are the groups of which no offset was committed for offsetsKept.
func (o *offsets) outlived(now time.Time) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := now.Add(-offsetsKept).UnixMilli()
	var groups []string
	for group, of := range o.groups {
		newest := int64(0)
		for _, c := range of {
			newest = max(newest, c.Time)
		}
		if newest < before {
			groups = append(groups, group)
		}
	}
	return groups
}

// of returns the offsets of a group; nil for one that has none.
func (o *offsets) of(group string) map[partition]committed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.groups[group])
}

// names are the groups that have offsets.
func (o *offsets) names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make([]string, 0, len(o.groups))
	for group := range o.groups {
		names = append(names, group)
	}
	return names
}
