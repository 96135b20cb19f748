package kafkaserver

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	nodesettings "strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/kafka/settings"
)

// produced is a Produce request whose batches are with their logs.
type produced struct {
	call    *call
	request *kmsg.ProduceRequest
	parts   []producedPart  // in the order of the request
	one     [1]producedPart // the parts, in the usual case
	waiting atomic.Int32    // parts without an answer, and one while they are handed over
	holding atomic.Int32    // parts whose log may still use the request's memory, and one as above
	encoded bool            // the answer lies in the connection's out
	looked  guard.Looked    // the quotas that parts were taken off
}

// producedPart is the batch for one partition. Nothing in it refers to the
// memory of the request once it is answered.
type producedPart struct {
	of     *produced
	log    string
	append sequence.Append
	batch  [1]record.Batch
	// appendTime is the time that the records were given, in unix ms; 0: none.
	appendTime int64
	// inflated is the maximum inflated size of the batch; 0: it is not compressed.
	inflated int
	// recompressed is the memory that a batch compressed again by the server acquired from the
	// budget.
	recompressed int64
	// answered is set by the goroutine that writes answer and code.
	answered atomic.Bool
	answer   sequence.Answer
	code     int16 // for a part that was refused before the log got it
}

// Acks of a request.
const (
	acksNone   = 0
	acksLeader = 1
	acksAll    = -1
)

// produce passes the batches of a request to their logs and adds the call to the line. With acks=0
// there is no answer and no place in the line.
func (q *call) produce() {
	p := &produced{call: q, request: q.request.(*kmsg.ProduceRequest)}
	q.produced, q.request = p, nil
	n := 0
	for i := range p.request.Topics {
		n += len(p.request.Topics[i].Partitions)
	}
	if p.parts = p.one[:]; n != len(p.one) {
		p.parts = make([]producedPart, n)
	}
	p.waiting.Store(int32(n) + 1)
	p.holding.Store(int32(n) + 1)
	if p.request.Acks != acksNone && !q.connection.line.Join(&q.place) {
		q.buffer.release()
		return
	}
	at := 0
	for i := range p.request.Topics {
		t := &p.request.Topics[i]
		for j := range t.Partitions {
			p.parts[at].hand(p, t.Topic, t.TopicID, t.Partitions[j].Partition, t.Partitions[j].Records)
			t.Partitions[j].Records = nil
			at++
		}
	}
	p.settled()
	p.released()
}

// hand checks the batch for one partition and gives it to its log.
func (part *producedPart) hand(p *produced, topic string, id backend.TopicID, partition int32, records []byte) {
	part.of = p
	s := p.call.connection.server
	caller := p.call.connection.caller()
	var found backend.ByID
	var unknown error
	if p.byID() {
		if found, unknown = backend.FindByID(s.node, p.call.caller(), id); unknown == nil {
			topic = found.Topic
		}
	}
	log, ok := backend.LogOf(topic, partition)
	if ok && p.byID() {
		caller.Log, unknown = found.LogID(log)
	}
	if unknown != nil {
		part.code = protocol.CodeOf(unknown)
	} else if topic == backend.OffsetsTopic {
		part.code = kerr.InvalidTopicException.Code
	} else if !ok {
		part.code = kerr.UnknownTopicOrPartition.Code
	} else if err := s.node.May(p.call.caller(), guard.Append, log); err != nil {
		// First, so that a request which the client may not append costs nothing else.
		part.answer.Refusal = record.RefusalOf(err)
		part.code = protocol.ProduceCode(part.answer.Refusal)
	} else if err := part.check(p, records); err != nil {
		part.answer.Refusal, part.code = err, protocol.ProduceCode(err)
		if batch, _, err := record.Split(records); err == nil && batch.Damaged() {
			part.code = kerr.CorruptMessage.Code
		}
	} else if code := p.refused(); code != 0 {
		part.code = code
	} else if err := part.apply(p.call.connection, s.node.ConfigOf(log)); err != nil {
		part.answer.Refusal, part.code = err, protocol.ProduceCode(err)
	}
	if part.code != 0 {
		p.settled()
		part.released()
		return
	}
	wait, busy := s.node.ChargeAppend(p.call.connection.caller(), log, len(records), &p.looked)
	if p.call.owes(wait); busy != nil {
		part.answer.Refusal, part.code = busy, protocol.ProduceCode(busy)
		p.settled()
		part.released()
		return
	}
	part.log = log
	s.metrics.produced.Add(float64(len(records)))
	var written func(sequence.Answer)
	if p.request.Acks == acksLeader {
		written = part.take
	}
	s.node.Append(caller, log, &part.append, written, part.settle)
}

// byID reports whether the request names topics by their ids.
func (p *produced) byID() bool { return p.request.Version >= 13 }

// apply changes a batch as the settings of its topic want it.
func (part *producedPart) apply(from *connection, c *nodesettings.Config) *record.Refusal {
	s := from.server
	if c == nil || len(c.Settings) == 0 {
		return nil
	}
	if settings.Compacted(c) {
		if err := part.haveKeys(from); err != nil {
			return record.RefusalOf(err)
		}
	}
	if codec, anyCodec := settings.CodecOf(c); !anyCodec && codec != part.batch[0].Compression() {
		var batch record.Batch
		err := s.inflating.Again(from.ctx, from.holder.Load().String(), max(part.inflated, len(part.batch[0])), func() (err error) {
			batch, err = part.batch[0].Recompress(codec)
			return err
		})
		if err != nil {
			return record.RefusalOf(err)
		}
		// It is not waited for: the request holds its share of the budget already.
		if !s.requests.TryAcquire(int64(len(batch))) {
			return record.Refuse(record.Busy, "no memory to compress a batch of %d bytes with %s; try again", len(batch), codec)
		}
		part.recompressed = int64(len(batch))
		part.batch[0], part.append.Bytes = batch, len(batch)
	}
	if c.Settings[settings.TimestampType] == settings.LogAppendTime {
		part.appendTime = time.Now().UnixMilli()
		part.batch[0].SetAppendTime(part.appendTime)
	}
	return nil
}

// haveKeys refuses a batch that has a record without a key. Nothing is compacted here, but clients
// that read a topic with cleanup.policy=compact, or mirror it to a Kafka cluster, rely on keys.
func (part *producedPart) haveKeys(from *connection) error {
	look := func() error {
		for r, err := range part.batch[0].Records {
			if err != nil {
				return err
			}
			if r.Key == nil {
				return record.Refuse(record.Invalid, "a record has no key, which a compacted topic needs (cleanup.policy)")
			}
		}
		return nil
	}
	if part.inflated == 0 {
		return look()
	}
	return from.server.inflating.Again(from.ctx, from.holder.Load().String(), part.inflated, look)
}

// refused is the code of a request that no partition of can be taken, or 0.
func (p *produced) refused() int16 {
	switch q := p.request; {
	case q.Version < 3:
		return kerr.UnsupportedForMessageFormat.Code
	case q.TransactionID != nil:
		return kerr.TransactionalIDAuthorizationFailed.Code
	case q.Acks < acksAll || q.Acks > 1:
		return kerr.InvalidRequiredAcks.Code
	}
	return 0
}

// check builds the append of a batch, and verifies every property that a log relies on.
func (part *producedPart) check(p *produced, records []byte) *record.Refusal {
	if p.request.Version < 3 {
		return nil // its records are of another format, which refused reports
	}
	batch, rest, err := record.Split(records)
	if err == nil {
		from := p.call.connection
		part.inflated, err = from.server.inflating.Check(from.ctx, from.holder.Load().String(), batch)
	}
	if err != nil {
		return record.RefusalOf(err)
	}
	if len(rest) > 0 {
		return record.Refuse(record.Invalid, "%d bytes follow the batch: send one batch for each partition", len(rest))
	}
	part.batch[0] = batch
	part.append = sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: part.batch[:], Records: batch.Count(), Bytes: len(batch),
	}
	id := batch.ProducerID()
	if id < 0 {
		return nil
	}
	epoch, first := batch.ProducerEpoch(), batch.BaseSequence()
	if id == 0 || epoch < 0 || first < 0 {
		return record.Refuse(record.Invalid, "invalid producer id %d, epoch %d or sequence %d", id, epoch, first)
	}
	part.append.Implicit = true
	part.append.Session = record.SessionID(id)
	part.append.Epoch = record.Epoch(epoch)
	part.append.First = record.Sequence(first)
	return nil
}

// settle receives the log's final answer, on any goroutine.
func (part *producedPart) settle(a sequence.Answer) {
	part.take(a)
	part.released()
}

// released gives back what the part holds, when its log is done with it.
func (part *producedPart) released() {
	part.of.call.connection.server.requests.Release(part.recompressed)
	part.recompressed = 0
	part.of.released()
}

// take receives the log's answer; with acks=1 the first of two: the log answers when the records
// are written, and again when they are committed.
func (part *producedPart) take(a sequence.Answer) {
	if part.answered.Swap(true) {
		return
	}
	part.answer = a
	if a.Refusal != nil {
		part.code = protocol.ProduceCode(a.Refusal)
		if part.of.byID() && backend.Replaced(a.Refusal) == backend.ErrNoTopicID {
			part.code = kerr.UnknownTopicID.Code
		}
	}
	part.of.settled()
}

// released counts one part whose log is done with the memory of the request.
func (p *produced) released() {
	if p.holding.Add(-1) == 0 {
		p.call.buffer.release()
	}
}

// settled counts one part that has its answer. After the last, the answer may
// leave.
func (p *produced) settled() {
	if p.waiting.Add(-1) > 0 {
		return
	}
	c := p.call.connection
	if p.request.Acks != acksNone {
		c.line.Answer(&p.call.place)
		return
	}
	// A client that wants no answers learns of a refusal from the end of its connection, as with
	// Kafka. It then looks for the leader.
	for i := range p.parts {
		if part := &p.parts[i]; part.code != 0 {
			c.log("a Kafka connection was closed: an append without acks was refused",
				"client", c.conn.RemoteAddr().String(), "log", part.log, "code", kerr.ErrorForCode(part.code))
			c.cut()
			return
		}
	}
}

func (q *call) answerProduce() {
	p := q.produced
	if p.encoded {
		return
	}
	p.encoded = true
	r := &q.connection.produced
	r.Default()
	r.Version, r.ThrottleMillis = q.version, millis(q.throttle.Wait)
	r.Topics = again(r.Topics, len(p.request.Topics))
	at := 0
	for i := range p.request.Topics {
		t := &p.request.Topics[i]
		out := &r.Topics[i]
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = again(out.Partitions, len(t.Partitions))
		for j := range t.Partitions {
			out.Partitions[j] = kmsg.NewProduceResponseTopicPartition()
			out.Partitions[j].Partition = t.Partitions[j].Partition
			p.parts[at].describe(&out.Partitions[j])
			at++
		}
	}
	q.connection.respond(q, r)
	if len(r.Topics)+at > keptParts {
		*r = kmsg.ProduceResponse{}
	}
}

// again is n elements in the memory of s, unless it is too small.
func again[E any](s []E, n int) []E {
	if n > cap(s) {
		return make([]E, n)
	}
	return s[:n]
}

func (part *producedPart) describe(out *kmsg.ProduceResponseTopicPartition) {
	s := part.of.call.connection.server
	out.ErrorCode = part.code
	out.BaseOffset, out.LogStartOffset = -1, -1
	if part.log != "" && part.code != kerr.TopicAuthorizationFailed.Code {
		// Java's producer needs the start with UNKNOWN_PRODUCER_ID too: without it,
		// it sends the same batch again until its time is up.
		if b, err := s.node.Bounds(backend.System, part.log); err == nil {
			out.LogStartOffset = int64(b.Start)
		}
	}
	if part.code != 0 {
		if r := part.answer.Refusal; r != nil {
			out.ErrorMessage = &r.Detail
		}
		s.metrics.refused(part.code)
		return
	}
	out.BaseOffset = int64(part.answer.First.First)
	if part.appendTime != 0 {
		out.LogAppendTime = part.appendTime
	}
}
