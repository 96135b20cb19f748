package chaos

import (
	"context"
	"errors"
	"time"

	"strandline.dev/client"
	"strandline.dev/test/history"
)

// pipelineDepth is how many records of a pipeline wait for their answers.
const pipelineDepth = 32

// producing gives the life a producer.
func (v *life) producing(log string, opts []client.ProducerOption, f func(*client.Producer)) {
	v.with(func(c *client.Client) {
		p, err := c.Producer(v.ctx, log, append(opts, client.WithRequestTimeout(answerTime))...)
		if err != nil {
			return
		}
		f(p)
		// Records have their answers; a session may outlive a close that fails.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
}

// pipeline sends one record after the other, and does not wait for answers.
func pipeline(v *life) {
	v.load.recorder.Note(history.Event{Kind: history.Client, Client: v.name, InFlight: pipelineDepth})
	compression := []client.Compression{client.None, client.Zstd, client.Snappy}[v.dice.IntN(3)]
	v.producing(ordersLog, []client.ProducerOption{client.WithCompression(compression)}, func(p *client.Producer) {
		slots := make(chan struct{}, pipelineDepth)
		for number := uint64(0); v.ctx.Err() == nil; number++ {
			slots <- struct{}{}
			records, hashes := v.records(1)
			call := v.load.recorder.Invoke(history.Event{
				Client: v.name, Verb: history.Append, Log: ordersLog, Deadline: v.deadline(), Lane: v.name, Number: number, Hashes: hashes,
			})
			err := p.SendFunc(context.Background(), records[0], func(offset int64, err error) {
				v.returned(call, err, history.Event{First: &offset})
				if err == nil {
					v.load.acknowledged(ordersLog, 1, offset+1)
				}
				<-slots
			})
			if err != nil {
				call.Return(history.Event{Outcome: history.Failed, Reason: "NOT_SENT"})
				<-slots
				break
			}
			wait(v.ctx, time.Duration(v.dice.IntN(4))*time.Millisecond)
		}
		for range pipelineDepth {
			slots <- struct{}{} // every answer is there
		}
	})
}

// bulk appends batches of many records, one after the other.
func bulk(v *life) {
	v.producing(ordersLog, nil, func(p *client.Producer) {
		begun, number := time.Now(), uint64(0)
		for v.ctx.Err() == nil {
			if rate := float64(v.load.rate); rate > 0 && float64(number) >= time.Since(begun).Seconds()*rate {
				wait(v.ctx, 5*time.Millisecond)
				continue
			}
			records, hashes := v.records(1 + v.dice.IntN(100))
			event := history.Event{Lane: v.name, Number: number}
			number += uint64(len(records))
			if _, err := v.append(p, ordersLog, event, records, hashes); errors.Is(err, client.ErrClosed) {
				return
			}
		}
	})
}

// bulky appends batches that are large enough for nodes to send them from files, about a MiB in a second.
func bulky(v *life) {
	v.producing(bulkyLog, nil, func(p *client.Producer) {
		for number := uint64(0); v.ctx.Err() == nil; {
			records, hashes := v.recordsOf(4, 80_000)
			_, err := v.append(p, bulkyLog, history.Event{Lane: v.name, Number: number}, records, hashes)
			if errors.Is(err, client.ErrClosed) {
				return
			}
			number += uint64(len(records))
			wait(v.ctx, 150*time.Millisecond)
		}
	})
}

// append appends records with one call that says more about itself in event.
func (v *life) append(p *client.Producer, log string, event history.Event, records []client.Record, hashes history.Hashes) (int64, error) {
	var opts []client.AppendOption
	if event.ExpectedEnd != nil {
		opts = append(opts, client.WithExpectedEnd(*event.ExpectedEnd))
	}
	event.Client, event.Verb, event.Log, event.Deadline, event.Hashes = v.name, history.Append, log, v.deadline(), hashes
	call := v.load.recorder.Invoke(event)
	first, err := p.AppendBatch(context.Background(), records, opts...)
	v.returned(call, err, history.Event{First: &first})
	if err == nil {
		v.load.acknowledged(log, len(records), first+int64(len(records)))
	} else {
		wait(v.ctx, 5*time.Millisecond)
	}
	return first, err
}

// claim appends where it believes that the log ends, as others do.
func claim(v *life) {
	v.producing(claimsLog, nil, func(p *client.Producer) {
		for end := v.load.ends[claimsLog].Load(); v.ctx.Err() == nil; {
			records, hashes := v.records(1 + v.dice.IntN(3))
			first, err := v.append(p, claimsLog, history.Event{ExpectedEnd: &end}, records, hashes)
			var e *client.Error
			switch {
			case err == nil:
				end = first + int64(len(records))
			case errors.Is(err, client.ErrEndMismatch) && errors.As(err, &e):
				end = e.End
			case errors.Is(err, client.ErrClosed):
				return
			default:
				end = v.load.ends[claimsLog].Load()
			}
			wait(v.ctx, time.Duration(v.dice.IntN(10))*time.Millisecond)
		}
	})
}

// fenced takes the log over, appends for a while, and is fenced by the others.
func fenced(v *life) {
	v.with(func(c *client.Client) {
		for v.ctx.Err() == nil {
			call := v.load.recorder.Invoke(history.Event{Client: v.name, Verb: history.Writer, Log: fencedLog})
			ctx, cancel := context.WithTimeout(context.Background(), answerTime)
			term, end, err := c.Admin().AcquireWriter(ctx, fencedLog)
			cancel()
			v.returned(call, err, history.Event{Writer: term, End: &end})
			if err == nil {
				v.reign(c, term)
			}
			wait(v.ctx, time.Duration(v.dice.IntN(300))*time.Millisecond)
		}
	})
}

func (v *life) reign(c *client.Client, term uint64) {
	p, err := c.Producer(v.ctx, fencedLog, client.WithWriterTerm(term), client.WithRequestTimeout(answerTime))
	if err != nil {
		return
	}
	for range 1 + v.dice.IntN(100) {
		records, hashes := v.records(1 + v.dice.IntN(3))
		if _, err := v.append(p, fencedLog, history.Event{Writer: term}, records, hashes); err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = p.Close(ctx)
}

// trim keeps the logs short.
func trim(v *life) {
	v.with(func(c *client.Client) {
		for v.ctx.Err() == nil {
			for _, log := range logs {
				if before := v.load.ends[log].Load() - int64(kept(log)); before > 0 {
					v.trimTo(c, log, before)
				}
			}
			wait(v.ctx, trimPeriod)
		}
	})
}

// trimTo trims a log, or as far as a hold lets it.
func (v *life) trimTo(c *client.Client, log string, before int64) {
	var e *client.Error
	if err := v.trimOnce(c, log, before); errors.Is(err, client.ErrHeld) && errors.As(err, &e) && e.Hold != nil {
		v.load.did.count("trims that a hold refused")
		if e.Hold.Offset > 0 {
			_ = v.trimOnce(c, log, e.Hold.Offset)
		}
	}
}

func (v *life) trimOnce(c *client.Client, log string, before int64) error {
	call := v.load.recorder.Invoke(history.Event{Client: v.name, Verb: history.Trim, Log: log, Before: before})
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	start, end, err := c.Admin().Trim(ctx, log, before, false)
	v.returned(call, err, history.Event{Start: &start, End: &end})
	return err
}
