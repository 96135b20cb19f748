package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"strandline.dev/internal/segment"
)

// What nobody reads may rot unnoticed, until the copies on the other nodes have
// rotted too. So a node reads all that it stores, slowly and again and again.

const (
	// DefaultScrubRate is next to nothing for a disk and for a core.
	DefaultScrubRate = 8 << 20 // bytes per second
	// DefaultScrubEvery is how often everything is read, if the rate allows.
	DefaultScrubEvery = 24 * time.Hour
	// scrubDelay after a start, the node has other things to do.
	scrubDelay = time.Minute
)

// scrubbed is a log on disk.
type scrubbed interface {
	Check(damaged func(error)) error
	Scrub(pace func(bytes int) error, damaged func(error)) error
}

// scrub looks at the headers and footers of every log on disk at once: what was
// exchanged or brought back while the node was down shows there. Then it reads all
// that is stored, one log after the other, at a bounded rate.
func (n *Node) scrub(ctx context.Context) {
	n.scrubLogs(ctx, scrubbed.Check)
	if n.options.ScrubRate < 0 {
		return
	}
	pause(ctx, min(scrubDelay, n.options.ScrubEvery))
	pace := func(bytes int) error {
		n.metrics.scrubbed.Add(float64(bytes))
		pause(ctx, time.Duration(float64(bytes)/float64(n.options.ScrubRate)*float64(time.Second)))
		return ctx.Err()
	}
	for ctx.Err() == nil {
		again := time.Now().Add(n.options.ScrubEvery)
		n.scrubLogs(ctx, func(log scrubbed, damaged func(error)) error { return log.Scrub(pace, damaged) })
		n.scrubOwnFiles()
		n.metrics.scrubs.Inc()
		pause(ctx, time.Until(again))
	}
}

// scrubLogs looks at each log that runs here.
func (n *Node) scrubLogs(ctx context.Context, look func(log scrubbed, damaged func(error)) error) {
	for _, name := range slices.Sorted(maps.Keys(*n.logs.Load())) {
		h := (*n.logs.Load())[name]
		if h == nil || ctx.Err() != nil || h.ended() != nil {
			continue
		}
		if log, ok := h.log.(scrubbed); ok {
			judge := func(err error) { n.judgeScrub(ctx, h, err) }
			judge(look(log, judge))
		}
	}
}

// judgeScrub tells the damage from a disk that cannot be read at the moment.
func (n *Node) judgeScrub(ctx context.Context, h *hosted, err error) {
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, segment.ErrClosed) || h.ended() != nil:
	case errors.As(err, new(*segment.CorruptError)), errors.Is(err, fs.ErrNotExist):
		h.found(err)
	default:
		// Not known to be wrong: the newest segment cannot be read, or no file can.
		// The replica goes on: it may hold what another one has lost.
		n.metrics.unreadable(h.name)
		n.logger.Error("a stored log cannot be read everywhere; look at the disk, and replace this node if it fails", "log", h.name, "error", err)
	}
}

// scrubOwnFiles writes those of the node's own files anew that are damaged: what
// they held is in memory.
func (n *Node) scrubOwnFiles() {
	_, damage, err := CheckData(n.disk, n.options.DataDir)
	if err != nil {
		n.logger.Error("the node's own files cannot be read", "error", err)
	}
	for _, d := range damage {
		n.logger.Error("a file of this node is damaged; it is written anew", "file", d.Path, "error", d.Detail)
	}
	if len(damage) == 0 {
		return
	}
	if err := errors.Join(n.me.Load().save(n.disk, n.options.DataDir), n.made.rewrite(), n.lives.rewrite()); err != nil {
		n.logger.Error("a damaged file of this node could not be written anew", "error", err)
	}
}
