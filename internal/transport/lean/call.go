package lean

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	spb "google.golang.org/genproto/googleapis/rpc/status"
)

// encodeCall returns the payload of a call frame.
func encodeCall(method string, md metadata.MD) (mem.BufferSlice, error) {
	lines := []string{method}
	for name, values := range md {
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines[1:])
	text := strings.Join(lines, "\n")
	if len(text) > maxCallBytes {
		return nil, fmt.Errorf("%w: metadata of %d bytes, at most %d are allowed", errTooLarge, len(text), maxCallBytes)
	}
	if strings.Count(text, "\n") != len(lines)-1 {
		return nil, errors.New("metadata contains a line break")
	}
	return mem.BufferSlice{mem.SliceBuffer(text)}, nil
}

func decodeCall(payload mem.BufferSlice) (method string, md metadata.MD, err error) {
	method, rest, _ := strings.Cut(string(payload.Materialize()), "\n")
	md = metadata.MD{}
	if items := strings.Count(rest, "\n"); items > maxItems {
		return "", nil, fmt.Errorf("%w: %d items of metadata, at most %d are allowed", errTooLarge, items, maxItems)
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok || name == "" {
			return "", nil, fmt.Errorf("a line of metadata has no name: %q", line)
		}
		md.Append(name, value)
	}
	return method, md, nil
}

// encodeEnd returns the payload of an end frame. It is nil if the call succeeded.
func encodeEnd(err error) mem.BufferSlice {
	if err == nil {
		return nil
	}
	encoded, failed := proto.Marshal(status.Convert(err).Proto())
	if failed != nil || len(encoded) > maxEndBytes {
		encoded, _ = proto.Marshal(status.New(codes.Internal, "the error of the call cannot be sent").Proto())
	}
	return mem.BufferSlice{mem.SliceBuffer(encoded)}
}

func decodeEnd(payload mem.BufferSlice) error {
	s := new(spb.Status)
	if err := proto.Unmarshal(payload.Materialize(), s); err != nil {
		return status.Errorf(codes.Internal, "the end of a stream cannot be read: %v", err)
	}
	return status.ErrorProto(s)
}
