package sim

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

// operation is what a whole history says of one record, read or trim. Its times
// are lines of the history, as the world has one thread.
type operation struct {
	verb history.Verb
	// began is the line before which it did not happen, ended the one after which
	// it had, or never.
	began, ended int
	offset       int64          // of the record; what a trim asks for; where a read begins
	hashes       history.Hashes // of the record; of what was read
	start, end   int64          // as a read got them; a trim gets the start
	least        int64          // in a window: where the log ends at least when it happens
}

// never is the end of what may still happen.
const never = math.MaxInt

// window is a part of a history, small enough for a search. If the whole history
// is linearizable, so is the window:
//
//   - What was reported before it holds in it.
//   - A read or trim is judged if it begins and ends in it.
//   - A trim that began before, or was not answered in it, may have happened, and
//     whoever gets that answer is right.
//   - A record is judged if it came to its offset in it, and an answer in it said
//     that the log goes so far.
//   - Where records that began before are the first that come, nobody knows which of
//     them were there already.
type window struct {
	operations []operation
	// Bounds that the log had reached, as reported before, and what the end may have
	// been at most: all records between began before.
	start, end, most int64
	before           map[int64]uint64 // records below most: offset to hash
	trims            []operation      // that may have happened
}

// windows cuts a history into windows of so many lines. It leaves out those with
// offsets of which no answer said what is there: a record that was trimmed
// before it was read, and never acknowledged; or none, after a fast-forward.
func windows(t *testing.T, text []byte, lines int) (all []window, leftOut int) {
	t.Helper()
	whole, total := operations(t, text)
	for from := 0; from+lines <= total; from += lines {
		if w, known := cut(whole, from, from+lines); known {
			all = append(all, w)
		} else {
			leftOut++
		}
	}
	return all, leftOut
}

// operations reads a history: one operation for each record that anybody was answered
// the offset of, which may have been sent several times.
func operations(t *testing.T, text []byte) (all []operation, lines int) {
	t.Helper()
	type name struct {
		client string
		call   uint64
	}
	calls := map[name]*operation{}
	var order []*operation
	records := map[uint64]*operation{}
	note := func(hash uint64, offset int64) {
		if r := records[hash]; r != nil && r.ended == never {
			r.ended, r.offset = lines, offset
		}
	}
	for in := history.NewReader(history.Input{Name: "history", Reader: bytes.NewReader(text)}); ; lines++ {
		e, _, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		c := calls[name{e.Client, e.Call}]
		switch e.Kind {
		case history.Invoke:
			c = &operation{verb: e.Verb, began: lines, ended: never, hashes: e.Hashes}
			calls[name{e.Client, e.Call}] = c
			switch e.Verb {
			case history.Append:
				for _, hash := range e.Hashes {
					if records[hash] == nil {
						records[hash] = &operation{verb: e.Verb, began: lines, ended: never, hashes: history.Hashes{hash}}
						order = append(order, records[hash])
					}
				}
			case history.Trim:
				c.offset = e.Before
				order = append(order, c)
			case history.Read:
				if e.Consistency == history.Linearizable {
					order = append(order, c)
				}
			}
		case history.Frame:
			for i, hash := range e.Hashes {
				note(hash, *e.First+int64(i))
			}
			c.offset, c.hashes, c.start, c.end = *e.First, e.Hashes, *e.Start, *e.End
		case history.Return:
			switch {
			case e.Outcome == history.Failed:
				c.verb = "" // it never happened
			case e.Outcome == history.Unknown:
			case c.verb == history.Append:
				require.Empty(t, e.Ranges, "a world sends the same records again, not others")
				for i, hash := range c.hashes {
					if e.First != nil {
						note(hash, *e.First+int64(i))
					}
				}
			case c.verb == history.Trim:
				c.ended, c.start = lines, *e.Start
			default:
				c.ended = lines
			}
		}
	}
	for _, o := range order {
		if o.verb == history.Trim || o.verb != "" && o.ended != never {
			all = append(all, *o)
		}
	}
	return all, lines
}

// cut gives what happens from one line to before another, if all is known of it.
func cut(whole []operation, from, to int) (w window, known bool) {
	w.before = map[int64]uint64{}
	acked := map[int64]*operation{} // by offset
	for i := range whole {
		o := &whole[i]
		if o.verb == history.Append {
			acked[o.offset] = o
		}
		if o.ended >= from {
			continue
		}
		switch o.verb {
		case history.Append:
			w.before[o.offset] = o.hashes[0]
			w.end = max(w.end, o.offset+1)
		case history.Read:
			w.start, w.end = max(w.start, o.start), max(w.end, o.end)
		case history.Trim:
			w.start = max(w.start, o.start)
		}
	}
	for w.most = w.end; acked[w.most] != nil && acked[w.most].began < from; {
		w.most++
	}
	var early []operation
	end := w.end // as far as anybody sees in the window
	for _, o := range whole {
		inside := from <= o.began && o.ended < to
		switch {
		case o.ended < from || o.began >= to:
		case o.verb == history.Trim && !inside:
			w.trims = append(w.trims, o)
		case o.verb == history.Read && !inside:
		case o.verb == history.Append && o.began < from && o.offset < w.most:
			w.before[o.offset] = o.hashes[0]
			early = append(early, o)
		default:
			w.operations = append(w.operations, o)
			switch {
			case o.verb == history.Read:
				end = max(end, o.end)
			case o.verb == history.Trim:
				end = max(end, o.offset)
			case o.ended < to:
				end = max(end, o.offset+1)
			}
		}
	}
	for offset := w.end; offset < end; offset++ {
		if acked[offset] == nil {
			return window{}, false
		}
	}
	for i := range w.operations {
		o := &w.operations[i]
		for _, e := range early {
			if e.ended < o.began {
				o.least = max(o.least, e.offset+1)
			}
		}
	}
	w.operations = slices.DeleteFunc(w.operations, func(o operation) bool { return o.verb == history.Append && o.offset >= end })
	return w, true
}

// linearizable asks porcupine.
func (w window) linearizable() bool {
	var all []porcupine.Operation
	for i, o := range w.operations {
		all = append(all, porcupine.Operation{ClientId: i, Input: o, Call: int64(o.began), Return: int64(o.ended)})
	}
	return porcupine.CheckOperations(w.model(), all)
}
