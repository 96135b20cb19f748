package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// kind of a frame. Numbers are on the wire.
type kind uint8

const (
	messageFrame kind = 1 // for a replica
	callFrame    kind = 2 // a question: u8 length of its kind, the kind, the request
	answerFrame  kind = 3 // the answer to a call
	failureFrame kind = 4 // the text of the error that a call met
	cancelFrame  kind = 5 // the caller does not wait any longer; no payload
	pingFrame    kind = 6 // a sign of life; no payload
)

// lane of a frame. What is in the urgent one overtakes what is in the others. The large one
// is for messages above MaxMessage: a part of them goes with each batch of the others. It is used
// only towards a node that has announced, in its opening, that it reads it.
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
// A message above 1 MiB is sent in parts: frames of the same kind, lane, log
// and replica, between which frames of the other lane may come, but none of
// the same lane. A payload has no CRC here: what must not change unseen, such
// as an entry, brings its own. A message of the large lane ends with the CRC-32C of all before;
// its first part drops a message of which more was to come: that one has been replaced.
type header struct {
	length     uint32
	kind       kind
	lane       lane
	compressed bool
	first      bool // of the large lane
	log        uint64
	replica    uint64
	rest       uint32
}

const (
	compressedFlag = 1
	firstFlag      = 2
	sumSize        = 4 // of the CRC that ends a message of the large lane
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBadFrame is what a connection ends with if its bytes make no sense.
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
		return header{}, fmt.Errorf("%w: the header's CRC is %08x, it says %08x", errBadFrame, got, want)
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
		return fmt.Errorf("%w: %d bytes of payload, at most %d are allowed", errBadFrame, h.length, maxPart)
	case h.lane == large && h.kind != messageFrame, h.first && h.lane != large:
		return fmt.Errorf("%w: kind %d in lane %d", errBadFrame, h.kind, h.lane)
	case uint64(h.length)+uint64(h.rest) > most:
		return fmt.Errorf("%w: a message of %d bytes, at most %d are allowed", errBadFrame, uint64(h.length)+uint64(h.rest), most)
	case h.rest > 0 && h.length == 0:
		return fmt.Errorf("%w: an empty part of a message", errBadFrame)
	case empty && (h.length > 0 || h.rest > 0):
		return fmt.Errorf("%w: kind %d has a payload", errBadFrame, h.kind)
	}
	return nil
}

// sameMessage: both are parts of one message.
func (h header) sameMessage(other header) bool {
	return h.kind == other.kind && h.lane == other.lane && h.log == other.log && h.replica == other.replica
}

// frameReader reads whole messages, and assembles those that arrive in parts.
type frameReader struct {
	from      *bufio.Reader
	callsOnly bool // a message is an error, before any of it is read
	visitor   bool // so is what is longer than a node that only asks has to say
	partial   [lanes]partial
	receiving receiving
	// dropped is called when a message begins for which there is no room. Its error ends the connection.
	dropped func(header) error
	decompressor
}

// partial is a message of which more is to come.
type partial struct {
	header  header // of the last part; rest > 0, otherwise there is none
	payload []byte
	dropped bool // there is no room for it: its parts are read and forgotten
}

// next returns a message, complete, in a buffer of its own with its exact size.
// Memory grows with what arrives, not with what a header claims.
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
			return header{}, nil, fmt.Errorf("%w: a node that only asks sends %d bytes, at most %d are allowed", errBadFrame, uint64(h.length)+uint64(h.rest), maxAsked)
		}
		_, _ = r.from.Discard(headerSize) // they were peeked
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
			return nil, false, fmt.Errorf("%w: it does not continue the message of which %d bytes are to come", errBadFrame, p.header.rest)
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

// cutShort is the error of what ends within a frame.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkSum returns a message of the large lane without the CRC at its end.
func checkSum(b []byte) ([]byte, error) {
	at := len(b) - sumSize
	if at < 0 {
		return nil, fmt.Errorf("%w: a large message of %d bytes has no CRC", errBadFrame, len(b))
	}
	if got, want := crc32.Checksum(b[:at], castagnoli), binary.LittleEndian.Uint32(b[at:]); got != want {
		return nil, fmt.Errorf("%w: a large message of %d bytes has the CRC %08x, it says %08x", errBadFrame, at, got, want)
	}
	return b[:at:at], nil
}

// grow makes a buffer longer by more. Its capacity is at most double of what
// has arrived, and in the end exactly the message's size.
func grow(b []byte, more, rest int) []byte {
	length := len(b) + more
	if length > cap(b) {
		bigger := make([]byte, len(b), min(length+rest, 2*len(b)+more))
		copy(bigger, b)
		b = bigger
	}
	return b[:length]
}
