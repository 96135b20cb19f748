package wire

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// ReadFrame represents a strandline.v1.ReadResponse in READ_FORMAT_BATCHES, or
// a heartbeat. A server sends Parts; a client receives Batches.
type ReadFrame struct {
	LogID      uint64
	First      int64 // offset of the first record
	Count      int32 // records; 0: a heartbeat
	End, Start int64 // of the log
	// Age is how old the value of End may be, at least 0; HasAge is false if that is unknown.
	Age    time.Duration
	HasAge bool
	// Next is the offset at which the next frame begins, for a read with a filter or a projection;
	// HasNext is false for other reads. Failed are records on which the expression failed.
	Next    int64
	HasNext bool
	Failed  []*strandlinev1.FailedRecord

	// Parts are runs of whole batches to send. SendMsg references them, even
	// after it has returned: they must not change before Sent is called.
	Parts [][]byte
	// Sent, if set, is called when gRPC has no more use for Parts. It is not
	// called if a part is so small that gRPC does not count its uses.
	Sent func()
	// Batches are the received batches, in one piece. RecvMsg copies them into the memory that
	// Batches already has, if that is large enough: a reader that passes the same frame again
	// allocates nothing, and what it took from the frame before is overwritten. DecodeInPlace
	// leaves them where they are.
	Batches []byte
}

func (m *ReadFrame) encode() (mem.BufferSlice, error) {
	size := 0
	for _, part := range m.Parts {
		size += len(part)
	}
	head, rest := m.Around(size)
	out := make(mem.BufferSlice, 0, 2+len(m.Parts))
	out = append(out, mem.SliceBuffer(head))
	if m.Sent == nil || slices.ContainsFunc(m.Parts, uncounted) {
		for _, part := range m.Parts {
			out = append(out, mem.SliceBuffer(part))
		}
		return appendPart(out, rest), nil
	}
	uses := &uses{sent: m.Sent}
	uses.left.Store(int32(len(m.Parts)))
	for i := range m.Parts {
		out = append(out, mem.NewBuffer(&m.Parts[i], uses))
	}
	return appendPart(out, rest), nil
}

// Around encodes the parts of the message before and after a number of bytes of batches.
func (m *ReadFrame) Around(size int) (head, tail []byte) {
	head = make([]byte, 0, 96)
	head = appendVarint(head, 1, uint64(m.First))
	head = appendVarint(head, 2, uint64(m.Count))
	head = appendVarint(head, 3, uint64(m.End))
	head = appendVarint(head, 4, uint64(m.Start))
	head = appendVarint(head, 7, m.LogID)
	if size > 0 {
		head = protowire.AppendTag(head, 6, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(size))
	}
	n := len(head)
	head = m.appendRest(head)
	return head[:n:n], head[n:]
}

// appendRest appends the fields that stand behind the batches.
func (m *ReadFrame) appendRest(b []byte) []byte {
	if m.HasAge {
		var age [maxDuration]byte
		inner := appendVarint(age[:0], 1, uint64(m.Age/time.Second))
		inner = appendVarint(inner, 2, uint64(m.Age%time.Second))
		b = protowire.AppendTag(b, 10, protowire.BytesType)
		b = protowire.AppendBytes(b, inner)
	}
	if m.HasNext {
		b = protowire.AppendTag(b, 20, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(m.Next))
	}
	for _, f := range m.Failed {
		inner := appendVarint(nil, 1, uint64(f.Offset))
		if f.Message != "" {
			inner = protowire.AppendTag(inner, 2, protowire.BytesType)
			inner = protowire.AppendString(inner, f.Message)
		}
		b = protowire.AppendTag(b, 21, protowire.BytesType)
		b = protowire.AppendBytes(b, inner)
	}
	return b
}

func appendPart(out mem.BufferSlice, part []byte) mem.BufferSlice {
	if len(part) == 0 {
		return out
	}
	return append(out, mem.SliceBuffer(part))
}

// uncounted: gRPC does not call back for what is too small to be pooled.
func uncounted(part []byte) bool { return mem.IsBelowBufferPoolingThreshold(cap(part)) }

// uses is the pool from which gRPC believes that parts were taken. It counts those
// that gRPC returns to it.
type uses struct {
	left atomic.Int32
	sent func()
}

// Get is never called: the pool only receives buffers.
func (u *uses) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

func (u *uses) Put(*[]byte) {
	if u.left.Add(-1) == 0 {
		u.sent()
	}
}

// Counted reports whether gRPC calls Sent for a frame with these parts.
func Counted(parts [][]byte) bool { return len(parts) > 0 && !slices.ContainsFunc(parts, uncounted) }

func (m *ReadFrame) decode(c *cursor) error {
	*m = ReadFrame{Batches: m.Batches[:0]}
	for c.left > 0 {
		number, kind, err := c.field()
		switch {
		case err != nil:
		case number == 6 && kind == protowire.BytesType:
			m.Batches, err = c.bytes(m.Batches)
		case (number >= 1 && number <= 4 || number == 7) && kind == protowire.VarintType:
			var v uint64
			v, err = c.varint()
			m.setNumber(number, v)
		case number == 10 && kind == protowire.BytesType && !m.HasAge:
			m.Age, err = c.duration()
			m.HasAge = true
		case number == 20 && kind == protowire.VarintType:
			var v uint64
			v, err = c.varint()
			m.Next, m.HasNext = int64(v), true
		default:
			err = errUnusual
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DecodeInPlace decodes a frame encoded by Codec or an equivalent encoder. Batches then refer to
// data.
func (m *ReadFrame) DecodeInPlace(data []byte) error {
	m.Batches = nil
	err := m.decode(&cursor{piece: data, left: len(data), inPlace: true})
	if errors.Is(err, errUnusual) {
		m.Batches = nil // it may refer to data
		return Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m)
	}
	return err
}

// maxDuration is the most that a google.protobuf.Duration takes, encoded the
// way everybody does.
const maxDuration = 2 * (1 + 10)

// duration reads a google.protobuf.Duration that is not negative.
func (c *cursor) duration() (time.Duration, error) {
	n, err := c.length()
	if err != nil || n > maxDuration {
		return 0, errUnusual
	}
	var encoded [maxDuration]byte
	rest := encoded[:n]
	c.copy(rest)
	var parts [3]uint64 // seconds and nanoseconds, by their field numbers
	for len(rest) > 0 {
		number, kind, tag := protowire.ConsumeTag(rest)
		if tag < 0 || kind != protowire.VarintType || number > 2 {
			return 0, errUnusual
		}
		value, size := protowire.ConsumeVarint(rest[tag:])
		if size < 0 {
			return 0, errUnusual
		}
		parts[number], rest = value, rest[tag+size:]
	}
	if parts[1] >= uint64(math.MaxInt64/time.Second) || parts[2] >= uint64(time.Second) {
		return 0, errUnusual
	}
	return time.Duration(parts[1])*time.Second + time.Duration(parts[2]), nil
}

func (m *ReadFrame) setNumber(number protowire.Number, v uint64) {
	switch number {
	case 1:
		m.First = int64(v)
	case 2:
		m.Count = int32(v)
	case 3:
		m.End = int64(v)
	case 4:
		m.Start = int64(v)
	case 7:
		m.LogID = v
	}
}

func (m *ReadFrame) generated() proto.Message { return new(strandlinev1.ReadResponse) }

func (m *ReadFrame) take(from proto.Message) {
	g := from.(*strandlinev1.ReadResponse)
	*m = ReadFrame{
		LogID: g.LogId, First: g.FirstOffset, Count: g.RecordCount, End: g.EndOffset, Start: g.StartOffset,
		Age: max(g.Age.AsDuration(), 0), HasAge: g.Age != nil,
		Next: g.GetNextOffset(), HasNext: g.NextOffset != nil, Failed: g.Failed,
		Batches: append(m.Batches[:0], g.Batches...),
	}
}
