package reading

import (
	"context"
	"slices"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

const (
	// maxLookBytes bounds what is read of the log, and inflated, to decide one check.
	maxLookBytes = 16 << 20
	// maxLookTime bounds the time for that, with the wait for what was in flight when the log began
	// to keep keys.
	maxLookTime = time.Second

	lookChunk    = 1 << 20
	lookInflated = 4 << 20
)

// LookBack searches the committed records below those whose keys the leader keeps for a match of
// a check. It raises Since to where the search has ended, or sets Found. The leader decides: what
// was not searched it refuses, and an append that is a duplicate it accepts.
func LookBack(replica *runtime.Replica, c *sequence.Check, reads *budget.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), maxLookTime)
	defer cancel()
	from, leads, err := replica.KeepKeys(ctx)
	if err != nil || !leads || c.Since >= from || !reads.TryAcquire(runtime.ChunkRoom) {
		return
	}
	defer reads.Release(runtime.ChunkRoom)
	// What was in flight when it began to keep keys is among neither, until it has committed.
	awaitCommitted(ctx, replica, from)
	_, end, err := replica.Tail().Bounds()
	if err != nil {
		return
	}
	l := look{check: c, reader: replica.NewReader(c.Since), at: c.Since, until: end, left: maxLookBytes}
	defer l.reader.Close()
	l.useSummaries()
	for l.at < end && l.left > 0 && l.at <= replica.KeysFrom() && ctx.Err() == nil && c.Found == nil {
		if !l.step(ctx) {
			break
		}
	}
	c.Since = l.at
}

func awaitCommitted(ctx context.Context, r *runtime.Replica, offset record.Offset) {
	for {
		start, end, err := r.Tail().Bounds()
		if err != nil || end >= offset {
			return
		}
		changed := r.Tail().Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// look is one search. No record in [check.Since, at) matches.
type look struct {
	check     *sequence.Check
	reader    *runtime.Reader
	query     *segment.KeyQuery // nil: key summaries say nothing about the check
	at, until record.Offset
	left      int // bytes that may still be read
	inflated  []byte
}

// useSummaries makes the query for key summaries. A query of both keys and prefixes selects
// records with both, while a check looks for either, so keys take the place of prefixes there.
func (l *look) useSummaries() {
	keys, prefixes, ok := l.check.Keys()
	if !ok {
		return
	}
	if len(prefixes) > 0 {
		keys, prefixes = nil, slices.Concat(prefixes, keys)
	}
	l.query = segment.NewKeyQuery(keys, prefixes)
}

// step skips segments or searches a chunk. It reports false if the search cannot continue.
func (l *look) step(ctx context.Context) bool {
	if l.query != nil {
		before := l.query.Read
		to, segments := l.reader.Skip(ctx, l.query, l.until, 0)
		l.left -= l.query.Read - before
		if segments > 0 {
			l.at = to
			return true
		}
	}
	chunk, err := l.reader.Next(l.until, lookChunk)
	if err != nil || len(chunk.Entries) == 0 {
		return false
	}
	defer chunk.Release()
	for i := range chunk.Entries {
		e, err := record.ParseEntry(chunk.Entries[i].Payload)
		if err != nil || !l.search(e.Body) {
			return false
		}
		l.left -= len(e.Body)
		l.at = min(max(l.at, e.End()), l.until)
	}
	return true
}

// search looks at a run of batches. It reports false if one cannot be read, or after a match.
func (l *look) search(run []byte) bool {
	for len(run) > 0 {
		b, rest, err := record.Split(run)
		if err != nil {
			return false
		}
		run = rest
		var w record.Walk
		memory, err := w.Begin(b, l.inflated, lookInflated)
		if err != nil {
			return false
		}
		l.inflated = memory[:0]
		if b.Compression() != record.None {
			l.left -= len(memory)
		}
		for w.Next() {
			o := w.Offset()
			if o < l.at || o >= l.until || !l.check.Matches(&w) {
				continue
			}
			l.check.Found = &sequence.Match{Offset: o, Key: slices.Clone(w.Key())}
			return false
		}
		if w.Err() != nil {
			return false
		}
	}
	return true
}
