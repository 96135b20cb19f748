package reading

import (
	"context"
	"errors"
	"sync"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

const (
	// inflatedBytes is the size up to which a batch may inflate in a reader's turn without being
	// counted. A larger one counts as inflateRoom in the node's memory for reads while it is inflated.
	inflatedBytes = 4 << 20
	inflateRoom   = record.MaxInflatedBytes * 9 / 4

	// smallInflated bounds what a batch inflates to without a turn. It has no excess either.
	smallInflated = 64 << 10
)

// smallMemory is memory for batches that take no turn.
var smallMemory = sync.Pool{New: func() any { return new(make([]byte, 0, smallInflated)) }}

// inflations are the batches that a reader has inflated and whose records its client has not taken.
// They belong to the goroutine that walks over the records.
type inflations struct {
	held []*charge
	at   bool // a record of the newest is at hand
}

// release ends the charges of those that are not at hand any more.
func (i *inflations) release() {
	done := len(i.held)
	if i.at {
		done--
	}
	if done <= 0 {
		return
	}
	for _, c := range i.held[:done] {
		c.release()
	}
	i.held = append(i.held[:0], i.held[done:]...)
}

// inflated yields the records of a compressed batch. It is an iter.Seq2. selected: a filter has inflated the batch, and it is
// inflated again whatever is owed.
func (f *metered) inflated(ctx context.Context, b record.Batch, selected bool) func(func(record.Record, error) bool) {
	return func(yield func(record.Record, error) bool) {
		var w record.Walk
		if err := f.inflate(ctx, &w, b, selected); err != nil {
			yield(record.Record{}, err)
			return
		}
		f.inflations.at = true
		defer func() { f.inflations.at = false }()
		for w.Next() {
			if r := w.Record(); w.Err() == nil && !yield(r, nil) {
				return
			}
		}
		if w.Err() != nil {
			yield(record.Record{}, w.Err())
		}
	}
}

// inflate begins a walk over a compressed batch. Only what inflates to little is inflated without a turn. So no more than
// that of each reader, and as much as there are turns, is inflated and not counted. The error may be errOwes.
func (f *metered) inflate(ctx context.Context, w *record.Walk, b record.Batch, selected bool) error {
	if err := f.inflateSmall(w, b); !errors.Is(err, record.ErrInflatesBeyond) {
		return err
	}
	most := record.MaxInflatedBytes
	if !selected {
		most = f.payments.most(b)
	}
	var t turn
	if err := t.begin(ctx, f.turns); err != nil {
		return err
	}
	defer t.end()
	memory := inflated.Get().(*[]byte)
	defer inflated.Put(memory)
	counted, grown, err := f.inflateTo(most, w, b, *memory)
	switch {
	case err != nil:
		return err
	case counted > 0:
		f.hold(counted)
		return nil
	}
	*memory = grown[:0]
	return f.keep(w, b, grown)
}

// inflateTo begins a walk over a compressed batch that inflates to most, in memory, or in memory of its own, of which it has
// counted bytes in the node's memory for reads. The error is errOwes if the batch inflates to more, and may only do so later.
func (f *metered) inflateTo(most int, w *record.Walk, b record.Batch, memory []byte) (counted int64, grown []byte, err error) {
	grown, err = w.Begin(b, memory, min(inflatedBytes, most))
	if errors.Is(err, record.ErrInflatesBeyond) && most > inflatedBytes {
		counted, grown, err = inflateLarge(w, b, f.reads, most)
	}
	switch {
	case err == nil:
		f.payments.inflated(b, len(grown))
	case errors.Is(err, record.ErrInflatesBeyond) && most < record.MaxInflatedBytes:
		f.payments.due = true
		err = errOwes
	}
	return counted, grown, err
}

// inflateSmall is inflate for a batch that inflates to little. The error is record.ErrInflatesBeyond for others.
func (f *metered) inflateSmall(w *record.Walk, b record.Batch) error {
	limit := min(smallInflated, ordinaryGrowth*len(b))
	if !b.ClaimsAtMost(limit) {
		return record.ErrInflatesBeyond
	}
	memory := smallMemory.Get().(*[]byte)
	defer smallMemory.Put(memory)
	grown, err := w.Begin(b, *memory, limit)
	if err != nil {
		return err
	}
	return f.keep(w, b, grown)
}

// keep counts what a batch was inflated to, and copies it: a client may take any time for it.
func (f *metered) keep(w *record.Walk, b record.Batch, grown []byte) error {
	counted := min(int64(len(grown)), f.reads.Size()/2)
	if !f.reads.TryAcquire(counted) {
		return noRoomFor(b)
	}
	w.Keep()
	f.hold(counted)
	return nil
}

// hold makes what was acquired for a batch a charge of the client.
func (f *metered) hold(counted int64) {
	f.inflations.held = append(f.inflations.held, f.given.add(f.reads, counted))
}

// inflateLarge begins a walk over a batch that inflates to more than inflatedBytes, and at most to most. Before, it counts
// as much as that may take, and afterwards what it has taken, which the caller releases: at most half of the
// memory for reads, so that any batch can be read.
func inflateLarge(w *record.Walk, b record.Batch, reads *budget.Pool, most int) (counted int64, memory []byte, err error) {
	room := min(int64(inflateRoom), reads.Size()/2)
	if !reads.TryAcquire(room) {
		return 0, nil, noRoomFor(b)
	}
	memory, err = w.Begin(b, nil, most)
	if err == nil {
		counted = min(int64(cap(memory)), room)
	}
	reads.Release(room - counted)
	return counted, memory, err
}

func noRoomFor(b record.Batch) error {
	return record.Refuse(record.Busy, "no memory to decompress the batch at offset %d; continue the read later", b.BaseOffset())
}
