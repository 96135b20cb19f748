package reading

import (
	"context"
	"slices"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

const (
	// maxLookBytes bounds what is read of the log, and inflated, to decide one check, however often it comes.
	maxLookBytes = 16 << 20
	// maxLookTime bounds the time of a search, including waits for memory, for turns, for an
	// earlier search of the same holder, and for appends that were in flight when the log began to
	// keep keys.
	maxLookTime = time.Second
	// longestLookPause is the longest pause for each MiB: all of a search take half of its time.
	longestLookPause = 31 * time.Millisecond

	lookChunk = 1 << 20
	// lookRoom is the memory of a search, and lookInflated its additional memory from the first
	// compressed batch on, both from the node's memory for reads.
	lookRoom     = runtime.ChunkRoom
	lookInflated = 4 << 20
	// lookedInTurn is the number of records examined between two checks of the turn's time.
	lookedInTurn = 64
)

// LookBack searches the committed records of a log below those whose keys the leader keeps for a match of
// a check, and sets Check.Search. A search that has lacked time or memory continues when the check comes
// again. The leader decides: it refuses a range that was not searched, and accepts a duplicate append.
func LookBack(of Source, c *sequence.Check) {
	ctx, cancel := context.WithTimeout(context.Background(), maxLookTime)
	defer cancel()
	from, leads, err := of.Replica.KeepKeys(ctx)
	if err == nil && (!leads || c.Since >= from) {
		return
	}
	q := sought{of.ID, of.Replica.Status().Term, c.Digest()}
	begin := of.Turns.searches.resume(q, c.Since)
	c.Search.To = begin.to
	if err == nil {
		// Appends that were in flight when the log began to keep keys are in neither place until
		// they have committed.
		_, _, err = of.Replica.Tail().AwaitBounds(ctx, func(_, end record.Offset) bool { return end >= from })
	}
	if err == nil {
		err = of.Turns.searches.lanes.Acquire(ctx, of.Turns.holder)
	}
	if err != nil {
		c.Search.Lacked = sequence.LackedTime
		return
	}
	defer of.Turns.searches.lanes.Release(of.Turns.holder)
	if of.Turns.searches.places.Acquire(ctx, of.Turns.holder) != nil {
		c.Search.Lacked = sequence.LackedMemory
		return
	}
	defer of.Turns.searches.places.Release()
	if of.Reads.Acquire(ctx, lookRoom) != nil {
		c.Search.Lacked = sequence.LackedMemory
		return
	}
	defer of.Reads.Release(lookRoom)
	of.Turns.searches.ended(q, c, look(ctx, of, c, begin.left))
}

// look searches from Check.Search.To on, and returns how many of the bytes that it may read are left.
func look(ctx context.Context, of Source, c *sequence.Check, left int) int {
	_, end, err := of.Replica.Tail().Bounds()
	if err != nil {
		return left
	}
	l := looking{
		Source: of, check: c, reader: of.Replica.NewReader(c.Search.To), at: c.Search.To, until: end, left: left,
		pacer: pacer{pace: of.Pace, intake: of.Intake, most: longestLookPause}, memory: inflated.Get().(*[]byte),
	}
	defer l.end()
	l.useSummaries()
	for l.at < end && l.left > 0 && l.at <= of.Replica.KeysFrom() && ctx.Err() == nil && l.step(ctx) {
	}
	if c.Search.To = l.at; l.left > 0 && ctx.Err() != nil && c.Search.Lacked == "" {
		c.Search.Lacked = sequence.LackedTime
	}
	return l.left
}

// looking is one search. No record in [check.Since, at) matches.
type looking struct {
	Source
	check     *sequence.Check
	reader    *runtime.Reader
	pacer     pacer
	turn      turn
	query     *segment.KeyQuery // nil: key summaries cannot exclude segments for this check
	at, until record.Offset
	left      int     // bytes that may still be read
	memory    *[]byte // that batches are inflated into
	inflates  bool    // it has taken lookInflated
}

func (l *looking) end() {
	l.reader.Close()
	inflated.Put(l.memory)
	if l.inflates {
		l.Reads.Release(lookInflated)
	}
}

// useSummaries prepares the query for key summaries. A query with both keys and prefixes selects
// records that match both, while a check looks for either, so keys then become prefixes.
func (l *looking) useSummaries() {
	keys, prefixes, ok := l.check.Keys()
	if !ok {
		return
	}
	if len(prefixes) > 0 {
		keys, prefixes = nil, slices.Concat(prefixes, keys)
	}
	l.query = segment.NewKeyQuery(keys, prefixes)
}

// step skips segments or searches a chunk. It reports false if the search cannot continue, or has found
// a match.
func (l *looking) step(ctx context.Context) bool {
	paced := l.Log.Appending()
	if l.query != nil {
		before := l.query.Read
		to, segments := l.reader.Skip(ctx, l.query, l.until, 0)
		read := l.query.Read - before
		l.left -= read
		if paced && l.pacer.hold(ctx, read) != nil {
			return false
		}
		if segments > 0 {
			l.at = to
			return true
		}
	}
	size := lookChunk
	if paced {
		size = pacedChunkBytes
	}
	chunk, err := l.reader.Next(l.until, size)
	if err != nil || len(chunk.Entries) == 0 {
		return false
	}
	defer chunk.Release()
	defer l.turn.end()
	read := 0
	for i := range chunk.Entries {
		e, err := record.ParseEntry(chunk.Entries[i].Payload)
		if err != nil || !l.search(ctx, e.Body) {
			return false
		}
		read += len(e.Body)
		l.at = min(max(l.at, e.End()), l.until)
	}
	l.left -= read
	l.turn.end()
	return !paced || !chunk.Stored() || l.pacer.hold(ctx, read) == nil
}

// search examines a run of batches. It returns false if a batch cannot be read, after a match, and
// when ctx has ended.
func (l *looking) search(ctx context.Context, run []byte) bool {
	for len(run) > 0 {
		b, rest, err := record.Split(run)
		if err != nil || !l.hasRoom(ctx, b) || !l.inTurn(ctx) {
			return false
		}
		run = rest
		var w record.Walk
		memory, err := w.Begin(b, *l.memory, lookInflated)
		if err != nil {
			return false
		}
		if b.Compression() != record.None {
			*l.memory = memory[:0]
			l.left -= len(memory)
		}
		for looked := 1; w.Next(); looked++ {
			if looked%lookedInTurn == 0 && !l.inTurn(ctx) {
				return false
			}
			o := w.Offset()
			if o < l.at || o >= l.until || !l.check.Matches(&w) {
				continue
			}
			l.check.Search.Found = &sequence.Match{Offset: o, Key: slices.Clone(w.Key())}
			return false
		}
		if w.Err() != nil {
			return false
		}
	}
	return true
}

// hasRoom waits for the memory that a compressed batch is inflated into. It reports false when ctx has ended.
func (l *looking) hasRoom(ctx context.Context, b record.Batch) bool {
	if l.inflates || b.Compression() == record.None {
		return true
	}
	l.turn.end()
	if l.Reads.Acquire(ctx, lookInflated) != nil {
		l.check.Search.Lacked = sequence.LackedMemory
		return false
	}
	l.inflates = true
	return true
}

// inTurn takes a turn, or passes it on after its time and takes another. It returns false when ctx
// has ended.
func (l *looking) inTurn(ctx context.Context) bool {
	if l.turn.held && !l.turn.over() {
		return true
	}
	l.turn.end()
	return ctx.Err() == nil && l.turn.begin(ctx, l.Turns) == nil
}
