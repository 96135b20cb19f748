package statemachine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
)

// A snapshot is a header, what the program has written, and a CRC-32C of both:
//
//	magic    8 bytes, with the version of the format
//	log id   8 bytes
//	offset   8 bytes: the records below it are applied
//	digest   1 byte with its length, and the digest of the state; empty: none
//	state    until the last 4 bytes
//	crc      4 bytes
//
// Numbers are big-endian.
const snapshotMagic = "SLSNAP\x00\x01"

// maxDigestBytes bounds the digest of a state.
const maxDigestBytes = 64

var (
	castagnoli         = crc32.MakeTable(crc32.Castagnoli)
	errDamagedSnapshot = errors.New("the snapshot is damaged")
)

// snapshot is a state at an offset, ready to be stored.
type snapshot struct {
	log    uint64
	offset int64
	digest []byte
	state  io.WriterTo
}

// name returns the name of a snapshot. Names of one log sort by offset.
func (s *snapshot) name() string { return snapshotName(s.log, s.offset) }

func snapshotName(log uint64, offset int64) string { return fmt.Sprintf("%016x-%019d", log, offset) }

// parseSnapshotName returns the offset in the name of a snapshot of a log.
func parseSnapshotName(log uint64, name string) (offset int64, ok bool) {
	digits, found := strings.CutPrefix(name, fmt.Sprintf("%016x-", log))
	if !found || len(digits) != 19 {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && offset >= 0
}

// WriteTo writes the header, the state and the checksum.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &summed{w: w, sum: crc32.New(castagnoli)}
	buffered := bufio.NewWriterSize(out, 64<<10)
	header := []byte(snapshotMagic)
	header = binary.BigEndian.AppendUint64(header, s.log)
	header = binary.BigEndian.AppendUint64(header, uint64(s.offset))
	header = append(append(header, byte(len(s.digest))), s.digest...)
	if _, err := buffered.Write(header); err != nil {
		return out.n, err
	}
	if _, err := s.state.WriteTo(buffered); err != nil {
		return out.n, err
	}
	if err := buffered.Flush(); err != nil {
		return out.n, err
	}
	_, err := out.Write(out.sum.Sum(nil))
	return out.n, err
}

// summed counts what is written, with its checksum.
type summed struct {
	w   io.Writer
	sum hash.Hash32
	n   int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.sum.Write(b[:n])
	s.n += int64(n)
	return n, err
}

// readSnapshot restores the snapshot of a log at an offset, of size bytes. It returns the digest that
// the snapshot has of its state. With errDamagedSnapshot, restore may have been called with a part of
// it.
func readSnapshot(content io.Reader, size int64, log uint64, offset int64, restore func(io.Reader) error) (digest []byte, err error) {
	sum := crc32.New(castagnoli)
	body := io.TeeReader(io.LimitReader(content, size-crc32.Size), sum)
	header := make([]byte, len(snapshotMagic)+8+8+1)
	if _, err := io.ReadFull(body, header); err != nil {
		return nil, damaged(err)
	}
	magic, numbers := header[:len(snapshotMagic)], header[len(snapshotMagic):]
	switch length := int(numbers[16]); {
	case string(magic) != snapshotMagic:
		return nil, fmt.Errorf("%w: it does not begin like a snapshot of this version", errDamagedSnapshot)
	case binary.BigEndian.Uint64(numbers) != log || binary.BigEndian.Uint64(numbers[8:]) != uint64(offset):
		return nil, fmt.Errorf("%w: its log or offset differs from its name", errDamagedSnapshot)
	case length > maxDigestBytes:
		return nil, fmt.Errorf("%w: it has a digest of %d bytes", errDamagedSnapshot, length)
	default:
		digest = make([]byte, length)
	}
	if _, err := io.ReadFull(body, digest); err != nil {
		return nil, damaged(err)
	}
	restored := restore(body)
	// The checksum covers the remaining bytes too: it shows whether restore read intact data.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return nil, damaged(err)
	}
	stored := make([]byte, crc32.Size)
	if _, err := io.ReadFull(content, stored); err != nil {
		return nil, damaged(err)
	}
	if !bytes.Equal(stored, sum.Sum(nil)) {
		return nil, fmt.Errorf("%w: its checksum differs", errDamagedSnapshot)
	}
	return digest, restored
}

func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", errDamagedSnapshot)
	}
	return err
}
