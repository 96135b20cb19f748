package wire

import (
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// AppendRequest represents strandline.v1.AppendRequest.
type AppendRequest struct {
	Log            string
	SessionID      uint64
	Epoch          uint32
	FirstSequence  uint64
	LowWater       uint64
	WriterTerm     uint64
	ExpectedEnd    int64 // meaningful if HasExpectedEnd
	HasExpectedEnd bool
	Atomic         bool
	// Batches are whole batches, one after the other. SendMsg references them:
	// they must not change until the request has been answered on the same
	// stream. RecvMsg copies them once, into the memory that Batches already has
	// if that is large enough, else into new memory: a receiver that is done with
	// a request may pass the same message again.
	Batches []byte
	Records []*strandlinev1.Record
	LogID   uint64
	Explain bool
}

func (m *AppendRequest) encode() (mem.BufferSlice, error) {
	// Most streams name the log once, so 96 bytes hold all other fields.
	head := make([]byte, 0, 96+len(m.Log))
	if m.Log != "" {
		head = protowire.AppendTag(head, 1, protowire.BytesType)
		head = protowire.AppendString(head, m.Log)
	}
	head = appendVarint(head, 2, m.SessionID)
	head = appendVarint(head, 3, uint64(m.Epoch))
	head = appendVarint(head, 4, m.FirstSequence)
	head = appendVarint(head, 5, m.LowWater)
	head = appendVarint(head, 6, m.WriterTerm)
	if m.HasExpectedEnd {
		head = protowire.AppendTag(head, 7, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(m.ExpectedEnd))
	}
	head = appendVarint(head, 8, protowire.EncodeBool(m.Atomic))
	out := make(mem.BufferSlice, 0, 3)
	if len(m.Batches) > 0 {
		head = protowire.AppendTag(head, 9, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(m.Batches)))
	}
	out = append(out, mem.SliceBuffer(head))
	if len(m.Batches) > 0 {
		out = append(out, mem.SliceBuffer(m.Batches))
	}
	if len(m.Records) > 0 {
		tail, err := proto.Marshal(&strandlinev1.AppendRequest{Records: m.Records, LogId: m.LogID, Explain: m.Explain})
		if err != nil {
			return nil, err
		}
		out = append(out, mem.SliceBuffer(tail))
	} else if m.LogID != 0 || m.Explain {
		tail := appendVarint(make([]byte, 0, 13), 11, m.LogID)
		out = append(out, mem.SliceBuffer(appendVarint(tail, 13, protowire.EncodeBool(m.Explain))))
	}
	return out, nil
}

func (m *AppendRequest) decode(c *cursor) error {
	*m = AppendRequest{Batches: m.Batches[:0]}
	for c.left > 0 {
		number, kind, err := c.field()
		if err != nil {
			return err
		}
		switch {
		case number == 1 && kind == protowire.BytesType:
			var name []byte
			if name, err = c.bytes(nil); err == nil && !utf8.Valid(name) {
				err = errUnusual
			}
			m.Log = string(name)
		case number == 9 && kind == protowire.BytesType:
			m.Batches, err = c.bytes(m.Batches)
		case number == 10 && kind == protowire.BytesType:
			err = m.decodeRecord(c)
		case (number >= 2 && number <= 8 || number == 11 || number == 13) && kind == protowire.VarintType:
			var v uint64
			v, err = c.varint()
			m.setNumber(number, v)
		default:
			err = errUnusual
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *AppendRequest) setNumber(number protowire.Number, v uint64) {
	switch number {
	case 2:
		m.SessionID = v
	case 3:
		m.Epoch = uint32(v)
	case 4:
		m.FirstSequence = v
	case 5:
		m.LowWater = v
	case 6:
		m.WriterTerm = v
	case 7:
		m.ExpectedEnd, m.HasExpectedEnd = int64(v), true
	case 8:
		m.Atomic = protowire.DecodeBool(v)
	case 11:
		m.LogID = v
	case 13:
		m.Explain = protowire.DecodeBool(v)
	}
}

func (m *AppendRequest) decodeRecord(c *cursor) error {
	encoded, err := c.bytes(nil)
	if err != nil {
		return err
	}
	r := new(strandlinev1.Record)
	if proto.Unmarshal(encoded, r) != nil {
		return errUnusual
	}
	m.Records = append(m.Records, r)
	return nil
}

func (m *AppendRequest) generated() proto.Message { return new(strandlinev1.AppendRequest) }

func (m *AppendRequest) take(from proto.Message) {
	g := from.(*strandlinev1.AppendRequest)
	*m = AppendRequest{
		Log: g.Log, SessionID: g.SessionId, Epoch: g.Epoch,
		FirstSequence: g.FirstSequence, LowWater: g.LowWater, WriterTerm: g.WriterTerm,
		ExpectedEnd: g.GetExpectedEnd(), HasExpectedEnd: g.ExpectedEnd != nil, Atomic: g.Atomic,
		Batches: append(m.Batches[:0], g.Batches...), Records: g.Records, LogID: g.LogId, Explain: g.Explain,
	}
}

// appendVarint appends a number as proto3 encodes it: nothing if it is 0.
func appendVarint(dst []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, number, protowire.VarintType)
	return protowire.AppendVarint(dst, v)
}
