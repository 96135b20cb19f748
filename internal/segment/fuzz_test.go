package segment

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"testing"

	"strandline.dev/internal/record"
)

// memoryFile is a read-only File.
type memoryFile struct{ *bytes.Reader }

func (memoryFile) WriteAt([]byte, int64) (int, error) { return 0, io.ErrShortWrite }
func (memoryFile) WriteVector([][]byte, int64) error  { return io.ErrShortWrite }
func (memoryFile) Datasync() error                    { return nil }
func (memoryFile) Close() error                       { return nil }
func (memoryFile) Prefetch(int64, int64)              {}
func (f memoryFile) Size() (int64, error)             { return f.Reader.Size(), nil }

// fuzzSegment is a small segment with frames of each kind, one entry of it
// superseding others.
func fuzzSegment() (*header, []byte) {
	h := &header{salt: 0x5a17, ordinal: 3, first: 10, termBefore: 1, start: 7, saltBefore: 9, owner: Owner{"c", 3, 7}, conf: []byte("conf")}
	content := h.encode()
	before := h.crc
	add := func(f frameHeader, payload []byte) {
		f.length, f.salt, f.before, f.payloadCRC = uint32(len(payload)), h.salt, before, checksum(payload)
		b := make([]byte, f.size())
		f.encode(b, int64(len(content)))
		copy(b[frameHeaderSize:], payload)
		before = f.headerCRC
		content = append(content, b...)
	}
	state := make([]byte, hardStateSize)
	for _, i := range []uint64{10, 11, 12, 11, 12} {
		add(frameHeader{kind: entryFrame, index: i, term: i, first: record.Offset(i), count: 1}, []byte("some payload"))
	}
	add(frameHeader{kind: hardStateFrame, index: 12}, state)
	add(frameHeader{kind: markFrame, index: 12, synced: int64(len(content))}, state)
	return h, content
}

// FuzzScan damages a segment and repairs the checksums of some frames, so
// that the damage gets past them. Nothing may panic, and what the scan calls
// an entry must be readable where its index says.
func FuzzScan(f *testing.F) {
	_, content := fuzzSegment()
	f.Add(uint16(0), []byte{}, true)
	f.Add(uint16(headerSize), []byte{0xff, 0xff, 0xff, 0xff}, true)
	f.Add(uint16(headerSize+16), []byte{12}, true)
	f.Add(uint16(len(content)-100), []byte("garbage"), false)
	f.Fuzz(func(t *testing.T, at uint16, damage []byte, repair bool) {
		h, content := fuzzSegment()
		if at := int(at); at < len(content) {
			copy(content[max(at, headerSize):], damage)
		}
		if repair {
			repairChecksums(content, h)
		}
		s := scanner{file: memoryFile{bytes.NewReader(content)}, header: h, size: int64(len(content))}
		if err := s.scan(); err != nil {
			t.Fatal(err)
		}
		if err := s.lookBehind(); err != nil {
			t.Fatal(err)
		}
		if !s.index.valid(h.first, s.position) {
			t.Fatalf("index is not valid: %+v", s.index)
		}
		footer := s.index.encode(nil)
		if _, err := parseFooter(footer, h.first, s.position); err != nil {
			t.Fatal(err)
		}
		readAll(t, s.index, h, content)
	})
}

// repairChecksums makes every frame that can be told as one valid again.
func repairChecksums(content []byte, h *header) {
	before := h.crc
	for at := int64(headerSize); at+frameHeaderSize <= int64(len(content)); {
		b := content[at:]
		length := int64(binary.LittleEndian.Uint32(b))
		if length > int64(len(b))-frameHeaderSize {
			return
		}
		binary.LittleEndian.PutUint64(b[8:], h.salt)
		binary.LittleEndian.PutUint32(b[60:], before)
		binary.LittleEndian.PutUint32(b[64:], checksum(b[frameHeaderSize:][:length]))
		before = headerChecksum(b, at)
		binary.LittleEndian.PutUint32(b[68:], before)
		at += frameSize(int(length))
	}
}

// readAll reads every entry of x the way cursors do.
func readAll(t *testing.T, x *index, h *header, content []byte) {
	seg := &segment{file: memoryFile{bytes.NewReader(content)}, index: x, header: h, first: h.first, end: x.next}
	s := &Store{options: Options{Logger: slog.New(slog.DiscardHandler)}}
	for i := h.first; i < x.next; {
		b, stop := s.chunkAt(seg, i, 0, x.next, 100)
		if err := b.read(nil); err != nil {
			t.Fatal(err)
		}
		frames, err := b.entries(i, stop, math.MaxInt, func(*frameHeader) (bool, bool) { return false, false })
		if err != nil || len(frames) == 0 {
			t.Fatalf("%d entries from %d: %v", len(frames), i, err)
		}
		i += uint64(len(frames))
	}
}

// FuzzSegmentHeader proves that a header that is accepted is one that encode
// writes.
func FuzzSegmentHeader(f *testing.F) {
	_, content := fuzzSegment()
	f.Add(uint16(12), []byte{0xff, 0xff}, true)
	f.Add(uint16(0), []byte{}, true)
	f.Fuzz(func(t *testing.T, at uint16, damage []byte, repair bool) {
		b := bytes.Clone(content[:headerSize])
		copy(b[int(at)%headerSize:], damage)
		if repair {
			binary.LittleEndian.PutUint32(b[headerSize-4:], checksum(b[:headerSize-4]))
		}
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		again, err := parseHeader(h.encode())
		if err != nil || again.first != h.first || again.owner != h.owner || again.saltBefore != h.saltBefore || !bytes.Equal(again.conf, h.conf) {
			t.Fatalf("%+v became %+v: %v", h, again, err)
		}
	})
}

// FuzzFooter feeds the index decoder, whose CRC a program with a bug may have
// got right. An accepted index must keep lookups in bounds.
func FuzzFooter(f *testing.F) {
	h, content := fuzzSegment()
	s := scanner{file: memoryFile{bytes.NewReader(content)}, header: h, size: int64(len(content))}
	if err := s.scan(); err != nil {
		f.Fatal(err)
	}
	f.Add(s.index.encode(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, footerFixedSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := parseFooter(b, h.first, int64(len(content)))
		if err != nil {
			return
		}
		for i := h.first; i < x.next && i < h.first+100; i++ {
			x.term(i)
			r, end := x.run(i)
			p, ok := x.below(func(p *point) bool { return p.index <= i })
			if end <= i || r.first > i || !ok || p.position < r.begin {
				t.Fatalf("entry %d: run %+v to %d, point %+v", i, r, end, p)
			}
			if stop := x.chunkEnd(r, p.position, 1); stop <= p.position || stop > int64(len(content)) {
				t.Fatalf("entry %d: chunk from %d to %d", i, p.position, stop)
			}
		}
	})
}

// FuzzWitness proves that what is accepted is what tell writes.
func FuzzWitness(f *testing.F) {
	first := testimony{counter: 7, ordinal: 3, salt: 5, position: headerSize, term: 2, vote: 1, last: 9, owner: Owner{"c", 3, 7}}
	second := first
	second.counter++
	f.Add(append(second.encode(), first.encode()...), uint16(20), byte(0))
	f.Add(first.encode(), uint16(0), byte(1))
	f.Add([]byte{}, uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		b = bytes.Clone(b) // what the fuzzer gives is its own
		if int(at) < len(b) {
			b[at] ^= flip
		}
		told, err := parseWitness(b)
		if err != nil {
			return
		}
		again, err := parseWitness(append(told.encode(), make([]byte, slotSize)...))
		if err != nil || again != told {
			t.Fatalf("%+v became %+v: %v", told, again, err)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	owner := Owner{"c", 3, 7}
	f.Add(encodeSnapshot(owner, 5, 2, []byte("state")))
	f.Add(encodeSnapshot(Owner{"c", 3, 8}, 5, 2, []byte("state")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		term, data, err := parseSnapshot(b, owner, 5)
		if err != nil {
			return
		}
		m, d, err := parseSnapshot(encodeSnapshot(owner, 5, term, data), owner, 5)
		if err != nil || m != term || !bytes.Equal(d, data) {
			t.Fatalf("snapshot of term %d became one of %d: %v", term, m, err)
		}
	})
}
