package replicas

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// Damage to data that is never read may stay undetected until the copies on the other nodes are
// damaged too. So a node reads all its stored data, slowly and repeatedly.

// Scrubber reads stored data to find damage before the data are needed.
type Scrubber struct {
	options      *settings.Options
	disk         vfs.FS
	logger       *slog.Logger
	metrics      *metrics.Metrics
	me           *datadir.Me
	logs         *hosted.Logs
	files        *datadir.Files
	incarnations *datadir.Incarnations
}

// NewScrubber returns a Scrubber that reads at the rate and interval of options.
func NewScrubber(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, metrics *metrics.Metrics, me *datadir.Me, logs *hosted.Logs, files *datadir.Files,
	incarnations *datadir.Incarnations,
) *Scrubber {
	return &Scrubber{options: options, disk: disk, logger: logger, metrics: metrics, me: me, logs: logs, files: files, incarnations: incarnations}
}

// scrubDelay after a start, the node has other things to do.
const scrubDelay = time.Minute

// Scrubbed is a log on disk.
type Scrubbed interface {
	Check(damaged func(error)) error
	Scrub(pace func(bytes int) error, damaged func(error)) error
	// Forged returns the error for an entry that differs from the appended one although its
	// checksums match.
	Forged(index uint64, reason error) error
}

// Run first checks the headers and footers of every log on disk: they show files that were
// exchanged or restored while the node was down. Then it reads all stored data, one log after the
// other, at a bounded rate.
func (s *Scrubber) Run(ctx context.Context) {
	s.scrubLogs(ctx, func(_ *hosted.Log, log Scrubbed, damaged func(error)) error { return log.Check(damaged) })
	if s.options.ScrubRate < 0 {
		return
	}
	background.Pause(ctx, min(scrubDelay, s.options.ScrubEvery))
	pace := func(bytes int) error {
		s.metrics.Scrubbed.Add(float64(bytes))
		background.Pause(ctx, time.Duration(float64(bytes)/float64(s.options.ScrubRate)*float64(time.Second)))
		return ctx.Err()
	}
	for ctx.Err() == nil {
		again := time.Now().Add(s.options.ScrubEvery)
		s.scrubLogs(ctx, func(h *hosted.Log, log Scrubbed, damaged func(error)) error {
			forged := func(index uint64, reason error) { damaged(log.Forged(index, reason)) }
			return cmp.Or(log.Scrub(pace, damaged), h.Replica.CheckDigests(ctx, pace, forged))
		})
		s.scrubOwnFiles()
		s.metrics.Scrubs.Inc()
		background.Pause(ctx, time.Until(again))
	}
}

// scrubLogs scrubs each log that runs here.
func (s *Scrubber) scrubLogs(ctx context.Context, look func(h *hosted.Log, log Scrubbed, damaged func(error)) error) {
	for _, name := range slices.Sorted(maps.Keys(s.logs.All())) {
		h := s.logs.Named(name)
		if h == nil || ctx.Err() != nil || h.Ended() != nil {
			continue
		}
		if log, ok := h.Store.(Scrubbed); ok {
			judge := func(err error) { s.judgeScrub(ctx, h, err) }
			judge(look(h, log, judge))
		}
	}
}

// judgeScrub distinguishes damage from a disk that cannot be read at the moment.
func (s *Scrubber) judgeScrub(ctx context.Context, h *hosted.Log, err error) {
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, segment.ErrClosed) || h.Ended() != nil:
	case errors.Is(err, segment.ErrNoSnapshot):
		h.Replica.RenewSnapshot()
	case errors.As(err, new(*segment.CorruptError)), errors.Is(err, fs.ErrNotExist):
		h.Found(err)
	case errors.Is(err, runtime.ErrDigest):
		// The replica is not taken out of service: an operator must first find out what is wrong,
		// here or elsewhere.
		s.metrics.Unreadable(h.Name)
		s.logger.Error("the stored records of a log do not match its digests; compare the replicas with \"strandline log diff\", and replace the one that differs", "log", h.Name, "error", err)
	default:
		// Not known to be wrong: the newest segment cannot be read, or no file can.
		// The replica continues: it may hold what another one has lost.
		s.metrics.Unreadable(h.Name)
		s.logger.Error("a part of a stored log cannot be read; check the disk, and replace this node if the disk is failing", "log", h.Name, "error", err)
	}
}

// scrubOwnFiles rewrites damaged files of the node itself from memory.
func (s *Scrubber) scrubOwnFiles() {
	_, damage, err := datadir.CheckData(vfs.Stored{FS: s.disk}, s.options.DataDir)
	if err != nil {
		s.logger.Error("the node's own files cannot be read", "error", err)
	}
	for _, d := range damage {
		s.logger.Error("a file of this node is damaged; rewriting it", "file", d.Path, "error", d.Detail)
	}
	if len(damage) == 0 {
		return
	}
	if err := errors.Join(s.me.Load().Save(s.disk, s.options.DataDir), s.files.Created.Rewrite(), s.incarnations.Rewrite()); err != nil {
		s.logger.Error("a damaged file of this node could not be rewritten", "error", err)
	}
}
