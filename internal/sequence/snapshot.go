package sequence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
)

// Layout of a snapshot. The version is 3 if the log has a digest, otherwise 2 if it has holds,
// otherwise 1. All integers are little-endian.
//
//	 0  u32  version
//	 4  u32  flags             1: sealed, 2: fenced, 4: holds have principals, 8: a writer has the lease
//	 8  i64  start
//	16  i64  end
//	24  i64  time              unix ms
//	32  u64  chain
//	40  u64  writer term
//	48  u32  config length
//	52  u32  open sessions
//	56  u32  ended sessions
//	60  config
//	    in version 3: what digest.Tree.Append writes
//	    the open sessions by id, then the ended ones, oldest end first
//	    in versions 2 and 3: u32 holds, the holds by name
//	    with flag 8: the writer
//	    u32 CRC-32C of everything before
//
// A session:
//
//	 0  u64  id
//	 8  i64  ended at          unix ms; 0 if open
//	16  u32  flags             1: implicit
//	20  u32  lease             ms
//	24  u64  low-water mark
//	32  u32  known from        epoch
//	36  u32  past epochs
//	40  the past epochs that took records, oldest first, then the current one
//
// A hold is an i64 offset and a u32 lease (ms), then what record.AppendHold writes and, with flag
// 4, record.AppendHoldPrincipal.
//
// A writer is an i64 time of the grant (unix ms), a u32 lease (ms) and a u32 length of what
// record.AppendWriter writes, which follows.
//
// An epoch:
//
//	 0  u64  next sequence
//	 8  u32  epoch
//	12  u32  spans
//	16  the spans, oldest first: u64 first sequence, u64 count, i64 offset
const (
	snapshotVersion     = 1
	snapshotWithHolds   = 2
	snapshotWithDigest  = 3
	snapshotHeaderBytes = 60
	sessionHeaderBytes  = 40
	epochHeaderBytes    = 16
	spanBytes           = 24
	snapshotSealed      = 1 << 0
	snapshotFenced      = 1 << 1
	snapshotPrincipals  = 1 << 2
	snapshotWriter      = 1 << 3
	sessionImplicit     = 1 << 0
)

// MaxSnapshotBytes is the maximum size of a snapshot of a table within all limits: each session
// may remember MinSpansPerSession whatever the others do. The tree of a digest has at most 64
// peaks.
const MaxSnapshotBytes = snapshotHeaderBytes + MaxConfigBytes + digest.MaxStateBytes +
	(MaxOpenSessions+MaxEndedSessions)*(sessionHeaderBytes+(MaxPastEpochs+1)*epochHeaderBytes) +
	(MaxSpans+(MaxOpenSessions+MaxEndedSessions)*MinSpansPerSession)*spanBytes +
	4 + MaxHolds*(12+record.MaxHoldBytes) + 16 + record.MaxWriterBytes + 4

// ErrSnapshot is wrapped by every error of RestoreTable.
var ErrSnapshot = errors.New("malformed table snapshot")

// Snapshot appends the encoded table to dst. Equal tables have equal encodings.
func (t *Table) Snapshot(dst []byte) []byte {
	le := binary.LittleEndian
	begin := len(dst)
	flags := uint32(0)
	if t.log.sealed {
		flags |= snapshotSealed
	}
	if t.log.fenced {
		flags |= snapshotFenced
	}
	// Set only if a hold has a principal, which only later feature levels permit: earlier releases
	// refuse the flag.
	principals := slices.ContainsFunc(t.Holds(), func(h record.Hold) bool { return h.Principal != "" })
	if principals {
		flags |= snapshotPrincipals
	}
	if t.log.writer != nil { // for which there is a feature level, too
		flags |= snapshotWriter
	}
	version := uint32(snapshotVersion)
	switch {
	case t.digest.Begun:
		version = snapshotWithDigest
	case t.log.holds != nil:
		version = snapshotWithHolds
	}
	dst = le.AppendUint32(dst, version)
	dst = le.AppendUint32(dst, flags)
	dst = le.AppendUint64(dst, uint64(t.log.start))
	dst = le.AppendUint64(dst, uint64(t.log.end))
	dst = le.AppendUint64(dst, uint64(t.time))
	dst = le.AppendUint64(dst, t.chain)
	dst = le.AppendUint64(dst, uint64(t.log.writerTerm))
	dst = le.AppendUint32(dst, uint32(len(t.config)))
	dst = le.AppendUint32(dst, uint32(t.log.sessions))
	dst = le.AppendUint32(dst, uint32(t.EndedSessions()))
	dst = append(dst, t.config...)
	if version == snapshotWithDigest {
		dst = t.digest.Append(dst)
	}

	t.sessions.byID.Scan(func(_ record.SessionID, s *session) bool {
		if s.open {
			dst = appendSession(dst, s)
		}
		return true
	})
	t.sessions.ended.Scan(func(_ uint64, id record.SessionID) bool {
		dst = appendSession(dst, t.sessions.get(id))
		return true
	})
	if version != snapshotVersion {
		dst = le.AppendUint32(dst, uint32(len(t.Holds())))
	}
	for _, h := range t.Holds() {
		dst = le.AppendUint64(dst, uint64(h.Offset))
		dst = le.AppendUint32(dst, h.Lease)
		if dst = record.AppendHold(dst, h); principals {
			dst = record.AppendHoldPrincipal(dst, h)
		}
	}
	if w := t.log.writer; w != nil {
		dst = le.AppendUint64(dst, uint64(t.leased))
		dst = le.AppendUint32(dst, w.Lease)
		text := record.AppendWriter(nil, *w)
		dst = le.AppendUint32(dst, uint32(len(text)))
		dst = append(dst, text...)
	}
	return le.AppendUint32(dst, record.Checksum(dst[begin:]))
}

func appendSession(dst []byte, s *session) []byte {
	le := binary.LittleEndian
	flags := uint32(0)
	if s.implicit {
		flags |= sessionImplicit
	}
	dst = le.AppendUint64(dst, uint64(s.id))
	dst = le.AppendUint64(dst, uint64(s.endedAt))
	dst = le.AppendUint32(dst, flags)
	dst = le.AppendUint32(dst, s.lease)
	dst = le.AppendUint64(dst, uint64(s.lowWater))
	dst = le.AppendUint32(dst, uint32(s.knownFrom))
	dst = le.AppendUint32(dst, uint32(len(s.past)))
	for i := range s.past {
		dst = appendEpoch(dst, s.past[i].epoch, s.past[i].next, &s.past[i].spans)
	}
	return appendEpoch(dst, s.epoch, s.next, &s.spans)
}

func appendEpoch(dst []byte, epoch record.Epoch, next record.Sequence, spans *spanList) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(next))
	dst = le.AppendUint32(dst, uint32(epoch))
	dst = le.AppendUint32(dst, uint32(spans.len()))
	for i := range spans.len() {
		p := spans.at(i)
		dst = le.AppendUint64(dst, uint64(p.first))
		dst = le.AppendUint64(dst, p.count)
		dst = le.AppendUint64(dst, uint64(p.offset))
	}
	return dst
}

// RestoreTable decodes the result of Snapshot. The table does not alias data. It takes no more
// memory than a small multiple of len(data).
func RestoreTable(data []byte) (*Table, error) {
	t := NewTable()
	r, version, open, ended, err := restoreHead(data, t)
	if err != nil {
		return nil, err
	}
	for i := uint32(0); i < open && r.fault == ""; i++ {
		r.session(t, true)
	}
	for i := uint32(0); i < ended && r.fault == ""; i++ {
		r.session(t, false)
	}
	if version != snapshotVersion {
		r.holds(&t.log, version == snapshotWithDigest)
	}
	if r.leased {
		r.writer(t)
	}
	r.expect(len(r.rest) == 0, "bytes behind the end")
	if r.fault != "" {
		return nil, fmt.Errorf("%w: %s", ErrSnapshot, r.fault)
	}
	return t, nil
}

// RestoreDigest decodes only the tree of a snapshot, in time independent of the number of
// sessions.
func RestoreDigest(data []byte) (digest.Tree, error) {
	t := &Table{}
	r, _, _, _, err := restoreHead(data, t)
	if err == nil && r.fault != "" {
		err = fmt.Errorf("%w: %s", ErrSnapshot, r.fault)
	}
	return t.digest, err
}

// restoreHead decodes a snapshot up to the sessions, and returns their numbers.
func restoreHead(data []byte, t *Table) (r *decoder, version, open, ended uint32, err error) {
	if len(data) < snapshotHeaderBytes+4 {
		return nil, 0, 0, 0, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(data))
	}
	le := binary.LittleEndian
	version = le.Uint32(data)
	if version < snapshotVersion || version > snapshotWithDigest {
		return nil, 0, 0, 0, fmt.Errorf("%w: version %d, this program supports %d to %d", ErrSnapshot, version, snapshotVersion, snapshotWithDigest)
	}
	body, stored := data[:len(data)-4], le.Uint32(data[len(data)-4:])
	if sum := record.Checksum(body); sum != stored {
		return nil, 0, 0, 0, fmt.Errorf("%w: CRC %08x, its bytes give %08x", ErrSnapshot, stored, sum)
	}
	r = &decoder{rest: body[8:]}
	flags := le.Uint32(data[4:])
	t.log.sealed, t.log.fenced = flags&snapshotSealed != 0, flags&snapshotFenced != 0
	t.log.start = record.Offset(r.u64())
	t.log.end = record.Offset(r.u64())
	t.time = int64(r.u64())
	t.chain = r.u64()
	t.log.writerTerm = record.WriterTerm(r.u64())
	config := r.u32()
	open, ended = r.u32(), r.u32()
	t.config = append(t.config, r.take(uint64(config), 1)...)
	r.expect(t.log.start >= 0 && t.log.start <= t.log.end, "start beyond end")
	r.principals = flags&snapshotPrincipals != 0
	r.leased = flags&snapshotWriter != 0
	r.expect(flags&^(snapshotSealed|snapshotFenced|snapshotPrincipals|snapshotWriter) == 0, "unknown flags")
	t.digest.Covered, t.digest.End = t.log.end, t.log.end
	if version == snapshotWithDigest && r.fault == "" {
		t.digest, r.rest, err = digest.Parse(r.rest, t.log.end)
		r.expect(err == nil, "malformed digest")
		t.log.digested, t.log.uncovered = true, t.digest.Uncovered
	}
	return r, version, open, ended, nil
}

// session decodes a session into a table and checks everything on which Fold and Resolve rely.
func (r *decoder) session(t *Table, open bool) {
	s := &session{id: record.SessionID(r.u64()), endedAt: int64(r.u64())}
	flags := r.u32()
	s.open, s.implicit = open, flags&sessionImplicit != 0
	s.lease = r.u32()
	s.lowWater = record.Sequence(r.u64())
	s.knownFrom = record.Epoch(r.u32())
	s.past = make([]life, len(r.peek(uint64(r.u32()), epochHeaderBytes))/epochHeaderBytes)
	above := uint64(s.knownFrom) // the lowest epoch that may come next
	for i := range s.past {
		l := &s.past[i]
		l.epoch, l.next = r.epoch(t.log.end, s, &l.spans)
		r.expect(uint64(l.epoch) >= above && l.next > 0, "past epochs out of order")
		above = uint64(l.epoch) + 1
	}
	s.epoch, s.next = r.epoch(t.log.end, s, &s.spans)

	r.expect(flags&^sessionImplicit == 0, "unknown flags of a session")
	r.expect(uint64(s.epoch) >= above, "current epoch below a past one")
	r.expect(s.id != 0 && t.sessions.get(s.id) == nil, "session id twice, or 0")
	r.expect(s.lease > 0 && s.lowWater <= s.next, "low-water mark or lease out of range")
	r.expect(!open || s.endedAt == 0, "open session with an end")
	if _, last, found := t.sessions.ended.Max(); !open && found {
		r.expect(t.sessions.get(last).endedAt <= s.endedAt, "ended sessions out of order")
	}
	if r.fault != "" {
		return
	}
	t.sessions.add(s)
	t.sessions.remembers(s, s.remember, len(s.past))
	if open {
		t.log.sessions++
	} else {
		t.sessions.end(s)
	}
}

func (r *decoder) holds(l *logState, none bool) {
	count := r.u32()
	r.expect((count > 0 || none) && count <= MaxHolds, "no holds, or too many")
	above := ""
	for ; count > 0 && r.fault == ""; count-- {
		offset, lease := record.Offset(r.u64()), r.u32()
		h, rest, err := record.ParseHold(r.rest)
		if err == nil && r.principals {
			h.Principal, rest, err = record.ParseHoldPrincipal(rest)
		}
		r.expect(err == nil, "malformed hold")
		r.expect(h.Name > above, "holds out of order")
		r.expect(offset >= l.start && offset <= l.end && lease <= MaxHoldLeaseMs, "hold outside of the log, or of too long a lease")
		if r.fault != "" {
			return
		}
		r.rest, above = rest, h.Name
		h.Offset, h.Lease = offset, lease
		l.holds = l.holds.with(h)
	}
}

func (r *decoder) writer(t *Table) {
	leased, lease := int64(r.u64()), r.u32()
	w, err := record.ParseWriter(r.take(uint64(r.u32()), 1))
	r.expect(err == nil, "malformed writer")
	r.expect(lease > 0 && lease <= MaxWriterLeaseMs && t.log.writerTerm > 0, "writer without a term, or of no lease, or too long a one")
	if r.fault == "" {
		w.Lease = lease
		t.leased, t.log.writer = leased, &w
	}
}

func (r *decoder) epoch(end record.Offset, s *session, spans *spanList) (record.Epoch, record.Sequence) {
	next := record.Sequence(r.u64())
	epoch := record.Epoch(r.u32())
	rows := decoder{rest: r.take(uint64(r.u32()), spanBytes)}
	last := record.Sequence(0) // end of the span before
	for len(rows.rest) > 0 {
		p := span{first: record.Sequence(rows.u64()), count: rows.u64(), offset: record.Offset(rows.u64())}
		r.expect(p.count > 0 && p.first >= last && p.end() > p.first && p.end() <= next, "spans out of order")
		r.expect(p.offset >= 0 && p.offset <= end && p.count <= uint64(end-p.offset), "span beyond the end")
		last = p.end()
		spans.pushBack(p)
	}
	s.remember += spans.len()
	return epoch, next
}

// decoder decodes integers from a byte slice. After the first fault everything reads as zero, so
// callers check once.
type decoder struct {
	rest       []byte
	fault      string
	principals bool // holds have them
	leased     bool // a writer has the lease
}

func (r *decoder) expect(holds bool, fault string) {
	if !holds && r.fault == "" {
		r.fault, r.rest = fault, nil
	}
}

// peek returns count items of size bytes without consuming them, or nothing if there are fewer.
func (r *decoder) peek(count uint64, size int) []byte {
	r.expect(count <= uint64(len(r.rest)/size), "cut short")
	if r.fault != "" {
		return nil
	}
	return r.rest[:count*uint64(size)]
}

func (r *decoder) take(count uint64, size int) []byte {
	b := r.peek(count, size)
	r.rest = r.rest[len(b):]
	return b
}

func (r *decoder) u32() uint32 {
	if b := r.take(4, 1); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *decoder) u64() uint64 {
	if b := r.take(8, 1); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
