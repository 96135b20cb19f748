// Package wire is the gRPC codec that our client and our servers share. It
// carries the messages of the append and read paths without copying the
// batches in them, and everything else as the ordinary protobuf codec does. A
// peer sees no difference: the bytes are those of the generated messages.
//
// Use it with grpc.ForceCodecV2 and grpc.ForceServerCodecV2, and hand an
// *AppendRequest, *AppendResponse or *ReadFrame to SendMsg and RecvMsg where
// the generated code would hand an AppendRequest, AppendResponse or
// ReadResponse. Both kinds may be mixed on one connection.
//
// A message that came from this codec is decoded by hand. Anything unusual in
// one, an unknown field for instance, makes the codec start over with the
// generated type, so that there is one authority on what is legal.
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

// codec handles message types of ours itself and leaves others to the
// embedded codec.
type codec struct {
	encoding.CodecV2
}

// message is a type that is encoded and decoded by hand.
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

// errUnusual reports a message that is better left to the generated type:
// unknown fields, wrong wire types, truncation. It may be legal or not.
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
