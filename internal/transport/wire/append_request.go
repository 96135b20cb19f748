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
	// Check is the condition of a checked append, whose records are in Batches or Records as those
	// of any other; nil: there is none.
	Check *strandlinev1.CheckedAppend
	// Mixed is set by RecvMsg if the message has records both with and without the check.
	Mixed   bool
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
	if m.Check != nil {
		return m.encodeChecked(head)
	}
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

// encodeChecked adds what follows atomic. The batches are the last field of the check.
func (m *AppendRequest) encodeChecked(head []byte) (mem.BufferSlice, error) {
	head = appendVarint(head, 11, m.LogID)
	c := m.Check
	check, err := proto.Marshal(&strandlinev1.CheckedAppend{Since: c.Since, Keys: c.Keys, KeyPrefixes: c.KeyPrefixes, Headers: c.Headers, Records: m.Records})
	if err != nil {
		return nil, err
	}
	if len(m.Batches) > 0 { // not with records
		check = protowire.AppendTag(check, 5, protowire.BytesType)
		check = protowire.AppendVarint(check, uint64(len(m.Batches)))
	}
	head = protowire.AppendTag(head, 12, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(check)+len(m.Batches)))
	out := mem.BufferSlice{mem.SliceBuffer(append(head, check...))}
	if len(m.Batches) > 0 {
		out = append(out, mem.SliceBuffer(m.Batches))
	}
	if m.Explain {
		out = append(out, mem.SliceBuffer(appendVarint(nil, 13, 1)))
	}
	return out, nil
}

// decodeChecked decodes a check with its records, of which the batches exist once besides the message, as
// those of any other append. A message that has records beside the check as well is left to unpack.
func (m *AppendRequest) decodeChecked(c *cursor) error {
	if m.Check == nil {
		m.Check = new(strandlinev1.CheckedAppend)
	}
	return c.message(func(number protowire.Number, kind protowire.Type) (err error) {
		switch {
		case number == 1 && kind == protowire.VarintType:
			var since uint64
			since, err = c.varint()
			m.Check.Since = int64(since)
		case number == 2 && kind == protowire.BytesType:
			m.Check.Keys, err = c.appendBytes(m.Check.Keys)
		case number == 3 && kind == protowire.BytesType:
			m.Check.KeyPrefixes, err = c.appendBytes(m.Check.KeyPrefixes)
		case number == 4 && kind == protowire.BytesType:
			err = m.decodeHeader(c)
		case number == 5 && kind == protowire.BytesType:
			m.Batches, err = c.bytes(m.Batches)
		case number == 6 && kind == protowire.BytesType:
			err = m.decodeRecord(c)
		default:
			err = errUnusual
		}
		return err
	})
}

func (c *cursor) appendBytes(to [][]byte) ([][]byte, error) {
	field, err := c.bytes(nil)
	return append(to, field), err
}

func (m *AppendRequest) decodeHeader(c *cursor) error {
	encoded, err := c.bytes(nil)
	if err != nil {
		return err
	}
	h := new(strandlinev1.Header)
	if proto.Unmarshal(encoded, h) != nil {
		return errUnusual
	}
	m.Check.Headers = append(m.Check.Headers, h)
	return nil
}

// unpack takes the records out of a check of the generated type.
func (m *AppendRequest) unpack() {
	if c := m.Check; c != nil {
		m.Mixed = len(m.Batches) > 0 || len(m.Records) > 0
		m.Batches, m.Records, c.Batches, c.Records = c.Batches, c.Records, nil, nil
	}
}

func (m *AppendRequest) decode(c *cursor) error {
	*m = AppendRequest{Batches: m.Batches[:0]}
	plain := false
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
			plain = true
			m.Batches, err = c.bytes(m.Batches)
		case number == 10 && kind == protowire.BytesType:
			plain = true
			err = m.decodeRecord(c)
		case number == 12 && kind == protowire.BytesType:
			err = m.decodeChecked(c)
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
		if plain && m.Check != nil {
			return errUnusual
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
		Batches: g.Batches, Records: g.Records, Check: g.Checked, LogID: g.LogId, Explain: g.Explain,
	}
	m.unpack()
}

// appendVarint appends a number as proto3 encodes it: nothing if it is 0.
func appendVarint(dst []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, number, protowire.VarintType)
	return protowire.AppendVarint(dst, v)
}
