package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// AppendResponse represents strandline.v1.AppendResponse. Refused tells which of its two results
// it holds.
type AppendResponse struct {
	Refused *strandlinev1.Refusal // nil: appended

	// The records are at [FirstOffset, EndOffset), or at Ranges if there are
	// any.
	FirstOffset, EndOffset int64
	Ranges                 []*strandlinev1.OffsetRange
	Duplicate              bool

	Stages *strandlinev1.AppendStages // nil: not requested
}

func (m *AppendResponse) encode() (mem.BufferSlice, error) {
	if m.Refused != nil || len(m.Ranges) > 0 || m.Stages != nil {
		data, err := proto.Marshal(m.toGenerated())
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	// Two tags and two offsets of at most ten bytes, and the flag: the length
	// of the result always fits one byte.
	data := make([]byte, 2, 28)
	data = appendVarint(data, 1, uint64(m.FirstOffset))
	data = appendVarint(data, 2, uint64(m.EndOffset))
	data = appendVarint(data, 4, protowire.EncodeBool(m.Duplicate))
	data[0], data[1] = byte(protowire.EncodeTag(1, protowire.BytesType)), byte(len(data)-2)
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// decode decodes the answer that nearly every append gets. An answer with a refusal, several
// ranges or stages is unusual.
func (m *AppendResponse) decode(c *cursor) error {
	*m = AppendResponse{}
	number, kind, err := c.field()
	if err != nil || number != 1 || kind != protowire.BytesType {
		return errUnusual
	}
	if n, err := c.length(); err != nil || n != c.left {
		return errUnusual
	}
	for c.left > 0 {
		number, kind, err := c.field()
		if err != nil || kind != protowire.VarintType {
			return errUnusual
		}
		v, err := c.varint()
		if err != nil {
			return err
		}
		switch number {
		case 1:
			m.FirstOffset = int64(v)
		case 2:
			m.EndOffset = int64(v)
		case 4:
			m.Duplicate = protowire.DecodeBool(v)
		default:
			return errUnusual
		}
	}
	return nil
}

func (m *AppendResponse) toGenerated() *strandlinev1.AppendResponse {
	if m.Refused != nil {
		return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Refused{Refused: m.Refused}, Stages: m.Stages}
	}
	return &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Appended{Appended: &strandlinev1.Appended{
		FirstOffset: m.FirstOffset, EndOffset: m.EndOffset, Ranges: m.Ranges, Duplicate: m.Duplicate,
	}}, Stages: m.Stages}
}

func (m *AppendResponse) generated() proto.Message { return new(strandlinev1.AppendResponse) }

// take converts an answer without a result, which our servers never send, into a refusal without
// a reason: it must not look like an append at offset 0.
func (m *AppendResponse) take(from proto.Message) {
	g := from.(*strandlinev1.AppendResponse)
	*m = AppendResponse{Stages: g.GetStages()}
	if a := g.GetAppended(); a != nil {
		m.FirstOffset, m.EndOffset, m.Ranges, m.Duplicate = a.FirstOffset, a.EndOffset, a.Ranges, a.Duplicate
		return
	}
	if m.Refused = g.GetRefused(); m.Refused == nil {
		m.Refused = new(strandlinev1.Refusal)
	}
}
