// Package wire is the gRPC codec that our client and our servers share. It carries the messages
// of the append and read paths without copying the batches in them, and all other messages as the
// ordinary protobuf codec does. A peer sees no difference: the bytes are those of the generated
// messages.
//
// Use it with grpc.ForceCodecV2 and grpc.ForceServerCodecV2, and pass an *AppendRequest,
// *AppendResponse or *ReadFrame to SendMsg and RecvMsg instead of the generated AppendRequest,
// AppendResponse or ReadResponse. Both kinds may be mixed on one connection.
//
// A message that came from this codec is decoded by hand. Anything unusual in one, an unknown
// field for instance, makes the codec start over with the generated type, so that only one
// implementation decides whether a message is valid.
package wire

import (
	"errors"

	"google.golang.org/grpc/encoding"
	ordinary "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Codec is a gRPC codec named "proto".
var Codec encoding.CodecV2 = codec{encoding.GetCodecV2(ordinary.Name)}

// codec encodes and decodes the message types of this package and leaves others to the embedded
// codec.
type codec struct {
	encoding.CodecV2
}

// message is a message type with its own encoder and decoder.
type message interface {
	// encode returns the encoded message. The parts that carry batches are
	// referenced, not copied.
	encode() (mem.BufferSlice, error)
	// decode fills the message, of which every field is overwritten. It keeps
	// nothing of the cursor's memory. errUnusual asks for decodeGenerated.
	decode(*cursor) error
	// generated returns an empty message of the generated type, and take fills
	// the message from it.
	generated() proto.Message
	take(proto.Message)
}

// errUnusual is the error for a message that the generated type must decode: one with unknown
// fields, wrong wire types, or truncation. The message may be valid or not.
var errUnusual = errors.New("unusual message")

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(message); ok {
		return m.encode()
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	err := m.decode(newCursor(data))
	if errors.Is(err, errUnusual) {
		g := m.generated()
		if err = c.CodecV2.Unmarshal(data, g); err == nil {
			m.take(g)
		}
	}
	return err
}
