package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// appendPath is the stream whose messages are counted.
const appendPath = "/strandline.v1.LogService/Append"

// newGRPC counts the messages of append streams: an AppendRequest going up is a
// request, an AppendResponse coming down is its answer, in the same order.
func newGRPC(c *connection) (up, down dissector) {
	streams := map[uint32]bool{} // those that append
	requests := &http2Frames{
		preface: len(http2Preface), streams: streams, messages: map[uint32]*grpcMessages{},
		found: func(stream uint32) { c.request(uint64(stream)) },
	}
	requests.headers = hpack.NewDecoder(hpackTable, func(f hpack.HeaderField) {
		if f.Name == ":path" && f.Value == appendPath {
			streams[requests.stream] = true
		}
	})
	answers := &http2Frames{
		streams: streams, messages: map[uint32]*grpcMessages{},
		found: func(stream uint32) { c.answer(uint64(stream)) },
	}
	return requests, answers
}

const (
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead    = 9
	hpackTable   = 4096 // what a server allows unless it says otherwise; gRPC's do not
	headersMost  = 1 << 20

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9

	flagPadded   = 0x8
	flagPriority = 0x20
	flagEnd      = 0x4 // of headers
)

// http2Frames cuts one direction of a connection into frames. Of data it looks
// at the heads of messages, and otherwise at the headers of requests.
type http2Frames struct {
	preface  int // bytes of it to come
	headers  *hpack.Decoder
	streams  map[uint32]bool
	messages map[uint32]*grpcMessages // by stream
	found    func(stream uint32)

	head   []byte // of the frame that has begun
	kind   byte
	flags  byte
	stream uint32
	left   int    // bytes of its payload to come
	block  []byte // headers, or the start of a padded frame of data
}

func (f *http2Frames) feed(data []byte) error {
	n := min(f.preface, len(data))
	f.preface, data = f.preface-n, data[n:]
	for len(data) > 0 {
		if len(f.head) < frameHead {
			n := min(frameHead-len(f.head), len(data))
			f.head, data = append(f.head, data[:n]...), data[n:]
			if len(f.head) < frameHead {
				return nil
			}
			f.begin()
		}
		n := min(f.left, len(data))
		payload := data[:n]
		f.left, data = f.left-n, data[n:]
		if err := f.payload(payload); err != nil {
			return err
		}
		if f.left == 0 {
			f.head = f.head[:0]
			if err := f.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin has the head of a frame: length, type, flags, stream.
func (f *http2Frames) begin() {
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	f.kind, f.flags = f.head[3], f.head[4]
	f.stream = binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)
	if f.kind != frameContinuation {
		f.block = f.block[:0]
	}
}

func (f *http2Frames) payload(b []byte) error {
	switch {
	case f.kind == frameData && f.flags&flagPadded == 0:
		return f.message(b)
	case f.kind == frameData, f.kind == frameHeaders, f.kind == frameContinuation:
		if f.kind != frameData && f.headers == nil {
			return nil
		}
		if len(f.block)+len(b) > headersMost {
			return errors.New("too many HTTP/2 headers")
		}
		f.block = append(f.block, b...)
	}
	return nil
}

// end is called after the last byte of a frame.
func (f *http2Frames) end() error {
	switch {
	case f.kind == frameData && f.flags&flagPadded != 0:
		block, err := unpadded(f.block, f.flags&^flagPriority)
		if err != nil {
			return err
		}
		return f.message(block)
	case f.kind == frameReset:
		delete(f.messages, f.stream)
	case (f.kind == frameHeaders || f.kind == frameContinuation) && f.headers != nil:
		if f.kind == frameHeaders {
			block, err := unpadded(f.block, f.flags)
			if err != nil {
				return err
			}
			f.block = append(f.block[:0], block...)
		}
		if f.flags&flagEnd == 0 {
			return nil
		}
		if _, err := f.headers.Write(f.block); err != nil {
			return fmt.Errorf("decode HTTP/2 headers: %w", err)
		}
		return f.headers.Close()
	}
	return nil
}

// unpadded takes padding and priority off the payload of a frame.
func unpadded(b []byte, flags byte) ([]byte, error) {
	errPadding := errors.New("an HTTP/2 frame is shorter than its padding")
	padding := 0
	if flags&flagPadded != 0 {
		if len(b) < 1 {
			return nil, errPadding
		}
		padding, b = int(b[0]), b[1:]
	}
	if flags&flagPriority != 0 {
		if len(b) < 5 {
			return nil, errPadding
		}
		b = b[5:]
	}
	if padding > len(b) {
		return nil, errPadding
	}
	return b[:len(b)-padding], nil
}

func (f *http2Frames) message(b []byte) error {
	if !f.streams[f.stream] {
		return nil
	}
	m := f.messages[f.stream]
	if m == nil {
		m = &grpcMessages{}
		f.messages[f.stream] = m
	}
	for range m.feed(b) {
		f.found(f.stream)
	}
	return nil
}

// grpcMessages counts messages of gRPC: a byte, four bytes of length, and that
// many bytes.
type grpcMessages struct {
	head []byte
	skip int64
}

// feed returns how many messages begin in b.
func (m *grpcMessages) feed(b []byte) int {
	const head = 5
	begun := 0
	for len(b) > 0 {
		if m.skip > 0 {
			n := min(m.skip, int64(len(b)))
			m.skip, b = m.skip-n, b[n:]
			continue
		}
		n := min(head-len(m.head), len(b))
		m.head, b = append(m.head, b[:n]...), b[n:]
		if len(m.head) == head {
			begun++
			m.skip = int64(binary.BigEndian.Uint32(m.head[1:]))
			m.head = m.head[:0]
		}
	}
	return begun
}
