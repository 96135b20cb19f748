package statemachine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"strandline.dev/client"
)

// applyAtOnce bounds the records that are applied while queries wait.
const applyAtOnce = 256

// pauseAgain is how long the replica waits before it does something again that has failed.
const pauseAgain = time.Second

// follow applies the records of the log until the replica ends. The boot ends at an offset.
func (r *Replica[R]) follow(end int64) {
	done := &progress{Progress: Progress{From: r.Offset(), Applied: r.Offset(), End: end}, hook: r.options.hooks.Progress}
	r.advance(done, done.From)
	inTrouble := false
	for {
		err := r.read(done, func() {
			if inTrouble {
				inTrouble = false
				r.trouble(nil)
			}
		})
		if r.life.Err() != nil {
			return
		}
		if errors.Is(err, client.ErrOffsetTrimmed) {
			r.reboot()
			if !r.live {
				r.advance(done, r.Offset())
			}
			continue
		}
		if errors.Is(err, client.ErrOffsetBeyondEnd) {
			if end, failed := r.client.End(r.life, r.log); failed == nil && r.Offset() > end {
				err = fmt.Errorf("%w: %w", r.ahead("the replica is", r.Offset(), end), err)
			}
		}
		var refused *client.Error
		if !errors.As(err, &refused) || !refused.Retryable {
			r.halt(err)
			return
		}
		inTrouble = true
		r.trouble(err)
		if !pause(r.life, pauseAgain) {
			return
		}
	}
}

// advance reports how far a boot has come, and ends it.
func (r *Replica[R]) advance(done *progress, next int64) {
	done.Applied = min(next, done.End)
	done.report()
	if done.Applied >= done.End {
		r.live = true
		close(r.booted)
	}
}

// reboot continues from a snapshot: others have trimmed what this replica lacks, and have stored one
// before.
func (r *Replica[R]) reboot() {
	replaced := make(chan struct{})
	defer close(replaced)
	r.replace(replaced)
	defer r.replace(nil)
	for {
		_, err := r.boot(r.life, nil)
		if err == nil {
			return
		}
		var refused *client.Error
		if errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrDiverged) || errors.Is(err, ErrAhead) || errors.As(err, &refused) && !refused.Retryable {
			r.halt(err)
			return
		}
		r.trouble(err)
		if !pause(r.life, pauseAgain) {
			return
		}
	}
}

func (r *Replica[R]) replace(replaced chan struct{}) {
	r.state.Lock()
	defer r.state.Unlock()
	r.replacing = replaced
}

// pause waits, and reports false if ctx was done first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read applies the records of one read, which ends with an error. reached is called when it has got
// records.
func (r *Replica[R]) read(done *progress, reached func()) error {
	opts := append([]client.ReaderOption{client.WithFollow()}, r.options.reader...)
	reader, err := r.client.Reader(r.life, r.log, append(opts, client.WithStartOffset(r.Offset()), client.WithLogID(r.logID))...)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		batch, err := reader.NextBatch(r.life)
		if errors.Is(err, io.EOF) {
			return errors.New("the read has an option that ends it: leave it out")
		}
		if err != nil {
			return err
		}
		reached()
		for len(batch) > 0 {
			some := batch[:min(len(batch), applyAtOnce)]
			batch = batch[len(some):]
			if err := r.apply(some, reader.End()); err != nil {
				return err
			}
			if !r.live {
				r.advance(done, some[len(some)-1].Offset+1)
			}
		}
		if r.snapshots != nil {
			r.snapshots.nudge()
		}
	}
}

// apply applies consecutive records. end is that of the log.
func (r *Replica[R]) apply(records []client.Record, end int64) (err error) {
	r.mu.Lock()
	wanted := r.results.Wanted()
	next := r.next
	r.mu.Unlock()
	if records[0].Offset != next {
		return fmt.Errorf("expected the record at offset %d, got offset %d", next, records[0].Offset)
	}
	results := r.scratch[:0]
	r.state.Lock()
	defer r.state.Unlock()
	defer func() {
		if err != nil {
			r.halt(err) // before anybody sees the state, which may be in the middle of a record
		}
	}()
	for i := range records {
		var result R
		if kind, ours := kindOf(&records[i]); ours {
			err = r.applyOurs(kind, &records[i])
		} else {
			result, err = r.machine.Apply(records[i])
		}
		if err != nil {
			return fmt.Errorf("apply the record at offset %d of log %q: %w", records[i].Offset, r.log, err)
		}
		if wanted {
			results = append(results, result)
		}
		if at := records[i].Offset + 1; r.digests.Due(at) {
			if err := r.takeDigest(at); err != nil {
				return err
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if wanted {
		r.results.Add(next, results)
		clear(results)
		r.scratch = results
	}
	r.end = max(r.end, end)
	r.counts.records += int64(len(records))
	r.applied(records[len(records)-1].Offset + 1)
	return nil
}
