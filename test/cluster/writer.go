package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"strandline.dev/client"
	"strandline.dev/test/history"
)

// fate is what became of a record: the offset it was acknowledged at, or one of
// the values below.
type fate int64

const (
	unanswered fate = -1 - iota
	failed          // certainly not in the log
	unknown         // perhaps in the log
	forgotten       // in the log, somewhere
)

// pollTime is the step in which a writer keeps to its rate, and how long it
// waits before it tries again to open a session.
const pollTime = 5 * time.Millisecond

// writer appends the values of one number, in order, over one client.
type writer struct {
	load   *Load
	number int
	client *client.Client

	mu       sync.Mutex
	fates    []fate // by the number of the record
	other    error  // first answer that was no ack
	restarts int
	trouble  error // why it had to begin again first
}

// run appends until ctx ends, and then waits for the answers that are missing.
func (w *writer) run(ctx context.Context) {
	for life := 0; ctx.Err() == nil; life++ {
		p, err := w.client.Producer(ctx, w.load.options.Log, client.WithRequestTimeout(patience))
		if err == nil {
			err = w.append(ctx, p)
			closing, cancel := withPatience()
			// The close of a session may fail where no node is left; the
			// records have their answers by then.
			_ = p.Close(closing)
			cancel()
		}
		if ctx.Err() == nil {
			w.noteRestart(err)
			pause(ctx)
		}
	}
}

// append sends records until ctx ends or the producer does.
func (w *writer) append(ctx context.Context, p *client.Producer) error {
	told, name := w.load.told, fmt.Sprint("writer ", w.number)
	told.Note(history.Event{Kind: history.Client, Client: name, InFlight: w.load.options.InFlight})
	slots := make(chan struct{}, w.load.options.InFlight)
	begin, sent := time.Now(), 0
	for {
		for rate := w.load.options.Rate; rate > 0 && float64(sent) >= time.Since(begin).Seconds()*float64(rate); {
			if pause(ctx) != nil {
				return nil
			}
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		n := w.begin()
		value := valueOf(w.number, n, w.load.options.ValueBytes)
		call := told.Invoke(history.Event{
			Client: name, Verb: history.Append, Log: told.log, Deadline: told.Now() + int64(patience),
			Lane: name, Number: uint64(n), Hashes: history.Hashes{history.Hash(nil, value)},
		})
		err := p.SendFunc(ctx, client.Record{Value: value}, func(offset int64, err error) {
			if err == nil {
				call.Return(history.Event{Outcome: history.OK, First: &offset})
			} else {
				call.Return(OutcomeOf(err))
			}
			w.answer(n, offset, err)
			<-slots
		})
		if err != nil {
			// Not accepted: it is as if it had never been.
			call.Return(history.Event{Outcome: history.Failed, Reason: "NOT_SENT"})
			w.takeBack(n)
			return err
		}
		sent++
	}
}

// begin gives the next record its number.
func (w *writer) begin() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = append(w.fates, unanswered)
	return len(w.fates) - 1
}

// takeBack forgets record n, the newest.
func (w *writer) takeBack(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = w.fates[:n]
}

func (w *writer) answer(n int, offset int64, err error) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.fates[n] = fate(offset)
		w.load.acked.Add(1)
		w.load.pace.Acked(now)
		return
	}
	if w.other == nil {
		w.other = err
	}
	var e *client.Error
	switch {
	case !errors.As(err, &e):
		w.fates[n] = unknown
	case e.Outcome == client.NotDone:
		w.fates[n] = failed
	case e.Outcome == client.Done:
		w.fates[n] = forgotten
	default:
		w.fates[n] = unknown
	}
}

func (w *writer) noteRestart(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarts++
	if w.trouble == nil {
		w.trouble = err
	}
}

func (w *writer) addTo(r *Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.fates {
		switch f {
		case unanswered:
			r.Unanswered++
		case failed:
			r.Failed++
		case unknown:
			r.Unknown++
		case forgotten:
			r.Forgotten++
		default:
			r.Acked++
		}
	}
	r.Restarts += w.restarts
	if r.Trouble == nil {
		r.Trouble = w.trouble
	}
	if r.FirstOther == nil {
		r.FirstOther = w.other
	}
}

// pause waits a little, or until ctx ends.
func pause(ctx context.Context) error {
	select {
	case <-time.After(pollTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
