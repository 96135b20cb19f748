package grpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc/mem"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

const (
	// scanFrom is the size from which a request is scanned before it is decoded: it may have a
	// record for each two bytes. Below this size, even the worst request decodes into 400 KiB,
	// until its records are in batches.
	scanFrom = 4 << 10

	// askFrom is the size from which the right to append is checked before each request is decoded,
	// instead of with the append.
	askFrom = 64 << 10

	// The memory of a decoded record, and of a decoded header, in plain form.
	recordCost = 192
	headerCost = 96

	// maxDecoded bounds what a request may decode into.
	maxDecoded = 128 << 20

	// batchTarget is the size at which plain records are cut into batches: just below the limit of
	// an entry, so that a batch fits into one together with its metadata.
	batchTarget = record.EntryTargetBytes - 4<<10
)

// mayAppend refuses a caller that may not append before its request costs more than the received
// bytes. It checks the requests of a stream until one is allowed, and every large request, because
// rights may be revoked. All others are checked with the append itself. The first request sets the
// log of the stream even if it is refused, so that later requests, which name no log, get their own
// refusal.
func (in *incoming) mayAppend(data mem.BufferSlice, size int) *record.Refusal {
	if in.s.log == "" {
		const logField, longest = 1, 1 << 10
		log, ok := rpc.Name(data, logField, longest)
		if !ok {
			return record.Refuse(record.Invalid, "the first request of a stream must name the log, before the batches or records")
		}
		in.s.log = log
	} else if in.allowed && size <= askFrom {
		return nil
	}
	refusal := in.s.mayAppend(in.s.log)
	in.allowed = in.allowed || refusal == nil
	return refusal
}

func (s *appendStream) mayAppend(log string) *record.Refusal {
	return record.RefusalOf(s.node.May(s.caller, guard.Append, log))
}

// decodedCost returns the memory that a received request will need. A request that would need too
// much is refused, and charged for its bytes.
func decodedCost(data mem.BufferSlice, size int) (int64, *record.Refusal) {
	if size <= scanFrom {
		return int64(size) + rpc.RequestCost, nil
	}
	const recordField, headerField = 10, 5
	const checkedField, keyField, prefixField, conditionField, checkedRecordField = 12, 2, 3, 4, 6
	records := rpc.CountFields(data, recordField)
	headers := 0
	if records > 0 {
		headers = rpc.CountFields(data, recordField, headerField)
	}
	if rpc.CountFields(data, checkedField) > 0 {
		conditions := rpc.CountFields(data, checkedField, keyField) + rpc.CountFields(data, checkedField, prefixField) + rpc.CountFields(data, checkedField, conditionField)
		if conditions > sequence.MaxCheckConditions {
			r := record.Refuse(record.TooLarge, "the check has %d keys, prefixes and headers, the limit is %d", conditions, sequence.MaxCheckConditions)
			r.Limit = sequence.MaxCheckConditions
			return int64(size), r
		}
		records += rpc.CountFields(data, checkedField, checkedRecordField)
		headers += rpc.CountFields(data, checkedField, checkedRecordField, headerField)
	}
	cost := int64(size) + rpc.RequestCost + int64(records)*recordCost + int64(headers)*headerCost
	if cost > maxDecoded {
		r := record.Refuse(record.TooLarge, "a request of %d records with %d headers in %d bytes needs too much memory to decode; "+
			"send fewer, or send batches", records, headers, size)
		r.Limit = maxDecoded
		return int64(size), r
	}
	return cost, nil
}

// check builds the append of a request, and verifies every property that a log relies on.
func (s *appendStream) check(ctx context.Context, w *appendWork) *record.Refusal {
	q := &w.request
	if s.log == "" {
		s.log = q.Log
	}
	expected := sequence.NoExpectation
	if q.HasExpectedEnd {
		expected = record.Offset(q.ExpectedEnd)
	}
	switch {
	case s.log == "":
		return record.Refuse(record.Invalid, "the first request of a stream must name the log")
	case q.Log != "" && q.Log != s.log:
		return record.Refuse(record.Invalid, "the request names log %q, but the stream is of log %q; open another stream", q.Log, s.log)
	case q.HasExpectedEnd && expected < 0:
		return record.Refuse(record.Invalid, "expected end %d is below 0", expected)
	case len(q.Batches) > 0 && len(q.Records) > 0:
		return record.Refuse(record.Invalid, "the request has both batches and records: send one of them")
	case q.Mixed:
		return record.Refuse(record.Invalid, "the request has records both in checked and outside it: send one of them")
	}
	w.append = sequence.Append{
		Session:     record.SessionID(q.SessionID),
		Epoch:       record.Epoch(q.Epoch),
		First:       record.Sequence(q.FirstSequence),
		LowWater:    record.Sequence(q.LowWater),
		WriterTerm:  record.WriterTerm(q.WriterTerm),
		ExpectedEnd: expected,
		Atomic:      q.Atomic,
		Batches:     w.append.Batches[:0],
	}
	var err error
	if q.Check != nil {
		if w.append.Check, err = checkOf(q.Check); err != nil {
			return record.RefusalOf(err)
		}
		q.Check = nil // it may hold more memory than the append, and only the append is charged from here on
		w.append.Atomic = true
	}
	if len(q.Records) > 0 {
		err = s.encoder.encode(w, q.Records)
		w.encoded()
	} else {
		err = s.split(ctx, w, q.Batches)
	}
	return record.RefusalOf(err)
}

func checkOf(c *strandlinev1.CheckedAppend) (*sequence.Check, error) {
	var headers []record.Header
	for _, h := range c.Headers {
		headers = append(headers, record.Header{Key: h.GetKey(), Value: h.GetValue()})
	}
	return sequence.NewCheck(record.Offset(c.Since), c.Keys, c.KeyPrefixes, headers)
}

// split adds the batches of a request one by one.
func (s *appendStream) split(ctx context.Context, w *appendWork, run []byte) error {
	if len(run) == 0 {
		return record.Refuse(record.Invalid, "the request has no records")
	}
	for len(run) > 0 {
		batch, rest, err := record.Split(run)
		if err != nil {
			return err
		}
		if batch.Compression() == record.None {
			err = batch.Check()
		} else {
			err = s.checkCompressed(ctx, batch)
		}
		if err != nil {
			return err
		}
		w.add(batch)
		run = rest
	}
	return nil
}

// checkCompressed is like Batch.Check, for a batch that must be inflated. It first checks the right
// to append.
func (s *appendStream) checkCompressed(ctx context.Context, b record.Batch) error {
	if refusal := s.mayAppend(s.log); refusal != nil {
		return refusal
	}
	by := ""
	if s.caller.By != nil {
		by = s.caller.By.String()
	}
	_, err := s.server.Inflating.Check(ctx, by, b)
	return err
}

// encoded drops the records, which are in batches now, and counts these in their place. Where there
// is no room for more than is counted, the next request waits.
func (w *appendWork) encoded() {
	w.request.Records = nil
	more := int64(w.append.Bytes) + rpc.RequestCost - w.charged
	if w.append.Check != nil {
		more += int64(w.append.Check.Bytes())
	}
	if more > 0 && !w.server.Appends.TryAcquire(more) {
		return
	}
	if more < 0 {
		w.server.Appends.Release(-more)
	}
	w.charged += more
}

func (w *appendWork) add(b record.Batch) {
	w.append.Batches = append(w.append.Batches, b)
	w.append.Records += b.Count()
	w.append.Bytes += len(b)
}

// encoder turns plain records into batches. It belongs to one stream.
type encoder struct {
	builder record.Builder
	headers []record.Header
}

func (e *encoder) encode(w *appendWork, records []*strandlinev1.Record) error {
	now := time.Now().UnixMilli()
	e.builder.Reset(w.request.Batches)
	w.request.Batches = nil
	for i, r := range records {
		encoded, err := e.convert(r, now)
		if err != nil {
			return err
		}
		size := record.MaxEncodedSize(encoded.Key, encoded.Value, encoded.Headers)
		if e.builder.Count() > 0 && e.builder.Size()+size > batchTarget {
			if err := e.finish(w); err != nil {
				return err
			}
			e.builder.Reset(make([]byte, 0, min(batchTarget, (len(records)-i)*size)))
		}
		if err := e.builder.Add(encoded); err != nil {
			return err
		}
	}
	return e.finish(w)
}

func (e *encoder) finish(w *appendWork) error {
	b, err := e.builder.Finish(record.None)
	if err != nil {
		return err
	}
	if len(w.append.Batches) == 0 {
		w.request.Batches = b // its memory is used again
	}
	w.add(b)
	return nil
}

// convert makes a record out of a message, whose memory it shares.
func (e *encoder) convert(r *strandlinev1.Record, now int64) (record.Record, error) {
	out := record.Record{Timestamp: now, Key: r.GetKey(), Value: r.GetValue()}
	if t := r.GetTimestamp(); t != nil {
		if err := t.CheckValid(); err != nil {
			return out, record.Refuse(record.Invalid, "timestamp of a record: %v", err)
		}
		out.Timestamp = t.AsTime().UnixMilli()
	}
	e.headers = e.headers[:0]
	for _, h := range r.GetHeaders() {
		e.headers = append(e.headers, record.Header{Key: h.GetKey(), Value: h.GetValue()})
	}
	out.Headers = e.headers
	return out, nil
}
