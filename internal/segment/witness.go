package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"strandline.dev/internal/record"
)

// A log whose newest segment is an older copy of itself, or is not there, looks
// like a sound log that ends earlier: nothing behind its end tells of more. The
// replica would vote as if it had never seen what it acknowledged. So another
// file tells how far the log certainly went: the witness. It is written after
// what it tells is durable in the segments,
//
//   - when the term or the vote has changed, before the write that changed it
//     is done: no vote leaves before,
//   - when a segment has been begun,
//   - when the log falls idle or is closed, with the sync mark,
//   - and when Options.WitnessBytes have become durable since.
//
// A log that ends before its witness has forgotten something. What the witness
// cannot see is what became durable since it was written last: less than
// WitnessBytes of entries, in the newest segment, without a new term or vote.
//
// The witness only ever adds a reason for distrust. Without one, or with one
// that is older than the log, the log counts as it is.
//
// The file has two slots, in blocks of their own, which are written in turn. So
// a torn write leaves the other one. The valid slot with the higher counter
// counts. All integers are little-endian.
//
//	 0  u64  magic      "STRANDWT"
//	 8  u32  version
//	12  u32  zero
//	16  u64  counter    rises by one with each writing; its parity is that of the slot
//	24  u64  ordinal    of the newest segment
//	32  u64  salt       of that segment: a file made anew under its name is another
//	40  i64  position   everything in front of it in that segment is durable
//	48  u64  term       of the newest durable hard state
//	56  u64  vote
//	64  u64  last       index of the last entry in front of position
//	72  owner           see Owner
//	120 u32  CRC        of bytes [0, 120); the rest of the block is zero
type witness struct {
	told  testimony
	known bool // told is in the file, in the slot of its counter
}

// testimony is what a slot tells.
type testimony struct {
	counter    uint64
	ordinal    uint64
	salt       uint64
	position   int64
	term, vote uint64
	last       uint64
	owner      Owner
}

const (
	witnessName = "witness"

	witnessMagic   = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'W'<<48 | 'T'<<56
	witnessVersion = 2

	slotSize    = 4096 // a block of the disk: the two share none
	slotFixed   = 72 + ownerSize
	witnessSize = 2 * slotSize

	// defaultWitnessBytes is small beside a segment, and one sync more for so
	// many bytes is not felt.
	defaultWitnessBytes = 8 << 20
)

func (t *testimony) encode() []byte {
	b := make([]byte, slotSize)
	binary.LittleEndian.PutUint64(b, witnessMagic)
	binary.LittleEndian.PutUint32(b[8:], witnessVersion)
	for i, v := range []uint64{t.counter, t.ordinal, t.salt, uint64(t.position), t.term, t.vote, t.last} {
		binary.LittleEndian.PutUint64(b[16+8*i:], v)
	}
	t.owner.encode(b[72:])
	binary.LittleEndian.PutUint32(b[slotFixed:], record.Checksum(b[:slotFixed]))
	return b
}

func (t *testimony) slot() int64 { return int64(t.counter%2) * slotSize }

// errNoTestimony: a slot was never written, or not to its end, or was damaged.
var errNoTestimony = errors.New("not a valid slot")

// errUnknownVersion is not damage: another program wrote it.
var errUnknownVersion = errors.New("version")

// parseTestimony reads a slot. A version that this program does not know is an
// error of its own.
func parseTestimony(b []byte) (t testimony, err error) {
	if len(b) < slotFixed+4 || record.Checksum(b[:slotFixed]) != binary.LittleEndian.Uint32(b[slotFixed:]) ||
		binary.LittleEndian.Uint64(b) != witnessMagic {
		return t, errNoTestimony
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != witnessVersion {
		return t, fmt.Errorf("watermark %w %d, this program knows %d", errUnknownVersion, v, witnessVersion)
	}
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(b[16+8*i:]) }
	t = testimony{counter: n(0), ordinal: n(1), salt: n(2), position: int64(n(3)), term: n(4), vote: n(5), last: n(6), owner: parseOwner(b[72:])}
	if t.position < headerSize || t.position > maxPosition {
		return testimony{}, errNoTestimony
	}
	return t, nil
}

// parseWitness returns what the newest valid slot tells; errNoTestimony if there
// is none.
func parseWitness(b []byte) (newest testimony, err error) {
	valid := false
	for at := 0; at+slotSize <= min(len(b), witnessSize); at += slotSize {
		t, err := parseTestimony(b[at : at+slotSize])
		switch {
		case errors.Is(err, errNoTestimony):
		case err != nil:
			return testimony{}, err
		case !valid || t.counter > newest.counter:
			newest, valid = t, true
		}
	}
	if !valid {
		return testimony{}, errNoTestimony
	}
	return newest, nil
}

// readWitness learns what the witness tells. One that is missing or damaged is
// no loss by itself: lacks says so, and the next occasion makes it anew.
func (s *Store) readWitness() (lacks, err error) {
	b, err := s.fs.ReadFile(s.witnessPath())
	if errors.Is(err, fs.ErrNotExist) || unreadable(err) {
		return err, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the witness: %w", err)
	}
	told, err := s.checkWitness(b)
	if errors.Is(err, errUnknownVersion) {
		return nil, err
	}
	if err != nil {
		return err, nil
	}
	s.witness = witness{told, true}
	return nil, nil
}

// checkWitness returns what the content of the file tells, if it is whole and that
// of this log.
func (s *Store) checkWitness(b []byte) (told testimony, err error) {
	told, err = parseWitness(b)
	if err == nil && len(b) < witnessSize {
		err = errNoTestimony // there is no room for the next slot
	}
	if errors.Is(err, errNoTestimony) {
		err = fmt.Errorf("%d bytes: %w", len(b), err)
	}
	if err == nil {
		err = s.options.Owner.foreign(told.owner)
	}
	if err != nil {
		return testimony{}, fmt.Errorf("%s: %w", s.witnessPath(), err)
	}
	return told, nil
}

func (s *Store) witnessPath() string {
	if s.options.Watermark != "" {
		return s.options.Watermark
	}
	return filepath.Join(s.dir, witnessName)
}

// noteDurable notes that everything written is durable, for the witness. A sync
// mark at the end is left out: nobody misses one.
func (s *Store) noteDurable() {
	s.synced = s.position
	s.active.durable.Store(s.synced)
	s.durable = testimony{
		ordinal: s.active.ordinal, salt: s.active.header.salt, position: s.synced,
		term: s.hard.Term, vote: s.hard.Vote, last: s.active.index.next - 1,
	}
	if s.marked == s.synced && s.marked > headerSize {
		s.durable.position -= frameSize(hardStateSize)
	}
}

// testify tells the witness what is durable.
func (s *Store) testify() error { return s.tell(s.durable) }

// testifyIfDue does so if the witness lacks what must not be missed.
func (s *Store) testifyIfDue() error {
	told, now := &s.witness.told, &s.durable
	if s.witness.known && told.ordinal == now.ordinal && told.term == now.term && told.vote == now.vote &&
		now.position-told.position < s.options.WitnessBytes {
		return nil
	}
	return s.testify()
}

// tell writes the slot that does not hold what was told last.
func (s *Store) tell(t testimony) error {
	t.counter, t.owner = s.witness.told.counter, s.options.Owner
	if s.spoiled.Swap(false) {
		s.witness.known = false
	}
	if s.witness.known && t == s.witness.told {
		return nil
	}
	t.counter++
	var err error
	if s.witness.known {
		err = s.writeSlot(&t)
	} else {
		err = s.makeWitness(&t)
		if errors.Is(err, syscall.ENOSPC) {
			// A full disk must not keep a log from voting and trimming that had
			// no witness before either.
			s.options.Logger.Warn("no room for the witness; made when there is", "dir", s.dir, "error", err)
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("write the witness: %w", err)
	}
	s.witness = witness{t, true}
	return nil
}

func (s *Store) writeSlot(t *testimony) error {
	file := s.handles.watermark
	if file == nil {
		var err error
		if file, err = s.fs.Open(s.witnessPath()); err != nil {
			return err
		}
		if err := s.holdWatermark(file); err != nil {
			return err
		}
	}
	if _, err := file.WriteAt(t.encode(), t.slot()); err != nil {
		return err
	}
	return file.Datasync()
}

// makeWitness makes the whole file, so that no later slot needs room.
func (s *Store) makeWitness(t *testimony) error {
	b := make([]byte, witnessSize)
	copy(b[t.slot():], t.encode())
	if err := WriteFileDurably(s.fs, s.witnessPath(), b); err != nil {
		return err
	}
	file, err := s.fs.Open(s.witnessPath())
	if err != nil {
		return err
	}
	return s.holdWatermark(file)
}

// tip is where a log was found to end.
type tip struct {
	header   *header // of the newest segment
	position int64   // behind its last frame
	hard     HardState
	last     uint64 // index of the last entry
}

// misses tells what the log lacks that ends there; "" if nothing is known to be
// missing.
func (w *witness) misses(end tip) string {
	told, behind := &w.told, ""
	switch h := end.header; {
	case !w.known:
	case h.ordinal < told.ordinal:
		behind = "its newest segment is missing"
	case h.ordinal == told.ordinal && !h.mended() && h.salt != told.salt:
		behind = "its newest segment is another file"
	// A mended segment is laid out anew, and complete.
	case h.ordinal == told.ordinal && !h.mended() && end.position < told.position:
		behind = "its newest segment is an older copy, or damaged there"
	case end.hard.Term < told.term:
		behind = "a term is missing"
	case end.hard.Term == told.term && told.vote != 0 && end.hard.Vote != told.vote:
		behind = "a vote is missing"
	}
	if behind == "" {
		return ""
	}
	return fmt.Sprintf("the log ends before what was known to be durable, %s: it ends in segment %d at byte %d, entry %d, term %d, vote %d; "+
		"the witness tells of segment %d, byte %d, entry %d, term %d, vote %d", behind,
		end.header.ordinal, end.position, end.last, end.hard.Term, end.hard.Vote,
		told.ordinal, told.position, told.last, told.term, told.vote)
}

// vouches is the position in front of which everything in the segment of h was
// durable, as far as the witness knows; 0 if it does not.
func (w *witness) vouches(h *header) int64 {
	if h == nil || !w.known || h.ordinal != w.told.ordinal || h.salt != w.told.salt {
		return 0
	}
	return w.told.position
}
