package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Archiver extends the archives of the logs on disk that this node leads, one object at a time.
// Appends do not depend on it.
type Archiver struct {
	options *settings.Options
	logger  *slog.Logger
	metrics *metrics.Metrics
	logs    *hosted.Logs
	self    *peers.Self
	led     map[uint64]*archived // by log id
}

// archived is the archive of a log that this node leads.
type archived struct {
	*archive.Uploader
	// from and end are the range of the records that were not archived at the newest look; 0 and 0:
	// there was none.
	from, end record.Offset
	// since is the leader's time of the oldest of these records, or of the first failure before a look;
	// zero: there are none.
	since time.Time
	bytes int64 // payload of these records
	// changed is from at the newest ErrChanged.
	changed record.Offset
	tries   background.Backoff
	fails   string // the newest failure; empty: none since the last success
}

// NewArchiver returns the Archiver of a node with an archive.
func NewArchiver(options *settings.Options, logger *slog.Logger, metrics *metrics.Metrics, logs *hosted.Logs, self *peers.Self) *Archiver {
	return &Archiver{options: options, logger: logger, metrics: metrics, logs: logs, self: self, led: map[uint64]*archived{}}
}

const (
	// archiveEvery is the interval between checks for records to archive.
	archiveEvery = time.Second
	// archiveTime bounds one attempt to archive an object, beside a second for each slowestArchive
	// bytes, so that a bucket that does not answer does not delay other logs forever.
	archiveTime    = 2 * time.Minute
	slowestArchive = 64 << 10
	// longestArchivePause is the longest pause after a failure.
	longestArchivePause = time.Minute
)

// Run archives until ctx ends.
func (a *Archiver) Run(ctx context.Context) {
	measured := time.Now()
	for ctx.Err() == nil {
		more := false
		logs := a.logs.All()
		a.forget(logs)
		for _, name := range slices.Sorted(maps.Keys(logs)) {
			if h := logs[name]; ctx.Err() == nil && archivable(h) {
				more = a.extend(ctx, h) || more
				if time.Since(measured) > archiveEvery { // a round may last long
					a.measure()
					measured = time.Now()
				}
			}
		}
		a.measure()
		if !more {
			background.Pause(ctx, archiveEvery)
		}
	}
}

// archivable reports whether this node archives a log.
func archivable(h *hosted.Log) bool {
	return h.Replica != nil && h.OnDisk() && h.Ended() == nil && h.Replica.Status().Leading
}

// forget drops what is known of archives that other nodes extend now.
func (a *Archiver) forget(logs map[string]*hosted.Log) {
	ids := map[uint64]bool{}
	for _, h := range logs {
		ids[h.ID] = archivable(h)
	}
	maps.DeleteFunc(a.led, func(id uint64, _ *archived) bool { return !ids[id] })
}

// extend archives one object of a log if it is due, and reports whether another may be due.
func (a *Archiver) extend(ctx context.Context, h *hosted.Log) (more bool) {
	s := a.led[h.ID]
	if s == nil {
		s = &archived{Uploader: &archive.Uploader{
			Archive: archive.Archive{Bucket: a.options.Archive}, Source: archiveSource{h},
			Cluster: a.self.ClusterID(), LogID: h.ID, Log: h.Name, Created: h.Created,
		}}
		s.changed = -1
		a.led[h.ID] = s
	}
	now := time.Now()
	if !s.tries.Due(now) {
		return false
	}
	o, err := a.tryExtend(ctx, h, s, now)
	switch {
	case err == nil && o.Entries == 0:
		return false
	case err == nil:
		a.metrics.ArchivedBytes.Add(float64(o.Size))
		if s.fails != "" {
			a.logger.Info("the archive of a log is extended again", "log", h.Name, "end", o.End)
		}
		s.fails, s.tries = "", background.Backoff{}
		return true
	case errors.Is(err, archive.ErrChanged) && s.changed != s.from:
		s.changed = s.from // another node has extended it meanwhile, or the same happens again
		return true
	case ctx.Err() != nil:
		return false
	}
	if s.since.IsZero() {
		s.since = now
	}
	s.tries.Tried(now, longestArchivePause)
	a.metrics.ArchiveFailures.Inc()
	if text := err.Error(); text != s.fails {
		s.fails = text
		a.logger.Error("a log is not archived", "log", h.Name, "archive", a.options.Archive.String(), "error", err)
	}
	return false
}

// tryExtend returns an object without entries if nothing is due.
func (a *Archiver) tryExtend(ctx context.Context, h *hosted.Log, s *archived, now time.Time) (archive.Object, error) {
	limited, cancel := context.WithTimeout(ctx, archiveTime)
	defer cancel()
	if err := s.Begin(limited); err != nil {
		return archive.Object{}, err
	}
	if err := s.look(h, now); err != nil || s.from >= s.end {
		return archive.Object{}, err
	}
	if s.bytes < archive.ObjectBytes && now.Sub(s.since) < a.options.ArchiveAfter {
		return archive.Object{}, nil
	}
	seconds := min(s.bytes, archive.MaxObjectBytes) / slowestArchive
	limited, cancel = context.WithTimeout(ctx, archiveTime+time.Duration(seconds)*time.Second)
	defer cancel()
	o, err := s.Upload(limited, s.bytes)
	if err == nil {
		s.bytes = max(s.bytes-o.Size, 0)
	}
	return o, err
}

// look finds out which records are not archived. It reads only if they are others than before.
func (s *archived) look(h *hosted.Log, now time.Time) error {
	from, end, err := s.Pending()
	switch {
	case err != nil:
		return err
	case from >= end:
		s.from, s.end, s.since, s.bytes = from, end, time.Time{}, 0
		return nil
	case from == s.from && end == s.end:
		return nil
	}
	bytes, err := h.Replica.BytesFrom(from)
	if err != nil {
		return err
	}
	since := s.since
	if from != s.from || s.from >= s.end {
		at, err := archiveSource{h}.timeAt(from, end)
		if err != nil {
			return err
		}
		if since = now; at.Before(now) { // another leader's clock may be ahead
			since = at
		}
	}
	s.from, s.end, s.since, s.bytes = from, end, since, bytes[0]
	return nil
}

// measure publishes how far the archives trail their logs.
func (a *Archiver) measure() {
	var bytes int64
	var oldest time.Time
	for _, s := range a.led {
		bytes += s.bytes
		if !s.since.IsZero() && (oldest.IsZero() || s.since.Before(oldest)) {
			oldest = s.since
		}
	}
	a.metrics.ArchiveTrails(bytes, oldest)
}

// archiveSource is a hosted log as the source of its archive.
type archiveSource struct{ *hosted.Log }

// Bounds implements archive.Source.
func (s archiveSource) Bounds() (start, end record.Offset, err error) {
	return s.Replica.Tail().Bounds()
}

// archiveChunk is how many bytes are read at once.
const archiveChunk = 1 << 20

// Read implements archive.Source. After each chunk it pauses for as long as the chunk took: an archive
// takes at most half of a processor.
func (s archiveSource) Read(ctx context.Context, from, until record.Offset, add func(e *segment.Entry) (bool, error)) error {
	reader := s.Replica.NewReader(from)
	defer reader.Close()
	for ctx.Err() == nil {
		begun := time.Now()
		chunk, err := reader.Next(until, archiveChunk)
		if err != nil || len(chunk.Entries) == 0 {
			return err
		}
		more := true
		for i := 0; i < len(chunk.Entries) && more && err == nil; i++ {
			more, err = add(&chunk.Entries[i])
		}
		chunk.Release()
		if err != nil || !more {
			return err
		}
		background.Pause(ctx, time.Since(begun))
	}
	return ctx.Err()
}

// timeAt returns the leader's time of the entry that holds an offset below end.
func (s archiveSource) timeAt(at, end record.Offset) (time.Time, error) {
	reader := s.Replica.NewReader(at)
	defer reader.Close()
	chunk, err := reader.Next(end, 1)
	if err != nil {
		return time.Time{}, err
	}
	defer chunk.Release()
	if len(chunk.Entries) == 0 {
		return time.Now(), nil // skipped offsets
	}
	entry, err := record.ParseEntry(chunk.Entries[0].Payload)
	return time.UnixMilli(entry.Time), err
}

// Digest implements archive.Source.
func (s archiveSource) Digest(ctx context.Context, at record.Offset) (digest.Tree, error) {
	return s.Replica.Digest(ctx, at)
}

// Config implements archive.Source.
func (s archiveSource) Config() json.RawMessage {
	config, err := json.Marshal(settings.EncodeConfig(*s.Log.Config.Load()))
	if err != nil {
		return nil // it was decoded from JSON
	}
	return config
}
