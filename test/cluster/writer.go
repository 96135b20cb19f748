package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"strandline.dev/client"
	"strandline.dev/test/history"
)

// pollTime is the step in which a writer keeps to its rate, and how long it
// waits before it tries again to open a session.
const pollTime = 5 * time.Millisecond

// writer appends the values of one number, in order, over one client.
type writer struct {
	load   *Load
	number int
	client *client.Client

	next int // number of the next record

	mu    sync.Mutex
	heard Report
}

// run appends until ctx ends, and then waits for the answers that are missing.
func (w *writer) run(ctx context.Context) {
	for life := 0; ctx.Err() == nil; life++ {
		p, err := w.client.Producer(ctx, w.load.options.Log, client.WithRequestTimeout(Patience))
		if err == nil {
			err = w.append(ctx, p)
			closing, cancel := WithPatience()
			// The close of a session may fail where no node is left; the
			// records have their answers by then.
			_ = p.Close(closing)
			cancel()
		}
		if ctx.Err() == nil {
			w.note(func(r *Report) { r.Restarts, r.Trouble = r.Restarts+1, cmp.Or(r.Trouble, err) })
			pause(ctx)
		}
	}
}

// append sends records until ctx ends or the producer does.
func (w *writer) append(ctx context.Context, p *client.Producer) error {
	h, name := w.load.history, fmt.Sprint("writer ", w.number)
	h.Note(history.Event{Kind: history.Client, Client: name, InFlight: w.load.options.InFlight})
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
		n := w.next
		w.next++
		value := valueOf(w.number, n, w.load.options.ValueBytes)
		w.note(func(r *Report) { r.Unanswered++ })
		call := h.Invoke(history.Event{
			Client: name, Verb: history.Append, Log: h.log, Deadline: h.Now() + int64(Patience),
			Lane: name, Number: uint64(n), Hashes: history.Hashes{history.Hash(nil, value)},
		})
		err := p.SendFunc(ctx, client.Record{Value: value}, func(offset int64, err error) {
			answer := history.Event{Outcome: history.OK, First: &offset}
			if err != nil {
				answer = OutcomeOf(err)
			}
			call.Return(answer)
			w.note(func(r *Report) { r.count(answer, err) })
			if err == nil {
				w.load.acked.Add(1)
				w.load.pace.Acked(time.Now())
			}
			<-slots
		})
		if err != nil {
			// Not accepted: it is as if it had never been.
			call.Return(history.Event{Outcome: history.Failed, Reason: "NOT_SENT"})
			w.note(func(r *Report) { r.Unanswered-- })
			return err
		}
		sent++
	}
}

func (w *writer) note(change func(*Report)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.heard)
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

// minValueBytes holds what a value names.
const minValueBytes = 16

// valueOf is the value of a record: its writer, its number, and bytes that
// follow from both, so that no part of it can be another's.
//
//	 0  4 writer
//	 4  8 number
//	12  4 check of the above
//	16    the first 16 bytes again and again
func valueOf(writer, number, size int) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(writer))
	head = binary.BigEndian.AppendUint64(head, uint64(number))
	check := fnv.New32a()
	_, _ = check.Write(head)
	head = check.Sum(head)
	return bytes.Repeat(head, size/len(head)+1)[:size]
}
