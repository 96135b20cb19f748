package rpc

import (
	"fmt"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"strandline.dev/internal/transport/wire"
)

// A handler passes an Admission to RecvMsg to admit a message before it is decoded. While Admit
// waits, gRPC keeps the received bytes and does not read the stream, so flow control stops a client
// that sends more than the budget allows.
type Admission interface {
	// Admit returns the message to decode data into; nil leaves data undecoded.
	Admit(data mem.BufferSlice) (message any, err error)
}

var serverCodec encoding.CodecV2 = codec{wire.Codec}

type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch s := v.(type) {
	case *sending:
		return s.encode(c)
	case *waiting:
		data, err := c.CodecV2.Marshal(s.message)
		if err != nil {
			return nil, err
		}
		return counting(data, s), nil
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(Admission)
	if !ok {
		if n := data.Len(); n > MaxCallBytes {
			return tooLargeCall(n)
		}
		return c.CodecV2.Unmarshal(data, v)
	}
	message, err := a.Admit(data)
	if err != nil || message == nil {
		return err
	}
	return c.CodecV2.Unmarshal(data, message)
}

func tooLargeCall(bytes int) error {
	return fmt.Errorf("a message of %d bytes, the limit of this call is %d", bytes, MaxCallBytes)
}

// CountFields counts the fields with a number in an encoded message, or with several numbers the
// fields of nested messages. With it a handler knows the cost of decoding in advance: two bytes can
// become a structure of two hundred. It ends early at malformed data, as the decoder does.
func CountFields(data mem.BufferSlice, path ...protowire.Number) int {
	r := data.Reader()
	defer r.Close()
	s := scanner{r}
	return s.count(r.Remaining(), path)
}

// Name returns the field with a number from the start of an encoded message, without decoding the
// message, so that a handler knows the name of the object before it decodes the rest. ok is false
// unless the field is a text of at most most bytes that begins within the first namedWithin bytes.
func Name(data mem.BufferSlice, number protowire.Number, most int) (name string, ok bool) {
	r := data.Reader()
	defer r.Close()
	s, total := scanner{r}, r.Remaining()
	for total-s.Remaining() < min(total, namedWithin) {
		found, kind := protowire.DecodeTag(s.varint())
		length := 0
		switch kind {
		case protowire.VarintType:
			s.varint()
		case protowire.Fixed32Type:
			length = 4
		case protowire.Fixed64Type:
			length = 8
		case protowire.BytesType:
			length = int(min(s.varint(), uint64(MaxRequestBytes)))
			if found == number && length <= min(most, s.Remaining()) {
				text := make([]byte, length)
				_, err := io.ReadFull(s, text)
				return string(text), err == nil
			}
		}
		if found == number || length > s.Remaining() {
			return "", false
		}
		s.skip(length)
	}
	return "", false
}

// namedWithin is where Name stops looking. Encoders write fields in the order of their numbers.
const namedWithin = 4 << 10

type scanner struct{ *mem.Reader }

// count reads the next size bytes as one message.
func (s scanner) count(size int, path []protowire.Number) (n int) {
	end := s.Remaining() - size
	for s.Remaining() > end {
		number, kind := protowire.DecodeTag(s.varint())
		length := 0
		switch kind {
		case protowire.VarintType:
			s.varint()
		case protowire.Fixed32Type:
			length = 4
		case protowire.Fixed64Type:
			length = 8
		case protowire.BytesType:
			length = int(min(s.varint(), uint64(MaxRequestBytes)))
		case protowire.StartGroupType, protowire.EndGroupType:
			// Fields of a group that the decoder passes over count as well: too
			// many is safe, too few is not.
		default:
			s.skip(s.Remaining())
			return n
		}
		switch {
		case number != path[0]:
			s.skip(length)
		case len(path) == 1:
			n++
			s.skip(length)
		case kind == protowire.BytesType:
			n += s.count(min(length, s.Remaining()), path[1:])
		}
	}
	return n
}

func (s scanner) varint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := s.ReadByte()
		if err != nil {
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v
}

func (s scanner) skip(n int) { _, _ = s.Discard(min(n, s.Remaining())) }
