package replicas

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Retention trims logs to their limits, and reserves offsets for memory logs.
type Retention struct {
	logger  *slog.Logger
	catalog *catalog.Shared
	logs    *hosted.Logs
	self    *peers.Self
	tasks   *background.Tasks
	metrics *metrics.Metrics
	// grown asks for a look before the next second has passed.
	grown chan struct{}
}

// NewRetention returns the Retention of the logs that this node leads.
func NewRetention(
	logger *slog.Logger, metrics *metrics.Metrics, catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self, tasks *background.Tasks,
) *Retention {
	return &Retention{logger: logger, metrics: metrics, catalog: catalog, logs: logs, self: self, tasks: tasks, grown: make(chan struct{}, 1)}
}

const (
	// MaxMemoryOffset is the highest offset to which a memory log can be fast-forwarded. Each loss
	// of a majority moves the log a block further, permanently.
	MaxMemoryOffset record.Offset = 1 << 60
)

// ReserveMemory raises a memory log's ceilings when half of the block below them is used, or so
// that an offset is below its ceiling.
func (re *Retention) ReserveMemory(ctx context.Context, h *hosted.Log, offset record.Offset) error {
	_, end, err := h.Replica.Tail().Bounds()
	end = max(end, offset)
	term := h.Replica.Status().WriterTerm
	if err != nil || !h.Reserved.Load().ReserveDue(end, term) {
		return err
	}
	var l cluster.Log
	err = re.catalog.Load().Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		var change cluster.Change
		var refusal *record.Refusal
		l, change, refusal = cluster.ReserveFor(s, h.Name, h.ID, end, term)
		return catalog.Refusable(change, refusal)
	})
	if err == nil {
		h.Raise(l.Reserved)
	}
	return err
}

// reserveSoon is like reserveMemory, but does not wait: the catalog may take long, and must not
// delay the retention of other logs.
func (re *Retention) reserveSoon(h *hosted.Log) {
	if !h.Reserving.CompareAndSwap(false, true) {
		return
	}
	re.tasks.Run(func(ctx context.Context) {
		defer h.Reserving.Store(false)
		if err := re.ReserveMemory(ctx, h, 0); err != nil && ctx.Err() == nil {
			re.logger.Warn("could not reserve offsets and writer terms", "log", h.Name, "error", err)
		}
	})
}

// retainAfter is how many bytes a log with a size limit writes before retention is checked again. A
// log that writes several segments a second then gets each trimmed segment back in time to reuse
// its file.
const retainAfter = 32 << 20

// retentionEvery is the interval between checks of retention. With the tick before and the command
// after it, a record outlives its retention by less than 2 s.
const retentionEvery = time.Second

// retainTime bounds one check of one log, so that a log that hangs does not delay the others.
const retainTime = 5 * time.Second

func (re *Retention) Run(ctx context.Context) {
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-re.grown:
		}
		for _, h := range re.logs.All() {
			if h.Replica == nil || !h.Replica.Status().Leading {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, retainTime)
			err := re.retain(limited, h)
			cancel()
			var corrupt *segment.CorruptError
			if errors.As(err, &corrupt) {
				h.Found(err)
			} else if err != nil && ctx.Err() == nil {
				re.logger.Warn("could not apply retention", "log", h.Name, "error", err)
			}
		}
	}
}

// wroteTo counts the bytes that a log has written since retention was last checked.
func (re *Retention) wroteTo(h *hosted.Log, bytes int) {
	if h.Config.Load().RetentionBytes == 0 || h.Unretained.Add(int64(bytes)) < retainAfter {
		return
	}
	h.Unretained.Store(0)
	select {
	case re.grown <- struct{}{}:
	default:
	}
}

// youngerThan returns the first offset of a log whose record is not older than age, in ms.
func (re *Retention) youngerThan(h *hosted.Log, age int64) (record.Offset, error) {
	return h.Replica.OffsetAtTime(re.self.Now().UnixMilli() - age)
}

// breakHolds ends the holds of a log that keep more than they may.
func (re *Retention) breakHolds(ctx context.Context, h *hosted.Log) (err error) {
	for _, hold := range h.Replica.Status().Holds {
		bytes := []int64{0}
		var byAge record.Offset
		if hold.MaxBytes > 0 {
			if bytes, err = h.Replica.BytesFrom(hold.Offset); err != nil {
				return err
			}
		}
		if hold.MaxAge > 0 {
			if byAge, err = re.youngerThan(h, hold.MaxAge); err != nil {
				return err
			}
		}
		if !cluster.BreakDue(hold, bytes[0], byAge) {
			continue
		}
		// The sequencer ignores the release if the hold was since released, moved, or set with
		// other limits.
		release := record.Command{Kind: record.ReleaseHold, Flags: record.FlagBroken, Offset: hold.Offset, Text: record.AppendHold(nil, hold)}
		a, err := h.Command(ctx, release)
		switch {
		case errors.Is(err, &record.Refusal{Reason: record.HoldNotFound}), err == nil && a.Duplicate:
			continue
		case err != nil:
			return err
		}
		re.metrics.BrokenHolds.Inc()
		re.logger.Warn("broke a hold that kept more than it may", "log", h.Name, "hold", hold.Name, "owner", hold.Owner, "offset", hold.Offset,
			"max_bytes", hold.MaxBytes, "max_age_ms", hold.MaxAge)
	}
	return nil
}

// retain trims what a log's retention has outlived.
func (re *Retention) retain(ctx context.Context, h *hosted.Log) error {
	if h.ID == cluster.CatalogID {
		if c := re.catalog.Load(); c != nil {
			return c.Checkpoint(ctx)
		}
		return nil
	}
	if err := h.ApplySettings(ctx); err != nil {
		return err
	}
	config := h.Config.Load()
	if config.Durability == settings.Memory {
		re.reserveSoon(h)
	}
	start, end, err := h.Replica.Tail().Bounds()
	if err != nil || start == end {
		return err
	}
	if err := re.breakHolds(ctx, h); err != nil {
		return err
	}
	var byAge, bySize record.Offset
	if config.Retention > 0 {
		if byAge, err = re.youngerThan(h, config.Retention.Milliseconds()); err != nil {
			return err
		}
	}
	if config.RetentionBytes > 0 {
		if bySize, err = h.Replica.OffsetAtSize(config.RetentionBytes, end); err != nil {
			return err
		}
	}
	target, due := cluster.TrimDue(start, end, byAge, bySize, h.Replica.Status().Holds)
	if !due {
		return nil
	}
	_, err = h.Command(ctx, record.Command{Kind: record.Trim, Offset: target})
	if errors.Is(err, &record.Refusal{Reason: record.Held}) {
		return nil // by a hold that is being set
	}
	return err
}
