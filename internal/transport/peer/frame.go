package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// kind is the kind of a frame. The numbers are part of the protocol.
type kind uint8

const (
	messageFrame kind = 1 // for a replica
	callFrame    kind = 2 // a question: u8 length of its kind, the kind, the request
	answerFrame  kind = 3 // the answer to a call
	failureFrame kind = 4 // the text of the error of a call
	cancelFrame  kind = 5 // the caller no longer waits; no payload
	pingFrame    kind = 6 // a sign of life; no payload
)

// lane is the lane of a frame. Frames of the urgent lane overtake all others. The large lane is
// for messages above MaxMessage: one part of them goes with each batch of the others. It is used
// only to a node whose opening announces that it reads the lane.
type lane uint8

const (
	bulk   lane = 0
	urgent lane = 1
	large  lane = 2
	lanes       = 3
)

const headerSize = 32

// header begins a frame. All integers are little-endian.
//
//	 0  u32  length      of the payload in bytes, at most 1 MiB
//	 4  u8   kind
//	 5  u8   lane
//	 6  u16  flags       1: the payload is compressed with zstd, of a message only
//	                     2: the first part of a message of the large lane; others 0
//	 8  u64  log         of a message; the number of a call, counted by the caller
//	16  u64  replica     of a message; otherwise 0
//	24  u32  rest        bytes of the message that follow in further frames
//	28  u32  header CRC  CRC-32C of bytes [0, 28)
//	32  payload
//
// A message above 1 MiB is sent in parts, which are frames of the same kind, lane, log and
// replica. Frames of other lanes may come between them, but none of the same lane. A payload has
// no CRC in this protocol: data that needs one, such as an entry, contains it. A message of the
// large lane ends with the CRC-32C of all its other bytes; its first part replaces a message of
// the lane that is not complete.
type header struct {
	length     uint32
	kind       kind
	lane       lane
	compressed bool
	first      bool // the first part of a message of the large lane
	log        uint64
	replica    uint64
	rest       uint32
}

const (
	compressedFlag = 1
	firstFlag      = 2
	sumSize        = 4 // size of the CRC at the end of a message of the large lane
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBadFrame is the error of a connection whose bytes are not valid.
var errBadFrame = errors.New("bad frame")

func (h header) append(to []byte) []byte {
	at := len(to)
	to = binary.LittleEndian.AppendUint32(to, h.length)
	flags := byte(0)
	if h.compressed {
		flags = compressedFlag
	}
	if h.first {
		flags |= firstFlag
	}
	to = append(to, byte(h.kind), byte(h.lane), flags, 0)
	to = binary.LittleEndian.AppendUint64(to, h.log)
	to = binary.LittleEndian.AppendUint64(to, h.replica)
	to = binary.LittleEndian.AppendUint32(to, h.rest)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[at:], castagnoli))
}

func parseHeader(b []byte) (header, error) {
	if got, want := crc32.Checksum(b[:28], castagnoli), binary.LittleEndian.Uint32(b[28:]); got != want {
		return header{}, fmt.Errorf("%w: the header has CRC %08x, its bytes %08x", errBadFrame, want, got)
	}
	h := header{
		length:     binary.LittleEndian.Uint32(b),
		kind:       kind(b[4]),
		lane:       lane(b[5]),
		compressed: b[6]&compressedFlag != 0,
		first:      b[6]&firstFlag != 0,
		log:        binary.LittleEndian.Uint64(b[8:]),
		replica:    binary.LittleEndian.Uint64(b[16:]),
		rest:       binary.LittleEndian.Uint32(b[24:]),
	}
	return h, h.check()
}

func (h header) check() error {
	empty := h.kind == cancelFrame || h.kind == pingFrame
	most := uint64(MaxMessage)
	if h.lane == large {
		most = MaxLargeMessage + sumSize
	}
	switch {
	case h.kind < messageFrame || h.kind > pingFrame:
		return fmt.Errorf("%w: unknown kind %d", errBadFrame, h.kind)
	case h.lane >= lanes:
		return fmt.Errorf("%w: unknown lane %d", errBadFrame, h.lane)
	case h.compressed && (h.kind != messageFrame || h.length == 0):
		return fmt.Errorf("%w: kind %d with %d bytes is compressed", errBadFrame, h.kind, h.length)
	case h.length > maxPart:
		return fmt.Errorf("%w: the payload has %d bytes, the limit is %d", errBadFrame, h.length, maxPart)
	case h.lane == large && h.kind != messageFrame, h.first && h.lane != large:
		return fmt.Errorf("%w: kind %d in lane %d", errBadFrame, h.kind, h.lane)
	case uint64(h.length)+uint64(h.rest) > most:
		return fmt.Errorf("%w: the message has %d bytes, the limit is %d", errBadFrame, uint64(h.length)+uint64(h.rest), most)
	case h.rest > 0 && h.length == 0:
		return fmt.Errorf("%w: an empty part of a message", errBadFrame)
	case empty && (h.length > 0 || h.rest > 0):
		return fmt.Errorf("%w: kind %d has a payload", errBadFrame, h.kind)
	}
	return nil
}

// sameMessage reports whether both are headers of parts of one message.
func (h header) sameMessage(other header) bool {
	return h.kind == other.kind && h.lane == other.lane && h.log == other.log && h.replica == other.replica
}

// frameReader reads whole messages, and assembles messages that arrive in parts.
type frameReader struct {
	from      *bufio.Reader
	callsOnly bool // a message is an error, which is returned before any of it is read
	visitor   bool // so is a call of more than maxAsked bytes
	partial   [lanes]partial
	receiving receiving
	// dropped is called at the beginning of a message for which there is no room. Its error ends
	// the connection.
	dropped func(header) error
	decompressor
}

// partial is a message whose remaining parts have not arrived yet.
type partial struct {
	header  header // header of the last part; if its rest is 0, there is no partial message
	payload []byte
	dropped bool // there is no room for it: its parts are read and discarded
}

// next returns a complete message in a buffer of its own, which has exactly its size. Memory
// grows with the bytes that arrive, not with the length that a header claims.
func (r *frameReader) next() (header, []byte, error) {
	for {
		raw, err := r.from.Peek(headerSize)
		if err != nil {
			if errors.Is(err, io.EOF) && len(raw) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return header{}, nil, err
		}
		h, err := parseHeader(raw)
		if err != nil {
			return header{}, nil, err
		}
		if r.callsOnly && h.kind == messageFrame {
			return header{}, nil, fmt.Errorf("%w: a message where only calls are allowed", errBadFrame)
		}
		if r.visitor && uint64(h.length)+uint64(h.rest) > maxAsked {
			return header{}, nil, fmt.Errorf("%w: a connection for one call sends %d bytes, the limit is %d", errBadFrame, uint64(h.length)+uint64(h.rest), maxAsked)
		}
		_, _ = r.from.Discard(headerSize) // the bytes were peeked
		payload, complete, err := r.payload(h)
		if err != nil {
			return header{}, nil, err
		}
		if complete {
			return h, payload, nil
		}
	}
}

func (r *frameReader) payload(h header) (payload []byte, complete bool, err error) {
	var plain []byte
	if h.compressed {
		if plain, err = r.decompressor.read(r.from, h.length); err != nil {
			return nil, false, err
		}
		h.length = uint32(len(plain))
		if err := h.check(); err != nil {
			return nil, false, err
		}
	}
	p := &r.partial[h.lane]
	if h.first {
		p.header.rest = 0
		r.receiving.end(large)
	} else if h.lane == large && p.header.rest == 0 {
		return nil, false, fmt.Errorf("%w: a large message without its beginning", errBadFrame)
	}
	if p.header.rest > 0 {
		if !h.sameMessage(p.header) || uint64(h.length)+uint64(h.rest) != uint64(p.header.rest) {
			return nil, false, fmt.Errorf("%w: the frame does not continue the message, which lacks %d bytes", errBadFrame, p.header.rest)
		}
	} else {
		p.payload, p.dropped = nil, false
		if h.rest > 0 && !r.receiving.begin(h.lane, int64(h.length)+int64(h.rest)) {
			p.dropped = true
			if err := r.dropped(h); err != nil {
				return nil, false, err
			}
		}
	}
	if p.dropped {
		if plain == nil {
			if _, err := r.from.Discard(int(h.length)); err != nil {
				return nil, false, cutShort(err)
			}
		}
		p.header = h
		return nil, false, nil
	}
	got := len(p.payload)
	p.payload = grow(p.payload, int(h.length), int(h.rest))
	if plain != nil {
		copy(p.payload[got:], plain)
	} else if _, err := io.ReadFull(r.from, p.payload[got:]); err != nil {
		return nil, false, cutShort(err)
	}
	p.header = h
	if h.rest > 0 {
		return nil, false, nil
	}
	payload, p.payload = p.payload, nil
	r.receiving.end(h.lane)
	if h.lane == large {
		if payload, err = checkSum(payload); err != nil {
			return nil, false, err
		}
	}
	return payload, true, nil
}

// cutShort returns err, or io.ErrUnexpectedEOF if the input ended within a frame.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkSum verifies the CRC at the end of a message of the large lane and returns the message
// without it.
func checkSum(b []byte) ([]byte, error) {
	at := len(b) - sumSize
	if at < 0 {
		return nil, fmt.Errorf("%w: a large message of %d bytes has no CRC", errBadFrame, len(b))
	}
	if got, want := crc32.Checksum(b[:at], castagnoli), binary.LittleEndian.Uint32(b[at:]); got != want {
		return nil, fmt.Errorf("%w: a large message of %d bytes has CRC %08x, its bytes %08x", errBadFrame, at, want, got)
	}
	return b[:at:at], nil
}

// grow makes a buffer longer by more bytes. Its capacity is at most twice the bytes that have
// arrived, and in the end exactly the size of the message.
func grow(b []byte, more, rest int) []byte {
	length := len(b) + more
	if length > cap(b) {
		bigger := make([]byte, len(b), min(length+rest, 2*len(b)+more))
		copy(bigger, b)
		b = bigger
	}
	return b[:length]
}
