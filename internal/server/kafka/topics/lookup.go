package topics

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// Special times of ListOffsets.
const (
	TimeLatest        = -1
	TimeEarliest      = -2
	TimeNewest        = -3 // of the record with the latest time
	TimeEarliestLocal = -4 // of what is not in a remote store: there is none
	TimeLatestRemote  = -5 // of what is in one
	TimeNotYetRemote  = -6 // the first that will be copied there
)

// ListOffsets finds the offsets that belong to times.
func (s *Topics) ListOffsets(q *backend.Call, m *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	paying := *q
	paying.PayBy = time.Now().Add(maxLookupPays)
	q = &paying
	r := kmsg.NewPtrListOffsetsResponse()
	r.Topics = make([]kmsg.ListOffsetsResponseTopic, len(m.Topics))
	var looking backend.Lookups
	for i := range m.Topics {
		t, out := &m.Topics[i], &r.Topics[i]
		out.Default()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, out := &t.Partitions[j], &out.Partitions[j]
			out.Default()
			out.Partition, out.Offset, out.Timestamp, out.LeaderEpoch = p.Partition, -1, -1, -1
			looking.Add(func() {
				if err := s.listOffset(q, t.Topic, p, out); err != nil {
					out.ErrorCode, out.Offset, out.Timestamp = protocol.CodeOf(err), -1, -1
				}
			})
		}
	}
	looking.Run()
	return r
}

func (s *Topics) listOffset(q *backend.Call, topic string, p *kmsg.ListOffsetsRequestTopicPartition, out *kmsg.ListOffsetsResponseTopicPartition) error {
	if backend.IsOffsetsTopic(q.Node, topic, p.Partition) {
		if p.Timestamp == TimeLatest || p.Timestamp == TimeEarliest {
			out.Offset = 0
		}
		return nil
	}
	log, b, err := q.Complete(topic, p.Partition, p.CurrentLeaderEpoch)
	if err != nil {
		return err
	}
	out.LeaderEpoch = int32(b.Term)
	switch {
	case p.Timestamp == TimeLatest:
		out.Offset = int64(b.End)
	case p.Timestamp == TimeEarliest, p.Timestamp == TimeEarliestLocal:
		out.Offset = int64(b.Start)
	case p.Timestamp == TimeNewest:
		found, err := s.Newest.Find(q, log, b)
		if err != nil {
			return err
		}
		out.Offset, out.Timestamp = int64(found.Offset), found.Timestamp
	case p.Timestamp == TimeLatestRemote, p.Timestamp == TimeNotYetRemote:
		out.LeaderEpoch = -1 // no offset
	case p.Timestamp < 0:
		return kerr.InvalidRequest
	default:
		found, err := firstSince(q, log, p.Timestamp)
		if err != nil {
			return err
		}
		out.Offset, out.Timestamp = int64(found.Offset), found.Timestamp
	}
	return nil
}

// firstSince finds the first record whose time, by its producer's clock, is
// unixMs or later; offset -1 if there is none.
//
// Logs are ordered by the leader's time, which a record is not older than by
// its producer's clock if both clocks are right. So the search begins at that
// time, and continues from there through records that claim to be older, for
// maxTimeScan bytes, or until it would have to wait too long for what it inflates. Then it returns the position that it
// has reached: a reader that begins there misses nothing that a longer search would have found.
func firstSince(q *backend.Call, log string, unixMs int64) (record.Record, error) {
	none := record.Record{Offset: -1, Timestamp: -1}
	r, err := q.Node.Read(q.Ctx, q.System(), log, reading.Request{
		From: reading.From{Kind: reading.FromTime, Time: unixMs}, Until: reading.NoOffset, Metered: true, PayBy: q.PayBy,
	})
	if err != nil {
		return none, err
	}
	defer r.Close()
	reached := none
	for scanned := 0; ; {
		chunk, err := r.Next(q.Ctx)
		var refusal *record.Refusal
		switch {
		case errors.Is(err, io.EOF):
			return none, nil
		case errors.As(err, &refusal) && refusal.Reason == record.Busy && reached.Offset >= 0:
			return reached, nil
		case err != nil:
			return none, err
		}
		found, ok, err := firstOf(q.Ctx, &chunk, unixMs)
		if err != nil || ok {
			return found, err
		}
		if found.Offset >= 0 {
			reached = found
		}
		if scanned += chunk.Bytes; scanned > maxTimeScan && reached.Offset >= 0 {
			return reached, nil
		}
	}
}

// firstOf finds the record in a chunk, or returns the chunk's last; offset -1: it has left all to the next chunk.
func firstOf(ctx context.Context, c *reading.Chunk, unixMs int64) (found record.Record, ok bool, err error) {
	found.Offset = -1
	defer func() {
		c.Taken()
		c.Release()
	}()
	for r, err := range c.Records(ctx) {
		c.Taken() // the records before r
		if err != nil {
			return found, false, err
		}
		found = record.Record{Offset: r.Offset, Timestamp: r.Timestamp}
		if r.Timestamp >= unixMs {
			return found, true, nil
		}
	}
	return found, false, nil
}

// OffsetForLeaderEpoch returns to a consumer the end of a leader epoch: records that it has read
// beyond this end are not in the log. Records that were served never leave the log, so the answer
// always confirms the consumer's position.
func OffsetForLeaderEpoch(q *backend.Call, m *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	r := kmsg.NewPtrOffsetForLeaderEpochResponse()
	r.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(m.Topics))
	var looking backend.Lookups
	for i := range m.Topics {
		t, out := &m.Topics[i], &r.Topics[i]
		out.Default()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, out := &t.Partitions[j], &out.Partitions[j]
			out.Default()
			out.Partition, out.LeaderEpoch, out.EndOffset = p.Partition, -1, -1
			looking.Add(func() {
				epoch, end, err := endOfEpoch(q, t.Topic, p)
				if err != nil {
					out.ErrorCode = protocol.CodeOf(err)
					return
				}
				out.LeaderEpoch, out.EndOffset = epoch, int64(end)
			})
		}
	}
	looking.Run()
	return r
}

// endOfEpoch finds the newest epoch that is not above the one asked for, and
// the offset at which it ended. Leader epochs rise along the log, so it is a
// search for the first batch of a later one.
func endOfEpoch(q *backend.Call, topic string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition) (int32, record.Offset, error) {
	log, b, err := q.Complete(topic, p.Partition, p.CurrentLeaderEpoch)
	if err != nil {
		return 0, 0, err
	}
	switch wanted := p.LeaderEpoch; {
	case wanted > int32(b.Term) || wanted < 0:
		return -1, -1, nil
	case wanted == int32(b.Term):
		return wanted, b.End, nil
	}
	low, high, epoch := b.Start, b.End, int32(-1)
	for low < high {
		middle := low + (high-low)/2
		batch, err := batchAt(q, log, middle)
		if err != nil {
			return 0, 0, err
		}
		if batch.LeaderEpoch() <= p.LeaderEpoch {
			low, epoch = max(batch.End(), middle+1), batch.LeaderEpoch()
		} else {
			high = min(batch.BaseOffset(), middle)
		}
	}
	if epoch < 0 {
		epoch = p.LeaderEpoch // trimmed, with all before it
	}
	return epoch, max(low, b.Start), nil
}

// batchAt reads the header of the batch that holds an offset.
func batchAt(q *backend.Call, log string, at record.Offset) (record.Batch, error) {
	r, err := q.Node.Read(q.Ctx, q.System(), log, reading.Request{
		From: reading.From{Kind: reading.FromOffset, Offset: at}, Until: at + 1, MaxRecords: 1, Metered: true,
	})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c, err := r.Next(q.Ctx)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	batch, _, err := record.Split(c.Parts[0])
	if err != nil {
		return nil, record.Refuse(record.Corrupt, "stored batch at offset %d: %v", at, err)
	}
	return append(record.Batch(nil), batch[:record.BatchHeaderSize]...), nil
}
