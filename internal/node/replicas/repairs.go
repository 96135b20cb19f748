package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/vfs"
)

// Repairs is the state that all repairs of a node share: access to the files, and to the nodes that
// may have the missing entries.
type Repairs struct {
	disk    vfs.FS
	logger  *slog.Logger
	me      *datadir.Me
	catalog *catalog.Shared
	files   *datadir.Files
	peers   *peers.Peers
	caller  *peers.Caller
	running chan struct{} // full: repairAtOnce are under way
}

// NewRepairs returns a Repairs that asks other nodes for entries through caller.
func NewRepairs(
	disk vfs.FS, logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, files *datadir.Files, peers *peers.Peers, caller *peers.Caller,
) *Repairs {
	return &Repairs{
		disk: disk, logger: logger, me: me, catalog: catalog, files: files, peers: peers, caller: caller, running: make(chan struct{}, repairAtOnce),
	}
}

// of returns a repair of a log, which asks the other nodes that hold it.
func (r *Repairs) of(h *hosted.Log, cause error) *replicaRepair {
	m := &replicaRepair{fetcher: fetcher{repairs: r, host: h, cause: cause}}
	m.others, m.ask = m.holders, m.askNode
	return m
}

// rememberForgetful marks a replica that has forgotten what it promised. Its files
// look sound: without the mark, the next life of this node would believe them.
func (r *Repairs) rememberForgetful(h *hosted.Log, cause error) {
	if !h.Forgetful.Load() {
		return
	}
	if err := r.files.MarkLost(h.ID, h.ReplicaID, cause.Error()); err != nil {
		r.logger.Error("a replica that has lost data could not be marked as lost", "log", h.Name, "replica", h.ReplicaID, "error", err)
	}
}

// HandOverTime is how long the node waits for another replica to take over before it closes a
// replica with damaged files anyway, or before a node without a catalog tries again.
const HandOverTime = 5 * time.Second

// shutTime is how long a log with damaged files may take to answer the requests in flight.
const shutTime = 2 * time.Second

// stepDown lets another replica lead, if this one leads and there is another.
func stepDown(ctx context.Context, h *hosted.Log) {
	ctx, cancel := context.WithTimeout(ctx, HandOverTime)
	defer cancel()
	for h.Replica.Status().Leading && ctx.Err() == nil {
		if h.Replica.HandOver(ctx, 0) != nil {
			background.Pause(ctx, catalog.ChangePause)
		}
	}
}

// shut closes a log whose files are damaged. It reports false if the disk hangs:
// then the files are still in use and must not be changed.
func shut(logger *slog.Logger, h *hosted.Log) bool {
	closing, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	err := h.Close(closing)
	if err != nil {
		logger.Warn("a log with damaged files did not close cleanly", "log", h.Name, "error", err)
	}
	return !errors.Is(err, runtime.ErrStalled)
}

// A replica with damaged files does not run: it neither votes nor leads nor acknowledges until they
// are intact. Meanwhile this node requests the unreadable entries from the others. Any replica that
// has an entry can provide it, even if it does not lead or has other damage. repair.Repairer
// decides which answers are valid.

// replicaRepair is a log under repair: one goroutine, which has exclusive use of the files until
// done is closed.
type replicaRepair struct {
	fetcher
	// after is the earliest time at which the files are examined.
	after time.Time
	// begin opens the files.
	begin func(context.Context) (*repair.Repairer, error)

	cancel context.CancelFunc
	done   chan struct{}
}

// repairRunning returns when the segment is intact. An error other than ErrTrimmed means that it
// cannot be repaired while the log runs, or that ctx has ended.
func (m *replicaRepair) repairRunning(ctx context.Context) (report repair.Outcome, err error) {
	patience := time.Now().Add(hosted.UncommittedTime)
	var gone trimmedElsewhere
	trimmed := uint64(0) // Trim was done up to there
	for wait := repairPause; ; wait = min(max(2*wait, repairPause), repairPauseTo) {
		report, err = m.try(ctx)
		switch {
		case err == nil, errors.Is(err, segment.ErrTrimmed), ctx.Err() != nil:
			return report, err
		case errors.Is(err, repair.ErrNotRepairable), errors.Is(err, segment.ErrNotComplete), m.host.Ended() != nil:
			return report, err
		case errors.Is(err, segment.ErrNotCommitted):
			if time.Now().After(patience) {
				return report, err
			}
			wait = repairPause
		case errors.As(err, &gone):
			remedy, start := m.trimRemedy(ctx, gone, trimmed)
			switch remedy {
			case cluster.TakeOut:
				return report, err
			case cluster.Trim:
				trimmed, wait = start, 0
			}
			m.close() // the next try sees whether the segment has left
		case errors.Is(err, errMissing):
		default:
			m.report("%v; trying again. First seen: %v", err, m.cause)
			m.repairs.logger.Warn("a segment cannot be repaired at the moment", "log", m.host.Name, "error", err)
			m.close()
		}
		background.Pause(ctx, wait)
	}
}

// trimRemedy returns the remedy for entries that are trimmed elsewhere. trimmed is the index up to
// which Trim was called. If the remedy is to trim, the entries below start are trimmed.
func (m *replicaRepair) trimRemedy(ctx context.Context, gone trimmedElsewhere, trimmed uint64) (remedy cluster.Remedy, start uint64) {
	applied, err := m.host.Replica.Final(ctx)
	if err != nil {
		return cluster.KeepServing, 0 // the replica has ended
	}
	start, err = m.host.Replica.StartIndex()
	if err != nil {
		start = m.startElsewhere(ctx, gone.begins)
	}
	remedy = cluster.TrimmedElsewhere{Last: gone.last, Applied: applied, Start: start, Trimmed: start <= trimmed}.Remedy()
	for more := remedy == cluster.Trim; more; {
		if more, err = m.host.Store.Trim(start); err != nil {
			m.repairs.logger.Warn("what was trimmed could not be removed", "log", m.host.Name, "error", err)
		}
	}
	return remedy, start
}

// startElsewhere returns begins if this replica's own trims leave only entries from there on, and 0
// otherwise. It is used if the start of the log is among the unreadable entries: another node,
// whose log begins with the entry begins, returns the offset of that entry.
func (m *replicaRepair) startElsewhere(ctx context.Context, begins uint64) uint64 {
	start, err := m.host.Replica.Disposable()
	if err != nil {
		return 0 // the replica has ended
	}
	for _, other := range m.others(&answered{}) {
		a, err := m.askFor(ctx, other, begins, begins)
		if err != nil {
			continue // the next try asks again
		}
		if frames := a.Valid(); len(frames) > 0 && frames[0].Index == begins && begins <= a.Settled && frames[0].First <= start {
			return begins
		}
	}
	return 0
}

// Stop ends the repair and returns when the files are released.
func (m *replicaRepair) Stop() {
	m.cancel()
	<-m.done
}

func (m *replicaRepair) sayUnavailable(text string) {
	m.host.Unavailable.Store(record.Refuse(record.NotLeader, "log %q is being repaired on this node: %s", m.host.Name, text))
}

// repair returns when the files are intact. An error means that they cannot be repaired, or that
// ctx has ended.
func (m *replicaRepair) repair(ctx context.Context) (repair.Outcome, error) {
	defer m.close()
	background.Pause(ctx, time.Until(m.after))
	for wait := repairPause; ; {
		report, err := m.try(ctx)
		switch {
		case err == nil:
			return report, nil
		case ctx.Err() != nil:
			return report, ctx.Err()
		case errors.Is(err, repair.ErrNotRepairable), errors.Is(err, segment.ErrNoLog), errors.Is(err, errLost):
			return report, err
		case errors.Is(err, errMissing):
		default:
			m.report("%v; trying again. First seen: %v", err, m.cause)
			m.repairs.logger.Warn("a log cannot be repaired at the moment", "log", m.host.Name, "error", err)
			m.close()
		}
		background.Pause(ctx, wait)
		wait = min(2*wait, repairPauseTo)
	}
}

// try requests the missing entries as long as some arrive.
func (m *replicaRepair) try(ctx context.Context) (report repair.Outcome, err error) {
	select {
	case m.repairs.running <- struct{}{}:
		defer func() { <-m.repairs.running }()
	case <-ctx.Done():
		return report, ctx.Err()
	}
	if m.rebuild == nil {
		if err := m.open(ctx); err != nil {
			return report, err
		}
	}
	for {
		wants := m.rebuild.Wants(repairWants)
		if len(wants) == 0 {
			return m.finish()
		}
		progress, err := m.round(ctx, wants)
		if err == nil && !progress {
			err = errMissing
		}
		if err != nil {
			return report, err
		}
	}
}

func (m *replicaRepair) open(ctx context.Context) error {
	rebuild, err := m.begin(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.rebuild = rebuild
	m.mu.Unlock()
	if m.unseen() && len(rebuild.Wants(1)) == 0 {
		return fmt.Errorf("%w: %w", errLost, m.cause) // the files do not show what is wrong with them
	}
	return nil
}

// openFiles opens the files of a replica that does not run. Where the damaged
// segment is known, the others are not read.
func (m *replicaRepair) openFiles(ctx context.Context) (*repair.Repairer, error) {
	dir := m.repairs.files.ReplicaDir(m.host.ID, m.host.ReplicaID)
	o := m.repairs.files.SegmentOptions(m.repairs.files.Owner(m.host.ID, m.host.ReplicaID), m.repairs.logger.With("log", m.host.Name))
	var corrupt *segment.CorruptError
	if errors.As(m.cause, &corrupt) && strings.HasSuffix(corrupt.File, ".seg") && !m.unseen() {
		rebuild, err := repair.BeginAt(ctx, m.repairs.disk, dir, o, corrupt.File, forgedEntry(m.cause))
		if err != nil || !rebuild.Report().Whole() {
			return rebuild, err
		}
		if err := rebuild.Close(); err != nil {
			return nil, err
		}
	}
	return repair.Begin(ctx, m.repairs.disk, dir, o)
}

// forgedEntry is the index of the entry that is not what was appended, though all checksums match; 0: there is none.
func forgedEntry(cause error) uint64 {
	var corrupt *segment.CorruptError
	if errors.As(cause, &corrupt) && corrupt.Forged {
		return corrupt.FirstIndex
	}
	return 0
}

// unseen reports whether the damage may not be visible in any single file.
func (m *replicaRepair) unseen() bool {
	return errors.Is(m.cause, core.ErrStartMissing) || errors.Is(m.cause, core.ErrSpliced)
}

// Times of repair.
const (
	repairPause   = 50 * time.Millisecond // after a first round in vain; doubles
	repairPauseTo = 5 * time.Second
	// repairAgain is the minimum time between two repairs of a log, so that damage which recurs
	// immediately does not keep a node busy.
	repairAgain = 5 * time.Second
	// entriesTime is how long another node may take to find entries.
	entriesTime = 10 * time.Second
)

// repairAtOnce bounds the logs of a node that are read and fetched at the same time, and thereby
// the memory and disk time of repairs. Repairs that wait for a node to return do not count.
const repairAtOnce = 8

// repairWants is how many ranges are requested before the list of missing entries is computed
// again.
const repairWants = 32

// errMissing: no node that answers has what is missing.
var errMissing = errors.New("entries are missing")

// trimmedElsewhere means that the missing entries up to last are trimmed on another node, whose log
// begins with the entry begins, and that no node has them. A replica that does not run skips them.
type trimmedElsewhere struct{ last, begins uint64 }

func (trimmedElsewhere) Error() string {
	return "what is missing is trimmed on other nodes, and none has it"
}
