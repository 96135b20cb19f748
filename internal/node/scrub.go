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
	// scrubChunk is what is read between two pauses.
	scrubChunk = 256 << 10
)

// scrub reads every log on disk, one after the other, at a bounded rate.
func (n *Node) scrub(ctx context.Context) {
	pause(ctx, min(scrubDelay, n.options.ScrubEvery))
	for ctx.Err() == nil {
		again := time.Now().Add(n.options.ScrubEvery)
		for _, name := range slices.Sorted(maps.Keys(*n.logs.Load())) {
			if h := (*n.logs.Load())[name]; h != nil {
				n.scrubLog(ctx, h)
			}
		}
		n.metrics.scrubs.Inc()
		pause(ctx, time.Until(again))
	}
}

// scrubLog reads the committed entries of a log that runs here. It holds no lock
// and one segment.
func (n *Node) scrubLog(ctx context.Context, h *hosted) {
	if h.standing.Load() != nil || h.config.Load().Durability == Memory {
		return
	}
	start, end, err := h.replica.Tail().Bounds()
	if err != nil || start >= end {
		return
	}
	cursor, err := h.log.NewCursor(start)
	memory := make([]byte, 2*scrubChunk)
	for err == nil {
		cursor.Lend(memory)
		var frames []segment.Frame
		frames, err = cursor.Next(end, scrubChunk)
		bytes := 0
		for i := range frames {
			bytes += len(frames[i].Payload)
		}
		n.metrics.scrubbed.Add(float64(bytes))
		pause(ctx, time.Duration(float64(bytes)/float64(n.options.ScrubRate)*float64(time.Second)))
		if len(frames) == 0 || ctx.Err() != nil || h.problem() != nil {
			break
		}
	}
	if cursor != nil {
		cursor.Close()
	}
	if errors.Is(err, segment.ErrTrimmed) || errors.Is(err, segment.ErrClosed) {
		return // what was trimmed meanwhile need not be whole
	}
	var corrupt *segment.CorruptError
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &corrupt), errors.Is(err, fs.ErrNotExist):
		h.found(err)
	default:
		// Not known to be wrong: the newest segment cannot be read, or no file can.
		// The replica goes on: it may hold what another one has lost.
		n.metrics.unreadable(h.name)
		n.logger.Error("a stored log cannot be read everywhere; look at the disk, and replace this node if it fails", "log", h.name, "error", err)
	}
}
