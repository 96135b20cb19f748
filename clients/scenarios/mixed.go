package scenarios

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/test/history"
)

// Mixed has all clients append to the same logs at once, and read them meanwhile. What each
// was answered becomes a history, to be held against the rules of docs/history.md.
type Mixed struct {
	Addresses []string // of the nodes
	Logs      []string
	History   *history.Recorder
	Records   int64 // how many are acknowledged in all before the clients stop

	acked  atomic.Int64
	counts sync.Map // by the runner's name: *MixedCount
}

// MixedCount is what one client was answered.
type MixedCount struct{ Acked, Failed, Unknown, Read atomic.Int64 }

// mixedBatch and mixedCommands bound what one writer has open: so many commands of so many
// records.
const (
	mixedBatch    = 100
	mixedCommands = 8
	mixedRead     = 1000 // records that one command reads at most
)

// Acked is how many records have been acknowledged.
func (m *Mixed) Acked() int64 { return m.acked.Load() }

// Count is what a client was answered so far.
func (m *Mixed) Count(runner string) *MixedCount {
	c, _ := m.counts.LoadOrStore(runner, new(MixedCount))
	return c.(*MixedCount)
}

// enough reports whether so many have been, and of the client some: a program that has just
// begun may be slower than others are with all of it.
func (m *Mixed) enough(r *Runner) bool {
	return m.Acked() >= m.Records && m.Count(r.name).Acked.Load() > 0
}

// Run returns when so many records have been acknowledged and every client has all its
// answers, and has read each log from the beginning to the end.
func (m *Mixed) Run(ctx context.Context, runners []*Runner) error {
	var running sync.WaitGroup
	errs := make([]error, len(runners)*len(m.Logs)*2)
	begin := func(i int, f func() error) { running.Go(func() { errs[i] = f() }) }
	for _, r := range runners {
		if a, err := r.ask(ctx, "dial", map[string]any{"client": "mixed", "addresses": m.Addresses}); err != nil || a.Error != nil {
			return fmt.Errorf("%s dials: %v: %w", r.name, a.Error, err)
		}
	}
	for i, r := range runners {
		for j, log := range m.Logs {
			written := make(chan struct{})
			begin(2*(i*len(m.Logs)+j), func() error {
				defer close(written)
				w := mixedWriter{mixed: m, runner: r, log: log, name: fmt.Sprintf("%s writes %s", r.name, log)}
				return w.run(ctx)
			})
			begin(2*(i*len(m.Logs)+j)+1, func() error { return m.read(ctx, r, log, written) })
		}
	}
	running.Wait()
	for _, r := range runners {
		_, err := r.ask(ctx, "hang-up", map[string]any{"client": "mixed"})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mixedWriter appends by one client to one log, in order: its records have rising numbers.
type mixedWriter struct {
	mixed    *Mixed
	runner   *Runner
	log      string
	name     string
	producer string // the newest
	next     uint64 // number of the next record
}

// run appends until enough is acknowledged. A producer that has ended is followed by another.
func (w *mixedWriter) run(ctx context.Context) error {
	w.mixed.History.Note(history.Event{Kind: history.Client, Client: w.name, InFlight: mixedBatch * mixedCommands})
	for life := 0; !w.mixed.enough(w.runner) && ctx.Err() == nil; life++ {
		w.producer = fmt.Sprintf("%s %d", w.name, life)
		a, err := w.runner.ask(ctx, "producer", map[string]any{
			"client": "mixed", "producer": w.producer, "log": w.log, "record_timeout_ms": mixedTime.Milliseconds(),
		})
		if err != nil {
			return err
		}
		if a.Error != nil {
			continue // no node can open a session for now
		}
		if err := w.append(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// mixedTime bounds how long a record is tried; less than what an answer may take.
const mixedTime = 30 * time.Second

// append sends commands until enough is acknowledged or the producer fails.
func (w *mixedWriter) append(ctx context.Context) error {
	var open sync.WaitGroup
	var failed atomic.Bool
	var gone atomic.Pointer[error]
	slots := make(chan struct{}, mixedCommands)
	for !w.mixed.enough(w.runner) && !failed.Load() && gone.Load() == nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		values, calls := make([]string, mixedBatch), make([]*history.Call, mixedBatch)
		for i := range values {
			values[i] = fmt.Sprintf("%s: %d", w.name, w.next)
			calls[i] = w.mixed.History.Invoke(history.Event{
				Client: w.name, Verb: history.Append, Log: w.log, Lane: w.name, Number: w.next,
				Hashes: history.Hashes{history.Hash(nil, []byte(values[i]))},
			})
			w.next++
		}
		sent, err := w.runner.send("append", map[string]any{"client": "mixed", "producer": w.producer, "values": values})
		if err != nil {
			return err // the calls stay open: they may have happened
		}
		open.Go(func() {
			defer func() { <-slots }()
			a, err := sent.wait(ctx)
			if err == nil && a.Error != nil {
				err = fmt.Errorf("%s: %v", w.name, a.Error)
			}
			if err != nil {
				gone.Store(&err)
				return
			}
			records, _ := a.Value["records"].([]any)
			for i, call := range calls {
				answer := history.Event{Outcome: history.Unknown}
				if i < len(records) {
					answer = outcomeOf(records[i])
				}
				call.Return(answer)
				if !w.count(answer) {
					failed.Store(true)
				}
			}
		})
	}
	open.Wait()
	if err := gone.Load(); err != nil {
		return *err
	}
	// The end of a session may be refused where no node can answer.
	_, err := w.runner.ask(ctx, "close", map[string]any{"producer": w.producer, "client": "mixed"})
	return err
}

// count reports whether a record was acknowledged.
func (w *mixedWriter) count(answer history.Event) bool {
	c := w.mixed.Count(w.runner.name)
	switch answer.Outcome {
	case history.OK:
		c.Acked.Add(1)
		w.mixed.acked.Add(1)
		return true
	case history.Failed:
		c.Failed.Add(1)
	default:
		c.Unknown.Add(1)
	}
	return false
}

// outcomeOf is what the result of one record says.
func outcomeOf(result any) history.Event {
	of, _ := result.(map[string]any)
	refused, _ := of["error"].(map[string]any)
	reason, _ := refused["reason"].(string)
	switch {
	case refused == nil:
		offset := int64(intOf(of["offset"]))
		return history.Event{Outcome: history.OK, First: &offset}
	case refused["outcome"] == "not_done":
		return history.Event{Outcome: history.Failed, Reason: reason}
	case refused["outcome"] == "done":
		return history.Event{Outcome: history.OK, Reason: reason, Forgotten: true}
	}
	return history.Event{Outcome: history.Unknown, Reason: reason}
}

// read reads a log again and again from where it stopped up to the end, in turn from the
// leader and from a follower, and once more when nothing is appended to it any longer.
func (m *Mixed) read(ctx context.Context, r *Runner, log string, written <-chan struct{}) error {
	name := fmt.Sprintf("%s reads %s", r.name, log)
	var next int64
	for turn := 0; ctx.Err() == nil; turn++ {
		last := false
		select {
		case <-written:
			last = true
		default:
		}
		call := m.History.Invoke(history.Event{Client: name, Verb: history.Read, Log: log, From: new(next)})
		answer, err := m.readToEnd(ctx, r, call, map[string]any{
			"client": "mixed", "reader": name, "log": log, "offset": next, "prefer_follower": turn%2 == 1,
		}, &next)
		if err != nil {
			return err
		}
		call.Return(answer)
		if last && answer.Outcome == history.OK {
			return nil
		}
	}
	return ctx.Err()
}

// readToEnd is one read, and leaves in next the offset that it reached.
func (m *Mixed) readToEnd(ctx context.Context, r *Runner, call *history.Call, with map[string]any, next *int64) (history.Event, error) {
	answer := history.Event{Outcome: history.Failed}
	if a, err := r.ask(ctx, "reader", with); err != nil || a.Error != nil {
		return answer, err
	}
	for {
		a, err := r.ask(ctx, "read", map[string]any{"client": "mixed", "reader": with["reader"], "count": mixedRead})
		if err != nil {
			return answer, err
		}
		if a.Error != nil {
			break
		}
		got := a.Value
		if frame, ok := frameOf(got); ok {
			call.Frame(frame)
			*next = *frame.First + int64(len(frame.Hashes))
			m.Count(r.name).Read.Add(int64(len(frame.Hashes)))
		}
		if got["then"] != nil {
			break
		}
		if got["ended"] == true {
			answer = history.Event{Outcome: history.OK, End: new(*next)}
			break
		}
	}
	_, err := r.ask(ctx, "close-reader", map[string]any{"client": "mixed", "reader": with["reader"]})
	return answer, err
}

// frameOf is what one command has read, and false if that is nothing.
func frameOf(got map[string]any) (history.Event, bool) {
	offsets, _ := got["offsets"].([]any)
	values, _ := got["values"].([]any)
	if len(offsets) == 0 || len(offsets) != len(values) {
		return history.Event{}, false
	}
	hashes := make(history.Hashes, len(values))
	for i, v := range values {
		value, _ := v.(string)
		hashes[i] = history.Hash(nil, []byte(value))
	}
	return history.Event{First: new(int64(intOf(offsets[0]))), Hashes: hashes}, true
}
