package client

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// Reader reads the records of one log in order, each once. The server pushes batches as they are
// stored; the Reader verifies their checksums and cuts them at the bounds of the read. When the
// connection breaks, or the node can no longer serve it, the Reader continues at the next offset
// on another node. It must be used by one goroutine at a time.
//
// Its options determine from which node it reads. By default that is the leader, and the read
// includes everything acknowledged before it began.
type Reader struct {
	client  *Client
	log     string
	options readerOptions
	route   route

	id     uint64 // id of the log; 0: not known before the first frame
	next   int64  // offset of the next record; unplaced until the first frame
	placed bool   // a frame has come
	end    int64  // of the log, as last reported
	age    time.Duration
	hasAge bool
	read   int64 // records given
	took   int64 // bytes of batches received

	frame   wire.ReadFrame // its memory is reused for every frame
	rest    []byte         // batches of the frame that have not been decoded yet
	follows int64          // offset at which rest begins; unplaced: at or below next
	limit   int64          // end of the frame's records
	looked  int64          // with a filter: offset at which the next frame begins
	records []Record       // of the batch decoded last, not returned yet
	memory  []Record       // of records

	// verify is set after a batch was damaged: servers are asked to verify what they send.
	verify bool

	stream  *readStream // nil: not open
	trouble trouble
	failure error // final
}

// unplaced is a next offset that only the server knows yet.
const unplaced = -1

// Reader returns a reader of a log. ctx bounds only the opening, which contacts the server only
// if reading begins at the tail. Other errors, such as LOG_NOT_FOUND or OFFSET_TRIMMED with the
// new start, are returned by Next.
func (c *Client) Reader(ctx context.Context, log string, opts ...ReaderOption) (*Reader, error) {
	o := defaultReaderOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if o.freshness == atLeast && o.atLeast < 0 || o.freshness == bounded && o.maxAge < minStaleness {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "a consistency bound of the read is negative, or its staleness is below 100 ms"}
	}
	r := &Reader{client: c, log: log, options: o, route: o.route(c.peers, log), id: o.log, next: unplaced, looked: unplaced, trouble: noTrouble()}
	switch o.from {
	case fromOffset:
		if o.offset < 0 {
			return nil, &Error{Reason: ErrInvalid.Reason, Message: "the offset of a read is negative"}
		}
		r.next = o.offset
	case fromTail:
		// Determining the tail first fixes its offset, which a broken connection then cannot move.
		end, err := r.tail(ctx)
		if err != nil {
			return nil, err
		}
		r.next, r.end = end, end
	}
	return r, nil
}

// tail returns the end of the log, or the end that the node to be read from knows if that
// suffices.
func (r *Reader) tail(ctx context.Context) (end int64, err error) {
	opener := r.client.opener(r.log)
	if r.options.freshness != anyReplica {
		info, err := opener.info(ctx, r.log, r.id)
		r.id = info.ID
		return info.End, err
	}
	err = opener.callOn(ctx, r.route, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewLogServiceClient(conn).GetInfo(ctx, &strandlinev1.GetInfoRequest{Log: r.log, AllowStale: true, LogId: r.id})
		end, r.id = answer.GetInfo().GetEndOffset(), answer.GetInfo().GetId()
		return err
	})
	return end, err
}

// Next returns the next record. At the end of the requested range the error is io.EOF; with
// WithFollow, Next waits there. Key and Value alias the Reader's memory until the next frame is
// fetched, which any later call of Next may do: use Clone to keep the record. After ctx is done,
// Next may be called again.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for len(r.records) == 0 {
		if err := r.advance(ctx); err != nil {
			return Record{}, err
		}
	}
	next := r.records[0]
	r.records = r.records[1:]
	r.next = next.Offset + 1
	r.read++
	return next, nil
}

// NextBatch returns the rest of a stored batch, at least one record. It is faster than Next, and
// otherwise equivalent. The slice also belongs to the Reader.
func (r *Reader) NextBatch(ctx context.Context) ([]Record, error) {
	for len(r.records) == 0 {
		if err := r.advance(ctx); err != nil {
			return nil, err
		}
	}
	batch := r.records
	r.records = nil
	r.next = batch[len(batch)-1].Offset + 1
	r.read += int64(len(batch))
	return batch, nil
}

// LogID returns the id of the log that is read, or 0 before the first frame, unless WithLogID or
// WithStartAtTail was given. An offset is meaningful only in the log with its id: store both, and
// pass the id to WithLogID.
func (r *Reader) LogID() uint64 { return r.id }

// Offset returns the offset of the next record, or -1 before the first frame if reading begins at
// the start or at a time.
func (r *Reader) Offset() int64 { return r.next }

// End returns the committed end of the log as last reported by a server.
func (r *Reader) End() int64 { return r.end }

// Age returns how old the knowledge of End was when the last frame was made; for a leader, how
// long ago a majority followed it. It is not known before the first frame, or while the node has
// not received anything from a leader.
func (r *Reader) Age() (age time.Duration, known bool) { return r.age, r.hasAge }

// Close ends the read. Records that it returned must not be used afterwards.
func (r *Reader) Close() error {
	r.failure = closed("reader")
	r.records, r.rest = nil, nil
	r.hangUp()
	return nil
}

// advance makes one step towards the next record: it decodes a batch or fetches a frame. An error
// is final unless it is that of ctx.
func (r *Reader) advance(ctx context.Context) error {
	if r.failure == nil && ctx.Err() != nil {
		return cancelled(ctx, NotDone)
	}
	if len(r.rest) == 0 && r.next < r.looked {
		r.next = r.looked
		r.options.onProgress(r.next, r.end)
	}
	switch {
	case r.failure != nil:
	case len(r.rest) > 0:
		r.failure = r.decode()
	case r.done():
		r.failure = io.EOF
	default:
		return r.fetch(ctx)
	}
	if r.failure != nil {
		r.hangUp()
	}
	return r.failure
}

// done reports whether a limit has been reached, which a newly opened stream would not know.
func (r *Reader) done() bool {
	o := &r.options
	return o.maxRecords > 0 && r.read >= o.maxRecords ||
		o.maxBytes > 0 && r.took >= o.maxBytes ||
		o.hasUntil && r.next != unplaced && r.next >= o.until
}

// decode checks the next batch of the frame and decodes the requested part.
func (r *Reader) decode() error {
	batch, rest, err := record.Split(r.rest)
	if err == nil {
		err = batch.VerifyAs(r.options.selects())
	}
	if err == nil {
		err = r.inPlace(batch)
	}
	if err != nil {
		return r.damaged("received " + err.Error())
	}
	r.rest, r.memory, r.follows = rest, r.memory[:0], int64(batch.BaseOffset())+int64(batch.Count())
	for rec, err := range batch.RecordsAs(r.options.selects()) {
		if err != nil {
			return fromRecord(err)
		}
		offset := int64(rec.Offset)
		if offset >= r.limit {
			r.rest = nil
			break
		}
		if offset >= r.next {
			r.memory = append(r.memory, Record{
				Offset: offset, Timestamp: time.UnixMilli(rec.Timestamp),
				Key: rec.Key, Value: rec.Value, Headers: rec.Headers,
			})
		}
	}
	r.records = r.memory
	return nil
}

// damaged drops the rest of a wrong frame. A server may send what it verified some time ago, so
// the first time it is asked for the same data again, verified.
func (r *Reader) damaged(what string) error {
	if r.verify {
		return &Error{Reason: ErrCorrupt.Reason, Message: what}
	}
	r.verify = true
	r.took -= int64(len(r.rest))
	r.rest, r.looked = nil, r.next
	r.hangUp()
	return nil
}

// checkOffsets checks that the batches of a frame follow each other and contain what it
// announces, or more if the read is limited: their checksums do not cover their offsets.
func checkOffsets(f *wire.ReadFrame, limited bool) error {
	next, end := int64(unplaced), f.First+int64(f.Count)
	for rest := f.Batches; len(rest) > 0; {
		batch, more, err := record.Split(rest)
		if err != nil {
			return err
		}
		first := int64(batch.BaseOffset())
		if next == unplaced && first > f.First || next != unplaced && first != next {
			return fmt.Errorf("expected the batch at offset %d, got offset %d", max(next, f.First), first)
		}
		next, rest = int64(batch.End()), more
	}
	if next < end || next > end && !limited {
		return fmt.Errorf("the batches of a frame end at offset %d, the frame at %d", next, end)
	}
	return nil
}

// inPlace checks that the offset of a batch of a selection is in order and within its frame.
// checkOffsets has checked other frames.
func (r *Reader) inPlace(batch record.Batch) error {
	first := int64(batch.BaseOffset())
	if !r.options.selects() || first >= r.follows && first < r.limit {
		return nil
	}
	return fmt.Errorf("expected the batch at offset %d, got offset %d", max(r.follows, r.next), first)
}

// fetch receives one frame, or repairs the stream so that the next call can.
func (r *Reader) fetch(ctx context.Context) error {
	peer, err := r.receive(ctx)
	switch {
	case err == nil:
		if r.trouble.count > 0 {
			r.client.options.onTrouble(r.log, nil)
			r.trouble = noTrouble()
		}
		r.failure = r.take()
	case ctx.Err() != nil:
		r.hangUp()
		return cancelled(ctx, NotDone)
	case err == io.EOF && (!r.options.follow || r.options.limited()):
		r.failure = io.EOF
	case err == io.EOF:
		return r.recover(ctx, peer, unreachable(NotDone, "the server ended the stream"))
	default:
		return r.recover(ctx, peer, err)
	}
	if r.failure != nil {
		r.hangUp()
	}
	return r.failure
}

// recover decides, after a stream could not be opened or broke, whether to try another, and
// pauses before that.
func (r *Reader) recover(ctx context.Context, peer *peer, err error) error {
	reached := r.stream != nil
	r.hangUp()
	failure := r.trouble.renewal.once(r.client.failure(err))
	width := 1
	move := failure.elsewhere() || r.onlyHere(failure)
	if move {
		r.route.elsewhere(peer, failure)
		width = r.route.width(failure)
	}
	if !move && !failure.again() || !r.trouble.worthAnother(failure, reached, r.placed, width, r.client.options.retryTime) {
		r.failure = failure
		return r.failure
	}
	r.client.options.onTrouble(r.log, failure)
	if r.trouble.count > 1 && r.trouble.pauses.between(ctx, peer, width) != nil {
		return cancelled(ctx, NotDone)
	}
	return nil
}

// onlyHere marks a refusal as final for its node, if another replica may succeed: the node lags
// behind what this reader has seen, or its copy is damaged.
func (r *Reader) onlyHere(failure *Error) bool {
	switch failure.Reason {
	case ErrOffsetBeyondEnd.Reason:
		return r.next != unplaced && r.next <= r.end
	case ErrCorrupt.Reason:
		return r.route.width(failure) > 1
	}
	return false
}

// receive fills the frame, from a new stream if there is none.
func (r *Reader) receive(ctx context.Context) (*peer, error) {
	if r.stream == nil {
		peer, err := r.route.connect(ctx)
		if err != nil {
			return peer, err
		}
		if r.stream, err = openReadStream(ctx, r.client.peers, r.route, peer, r.request(), r.options.silence()); err != nil {
			return peer, err
		}
	}
	stream := r.stream
	err := stream.receive(ctx, &r.frame)
	if err == nil && stream.over {
		r.hangUp()
	}
	return stream.peer, err
}

// take accepts the received frame.
func (r *Reader) take() error {
	f := &r.frame
	if r.id == 0 {
		r.id = f.LogID
	}
	if f.LogID != r.id {
		return replaced(r.log, r.id, f.LogID)
	}
	if r.next == unplaced {
		r.next = f.First
	}
	if f.First > r.next || f.First < 0 || f.Count < 0 || f.First > math.MaxInt64-int64(f.Count) {
		return &Error{Reason: ErrCorrupt.Reason, Message: "received a frame that does not follow the one before"}
	}
	if r.options.selects() && !f.HasNext {
		return &Error{Reason: ErrUnsupported.Reason, Message: "the server does not support filters and projections: it needs a later version"}
	}
	// Another replica may know less, but what was committed stays committed.
	r.end, r.placed = max(r.end, f.End), true
	r.age, r.hasAge = f.Age, f.HasAge
	if f.HasNext {
		return r.takeSelected()
	}
	if f.Count == 0 {
		return nil
	}
	r.rest, r.follows, r.limit = f.Batches, unplaced, f.First+int64(f.Count)
	r.took += int64(len(f.Batches))
	if err := checkOffsets(f, r.options.limited()); err != nil {
		return r.damaged("received " + err.Error())
	}
	if o := &r.options; o.hasUntil {
		r.limit = min(r.limit, o.until)
	}
	if o := &r.options; o.maxRecords > 0 {
		r.limit = min(r.limit, r.next+o.maxRecords-r.read)
	}
	return nil
}

// takeSelected accepts the frame of a read with a filter, whose bounds the server has applied.
func (r *Reader) takeSelected() error {
	f := &r.frame
	if f.Next < f.First || f.Count > 0 && len(f.Batches) == 0 {
		return &Error{Reason: ErrCorrupt.Reason, Message: "received a frame that ends before it begins, or lacks its records"}
	}
	r.rest, r.follows, r.limit, r.looked = f.Batches, unplaced, f.Next, f.Next
	r.took += int64(len(f.Batches))
	r.options.report(f.Failed, r.next)
	return nil
}

// request returns the request for what has not been returned yet.
func (r *Reader) request() *strandlinev1.ReadRequest {
	o := &r.options
	q := &strandlinev1.ReadRequest{
		Log: r.log, LogId: r.id, Follow: o.follow, Format: strandlinev1.ReadFormat_READ_FORMAT_BATCHES,
		Heartbeat: durationpb.New(o.heartbeat), Verify: r.verify,
	}
	switch {
	case r.next != unplaced:
		q.From = &strandlinev1.ReadRequest_Offset{Offset: r.next}
	case o.from == fromTime:
		q.From = &strandlinev1.ReadRequest_Time{Time: timestamppb.New(o.time)}
	default:
		q.From = &strandlinev1.ReadRequest_Position{Position: strandlinev1.ReadPosition_READ_POSITION_START}
	}
	o.askFor(q)
	o.choose(q)
	o.bound(q, r.read, r.took)
	return q
}

func (r *Reader) hangUp() {
	if r.stream != nil {
		r.stream.cancel()
		r.stream = nil
	}
}
