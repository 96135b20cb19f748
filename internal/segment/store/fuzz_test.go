package store

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/test/corpus"
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
// truncating others.
func fuzzSegment() (*format.Header, []byte) {
	h := &format.Header{Salt: 0x5a17, Ordinal: 3, First: 10, TermBefore: 1, Start: 7, SaltBefore: 9, Owner: segment.Owner{Cluster: "c", Log: 3, Replica: 7}, Conf: []byte("conf")}
	content := h.Encode()
	before := h.Crc
	add := func(f format.FrameHeader, payload []byte) {
		f.Length, f.Salt, f.Before, f.PayloadCRC = uint32(len(payload)), h.Salt, before, record.Checksum(payload)
		b := make([]byte, f.Size())
		f.Encode(b, int64(len(content)))
		copy(b[format.FrameHeaderSize:], payload)
		before = f.HeaderCRC
		content = append(content, b...)
	}
	state := make([]byte, format.HardStateSize)
	for _, i := range []uint64{10, 11, 12, 11, 12} {
		add(format.FrameHeader{Kind: format.EntryFrame, Index: i, Term: i, First: record.Offset(i), Count: 1}, []byte("some payload"))
	}
	add(format.FrameHeader{Kind: format.HardStateFrame, Index: 12}, state)
	add(format.FrameHeader{Kind: format.MarkFrame, Index: 12, Synced: int64(len(content))}, state)
	return h, content
}

// damaged is fuzzSegment with damage at a place behind its header, and perhaps with
// checksums that were repaired after it.
func damaged(at uint16, damage []byte, repair bool) (*format.Header, []byte) {
	h, content := fuzzSegment()
	if at := int(at); at < len(content) {
		copy(content[max(at, format.HeaderSize):], damage)
	}
	if repair {
		repairChecksums(content, h)
	}
	return h, content
}

// FuzzWalker proves that a walker takes nothing for a frame that is not one, wherever it
// begins and however it gets the bytes, and that it ends.
func FuzzWalker(f *testing.F) {
	corpus.Add(f)
	f.Add(uint16(format.HeaderSize), []byte{}, true, uint16(format.HeaderSize), false)
	f.Add(uint16(format.HeaderSize+3), []byte{0xff}, true, uint16(0), true)
	f.Add(uint16(format.HeaderSize), []byte{0xff, 0xff, 0, 0}, true, uint16(format.HeaderSize), true)
	f.Fuzz(func(t *testing.T, at uint16, damage []byte, repair bool, from uint16, endUnknown bool) {
		h, content := damaged(at, damage, repair)
		size := int64(len(content))
		whole := format.Walker{Salt: h.Salt, End: size, EndUnknown: endUnknown}
		whole.Use(content, 0)
		read := NewWalker(memoryFile{bytes.NewReader(content)}, "", h.Salt, size, !endUnknown)
		position := int64(from)
		for steps := 0; ; steps++ {
			require.Less(t, steps, len(content))
			found := whole.Search(position)
			require.Equal(t, found, read.Search(position))
			require.NoError(t, whole.Err)
			require.Equal(t, whole.Position, read.Position)
			if !found {
				return
			}
			require.GreaterOrEqual(t, whole.Position, position)
			payload, valid := whole.Payload()
			again, same := read.Payload()
			require.Equal(t, valid, same)
			require.Equal(t, payload, again)
			if valid {
				require.LessOrEqual(t, whole.Position+whole.Frame.Size(), size)
				require.Equal(t, content[whole.Position+format.FrameHeaderSize:][:whole.Frame.Length], payload)
				require.Equal(t, whole.Frame.PayloadCRC, record.Checksum(payload))
			}
			position = whole.Position + format.FrameAlignment
			if whole.Pass(); whole.Next() {
				require.LessOrEqual(t, position, whole.Position, "it goes forward")
			}
		}
	})
}

// FuzzScan damages a segment and repairs the checksums of some frames, so
// that the damage gets past them. Nothing may panic, and what the scan calls
// an entry must be readable where its index says.
func FuzzScan(f *testing.F) {
	corpus.Add(f)
	_, content := fuzzSegment()
	f.Add(uint16(0), []byte{}, true)
	f.Add(uint16(format.HeaderSize), []byte{0xff, 0xff, 0xff, 0xff}, true)
	f.Add(uint16(format.HeaderSize+16), []byte{12}, true)
	f.Add(uint16(len(content)-100), []byte("garbage"), false)
	f.Fuzz(func(t *testing.T, at uint16, damage []byte, repair bool) {
		h, content := damaged(at, damage, repair)
		s, err := scanFile(memoryFile{bytes.NewReader(content)}, "", h, int64(len(content)), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.LookBehind(); err != nil {
			t.Fatal(err)
		}
		if !s.index.Valid(h.First, s.Position) {
			t.Fatalf("index is not valid: %+v", s.index)
		}
		footer := s.index.Encode(nil)
		if _, err := format.ParseFooter(footer, h.First, s.Position); err != nil {
			t.Fatal(err)
		}
		readAll(t, s.index, h, content)
	})
}

// repairChecksums makes every frame that can be recognized as one valid again.
func repairChecksums(content []byte, h *format.Header) {
	before := h.Crc
	for at := int64(format.HeaderSize); at+format.FrameHeaderSize <= int64(len(content)); {
		b := content[at:]
		length := int64(binary.LittleEndian.Uint32(b))
		if length > int64(len(b))-format.FrameHeaderSize {
			return
		}
		binary.LittleEndian.PutUint64(b[8:], h.Salt)
		binary.LittleEndian.PutUint32(b[60:], before)
		binary.LittleEndian.PutUint32(b[64:], record.Checksum(b[format.FrameHeaderSize:][:length]))
		before = format.HeaderChecksum(b, at)
		binary.LittleEndian.PutUint32(b[68:], before)
		at += format.FrameSize(int(length))
	}
}

// readAll reads every entry of x the way cursors do.
func readAll(t *testing.T, x *format.Index, h *format.Header, content []byte) {
	seg := &Segment{file: memoryFile{bytes.NewReader(content)}, index: x, header: h, First: h.First, end: x.Next}
	s := newStore(nil, "", Options{Logger: slog.New(slog.DiscardHandler)})
	for i := h.First; i < x.Next; {
		b, stop := s.reader.chunkAt(seg, i, 0, x.Next, 100)
		if err := b.read(nil); err != nil {
			t.Fatal(err)
		}
		frames, err := b.entries(i, stop, math.MaxInt, 0, math.MaxInt64)
		if err != nil || len(frames) == 0 {
			t.Fatalf("%d entries from %d: %v", len(frames), i, err)
		}
		i += uint64(len(frames))
	}
}

// FuzzSegmentHeader proves that a header that is accepted is one that encode
// writes.
func FuzzSegmentHeader(f *testing.F) {
	corpus.Add(f)
	_, content := fuzzSegment()
	f.Add(uint16(12), []byte{0xff, 0xff}, true)
	f.Add(uint16(0), []byte{}, true)
	f.Fuzz(func(t *testing.T, at uint16, damage []byte, repair bool) {
		b := bytes.Clone(content[:format.HeaderSize])
		copy(b[int(at)%format.HeaderSize:], damage)
		if repair {
			binary.LittleEndian.PutUint32(b[format.HeaderSize-4:], record.Checksum(b[:format.HeaderSize-4]))
		}
		h, err := format.ParseHeader(b)
		if err != nil {
			return
		}
		again, err := format.ParseHeader(h.Encode())
		if err != nil || again.First != h.First || again.Owner != h.Owner || again.SaltBefore != h.SaltBefore || !bytes.Equal(again.Conf, h.Conf) {
			t.Fatalf("%+v became %+v: %v", h, again, err)
		}
	})
}

// FuzzFooter feeds the index decoder, whose CRC a program with a bug may have
// got right. An accepted index must keep lookups in bounds.
func FuzzFooter(f *testing.F) {
	corpus.Add(f)
	h, content := fuzzSegment()
	s, err := scanFile(memoryFile{bytes.NewReader(content)}, "", h, int64(len(content)), false)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.index.Encode(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, format.FooterFixedSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := format.ParseFooter(b, h.First, int64(len(content)))
		if err != nil {
			return
		}
		for i := h.First; i < x.Next && i < h.First+100; i++ {
			x.Term(i)
			r, end := x.Run(i)
			p, ok := x.Below(func(p *format.Point) bool { return p.Index <= i })
			if end <= i || r.First > i || !ok || p.Position < r.Begin {
				t.Fatalf("entry %d: run %+v to %d, point %+v", i, r, end, p)
			}
			if stop := x.ChunkEnd(r, p.Position, 1); stop <= p.Position || stop > int64(len(content)) {
				t.Fatalf("entry %d: chunk from %d to %d", i, p.Position, stop)
			}
		}
	})
}

// FuzzWatermark proves that what ParseWatermark accepts is what Encode writes.
func FuzzWatermark(f *testing.F) {
	corpus.Add(f)
	first := format.Watermark{Counter: 7, Ordinal: 3, Salt: 5, Position: format.HeaderSize, Term: 2, Vote: 1, Last: 9, Owner: segment.Owner{Cluster: "c", Log: 3, Replica: 7}}
	second := first
	second.Counter++
	f.Add(append(second.Encode(), first.Encode()...), uint16(20), byte(0))
	f.Add(first.Encode(), uint16(0), byte(1))
	f.Add([]byte{}, uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		b = bytes.Clone(b) // what the fuzzer gives is its own
		if int(at) < len(b) {
			b[at] ^= flip
		}
		parsed, err := format.ParseWatermark(b)
		if err != nil {
			return
		}
		again, err := format.ParseWatermark(append(parsed.Encode(), make([]byte, format.SlotSize)...))
		if err != nil || again != parsed {
			t.Fatalf("%+v became %+v: %v", parsed, again, err)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	corpus.Add(f)
	owner := segment.Owner{Cluster: "c", Log: 3, Replica: 7}
	f.Add(format.EncodeSnapshot(owner, 5, 2, []byte("state")))
	f.Add(format.EncodeSnapshot(segment.Owner{Cluster: "c", Log: 3, Replica: 8}, 5, 2, []byte("state")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		term, data, err := format.ParseSnapshot(b, owner, 5)
		if err != nil {
			return
		}
		m, d, err := format.ParseSnapshot(format.EncodeSnapshot(owner, 5, term, data), owner, 5)
		if err != nil || m != term || !bytes.Equal(d, data) {
			t.Fatalf("snapshot of term %d became one of %d: %v", term, m, err)
		}
	})
}
