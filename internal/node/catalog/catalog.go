// Package catalog folds log 0 into the state of the cluster, and appends the changes that this node
// decides.
package catalog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
)

// Catalog is the cluster's list of logs and nodes. It is stored in log 0: every record is one
// cluster.Change in JSON, and the state is the result of all changes. Changes are conditional
// appends, so of two changes decided on the same state only one succeeds. Any node can decide one;
// the leader of log 0 appends it.
type Catalog struct {
	*Changes
	logger  *slog.Logger
	created *datadir.ReplicaList
	tasks   *background.Tasks
	due     *background.Bell

	// Hosting is this node's replica of log 0. A repair replaces it.
	Hosting atomic.Pointer[hosted.Log]
	// Shown is the newest folded state. It is immutable.
	Shown atomic.Pointer[cluster.State]
	// Rules are those of Shown.
	Rules atomic.Pointer[access.Rules]
	// Current reports that shown has been the newest state at some time since this process started.
	// A state stored by the previous process may name replicas that were replaced since.
	Current atomic.Bool

	Unknown unknownLogs
	topics  topicIDs

	mu    sync.Mutex // guards what follows; held while records are folded
	state cluster.State
	Next  record.Offset // the first record not folded yet
	// size is an upper bound for a checkpoint of the state: the bytes of the newest folded
	// checkpoint, and what later changes may add to it.
	size int
	// Awaited holds the attempts of the current group of changes that have been appended or still
	// may be. Landed is set when one of them was folded.
	Awaited []CatalogTry
	landed  bool
	// missed: a checkpoint has taken the place of records not folded yet, and
	// does not show whether one of the awaited was among them.
	missed bool
}

// Shared is the catalog as all parts of a node share it: nil until the node is a member
// of a cluster.
type Shared struct{ atomic.Pointer[Catalog] }

// Host returns the replica of the catalog once it was started; it may have ended.
func (c *Catalog) Host() *hosted.Log { return c.Hosting.Load() }

func (c *Catalog) show() {
	state := c.state.Clone()
	var members []string
	for _, n := range state.Nodes {
		members = append(members, n.Name)
	}
	slices.Sort(members)
	if rules := c.Rules.Load(); rules == nil || rules.List().Revision != state.Access.Revision || !slices.Equal(rules.Members(), members) {
		c.Rules.Store(access.Compile(state.Access, members...))
	}
	if before := c.Shown.Swap(&state); before == nil || !reflect.DeepEqual(before.Nodes, state.Nodes) {
		c.due.Ring()
	}
}

// Refresh makes the state linearizable: it folds every record that a majority has committed.
func (c *Catalog) Refresh(ctx context.Context) error {
	confirm, cancel := context.WithTimeout(ctx, ChangeTimeout/10)
	defer cancel()
	if err := c.Host().Confirm(confirm); err != nil {
		return err
	}
	if err := c.Learn(ctx); err != nil {
		return err
	}
	if c.Current.Load() {
		return nil
	}
	// In this order: a node that treats the shown state as current creates replicas that are not in
	// its list of created ones, and a lost list says nothing until it is settled.
	if err := c.created.Settle(c.Shown.Load().NextReplica); err != nil {
		return err
	}
	c.Current.Store(true)
	return nil
}

// Learn folds the records that this node knows to be committed, without asking other nodes.
func (c *Catalog) Learn(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		err := c.foldOnce(ctx)
		if errors.Is(err, cluster.ErrNewer) {
			c.stop(err)
		}
		if !errors.Is(err, &record.Refusal{Reason: record.OffsetTrimmed}) {
			return err
		}
		// A checkpoint was written after the bounds were read and before the records were.
	}
}

// arrivalTime bounds how long a committed change may be on its way here.
const arrivalTime = time.Second

// arrives waits for the records at an offset, which are committed, and folds them. It reports
// whether the awaited change is among them.
func (c *Catalog) arrives(ctx context.Context, at record.Offset) bool {
	ctx, cancel := context.WithTimeout(ctx, arrivalTime)
	defer cancel()
	for {
		start, end, err := c.Host().Replica.Tail().Bounds()
		if err != nil {
			return false
		}
		if end > at {
			return c.Learn(ctx) == nil && c.hasLanded()
		}
		changed := c.Host().Replica.Tail().Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// stop ends the use of the catalog on this node, for good: it holds what this version does
// not understand.
func (c *Catalog) stop(why error) {
	refusal := record.Refuse(record.Unsupported, "the catalog cannot be used on this node: %v", why)
	if c.Host().Unavailable.CompareAndSwap(nil, refusal) {
		c.logger.Error("the catalog cannot be used on this node", "error", why)
	}
}

func (c *Catalog) foldOnce(ctx context.Context) error {
	h := c.Host()
	start, end, err := h.Replica.Tail().Bounds()
	if err != nil {
		return err
	}
	if c.Next < start {
		c.Next, c.missed = start, len(c.Awaited) > 0 && !c.landed
	}
	if c.Next >= end {
		return nil
	}
	reader := reading.NewOwn(reading.Source{Log: h, ID: h.ID, Replica: h.Replica}, c.Next, end)
	defer reader.Close()
	defer c.show() // show the folded records, even if the rest cannot be read now
	for {
		chunk, err := reader.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		if err := c.fold(ctx, chunk); err != nil {
			return err
		}
		c.Next = chunk.First + record.Offset(chunk.Count)
	}
}

func (c *Catalog) fold(ctx context.Context, chunk reading.Chunk) error {
	for r, err := range chunk.Records(ctx) {
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		change, err := cluster.DecodeChange(r.Value)
		if err != nil {
			return fmt.Errorf("read change %d of the catalog: %w", r.Offset, err)
		}
		c.topics.fold(c.TopicID, &c.state, &change)
		if err := c.state.Fold(change); err != nil {
			return fmt.Errorf("change %d of the catalog: %w", r.Offset, err)
		}
		if change.Checkpoint != nil {
			c.size = len(r.Value)
		} else {
			c.size += cluster.MostAdded(len(r.Value))
		}
		if refusal := c.Outdated(&c.state); refusal != nil {
			return fmt.Errorf("change %d of the catalog: %s: %w", r.Offset, refusal.Detail, cluster.ErrNewer)
		}
		c.landed = c.landed || slices.ContainsFunc(c.Awaited, func(t CatalogTry) bool { return t.Change == change.ID })
	}
	return nil
}

// Checkpoint writes the whole state as one change and trims the earlier changes, if this node leads
// the catalog and there are enough of them. It is the retention of the catalog. As for other logs,
// the leader checks it every second, and so repeats it after a failure.
func (c *Catalog) Checkpoint(ctx context.Context) error {
	start, _, err := c.Host().Replica.Tail().Bounds()
	if err != nil || !c.Host().Replica.Status().Leading {
		return err
	}
	c.mu.Lock()
	at := c.Next
	if at-start < CheckpointEvery {
		c.mu.Unlock()
		return nil
	}
	whole := c.state.Checkpoint(rand.Text())
	c.mu.Unlock()
	value, err := json.Marshal(whole)
	if err != nil {
		return fmt.Errorf("encode a checkpoint: %w", err)
	}
	err = c.AppendAt(ctx, at, [][]byte{value})
	if errors.Is(err, &record.Refusal{Reason: record.EndMismatch}) {
		return nil // a change came first; the next look finds it
	}
	if err != nil {
		return err
	}
	_, err = c.Host().Command(ctx, record.Command{Kind: record.Trim, Offset: at})
	return err
}

// ReserveSessions reserves count session ids for this node. It fails after the time patience.
func (c *Catalog) ReserveSessions(ctx context.Context, count record.SessionID, patience time.Duration) (first record.SessionID, err error) {
	err = c.changeWithin(ctx, patience, func(s *cluster.State) (cluster.Change, error) {
		first = s.NextSession
		return cluster.Change{Sessions: first + count}, nil
	})
	return first, err
}

const (
	// CheckpointEvery is the number of changes that the catalog keeps before Checkpoint rewrites
	// and trims it, so that the time to open a node does not grow with its age.
	CheckpointEvery = 1000

	// ChangeTimeout bounds a change of the catalog. A change continues after its caller has given
	// up.
	ChangeTimeout = 30 * time.Second

	// ChangePause is the pause between two attempts while the catalog has no leader.
	ChangePause = 50 * time.Millisecond
)

// New returns the catalog stored in a replica of log 0. seeds are the nodes known before the
// catalog is read.
func New(o Options, created *datadir.ReplicaList, tasks *background.Tasks, due *background.Bell, host *hosted.Log, seeds []cluster.Node) *Catalog {
	c := &Catalog{logger: o.Logger, created: created, tasks: tasks, due: due, state: cluster.NewState(), topics: topicIDs{known: map[cluster.TopicID]firstLog{}}}
	c.Changes = &Changes{Options: o, catalog: c, Turn: make(chan struct{}, 1)}
	c.Hosting.Store(host)
	for _, seed := range seeds {
		c.state.Nodes[seed.ID] = seed
	}
	c.show()
	return c
}

// confirmTime bounds the question whether a log exists that this node does not know, and is how
// long a failure of the question is the answer for later callers.
const confirmTime = time.Second

// unknownLogs answers for logs that this node's catalog does not have. "no such log" is final for
// the caller, so only the newest catalog can say so: a node that was away, or is joining, may know
// an old one.
type unknownLogs struct {
	Failed atomic.Pointer[time.Time] // when the newest question without an answer ended
}

// Confirm returns a state of the catalog that has the log. The error is LOG_NOT_FOUND if the newest
// state has no such log, and NOT_LEADER if the newest state is not known.
func (m *unknownLogs) Confirm(c *Catalog, name string) (*cluster.State, *record.Refusal) {
	if state := c.Shown.Load(); has(state, name) {
		return state, nil
	}
	// Else many questions about unknown logs would wait one after the other.
	if failed := m.Failed.Load(); failed != nil && time.Since(*failed) < confirmTime {
		return nil, unknownHere(name)
	}
	ctx, cancel := context.WithTimeout(c.tasks.Context, confirmTime)
	defer cancel()
	if err := c.Refresh(ctx); err != nil {
		now := time.Now()
		m.Failed.Store(&now)
		c.logger.Debug("could not ask whether there is a log", "log", name, "error", err)
		return nil, unknownHere(name)
	}
	state := c.Shown.Load()
	if !has(state, name) {
		return nil, record.Refuse(record.LogNotFound, "there is no log %q", name)
	}
	return state, nil
}

func has(state *cluster.State, log string) bool {
	_, there := state.Logs[log]
	return there
}

func unknownHere(log string) *record.Refusal {
	return record.Refuse(record.NotLeader, "this node does not know log %q, and cannot reach the catalog's leader to look it up", log)
}
