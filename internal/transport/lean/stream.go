package lean

import (
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// stream holds the fields of both ends of a connection.
type stream struct {
	conn   net.Conn
	codec  encoding.CodecV2
	reader frameReader
	writer frameWriter
	pulse  pulse
}

// init prepares a stream that treats the other end as lost after it was silent for patience.
func (s *stream) init(conn net.Conn, codec encoding.CodecV2, patience time.Duration, lost func()) {
	s.conn, s.codec = conn, codec
	s.reader.from, s.writer.to = conn, unwrap(conn)
	s.pulse.reader, s.pulse.writer, s.pulse.patience, s.pulse.lost = &s.reader, &s.writer, patience, lost
}

// next returns the next frame. Silence counts only while next waits: a side that does not receive
// cannot detect whether the other one sends.
func (s *stream) next() (kind, mem.BufferSlice, error) {
	s.pulse.awaited.Store(true)
	defer s.pulse.awaited.Store(false)
	return s.reader.next()
}

// send writes a message. broken reports whether the connection failed, rather than the encoding.
func (s *stream) send(m any) (broken bool, err error) {
	data, err := s.codec.Marshal(m)
	if err != nil {
		return false, status.Errorf(codes.Internal, "encode: %v", err)
	}
	defer data.Free()
	err = s.writer.write(messageKind, data)
	return err != nil, err
}
