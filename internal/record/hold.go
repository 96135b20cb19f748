package record

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Limits of a hold. All of a log's holds are in each of its snapshots.
const (
	MaxHoldName    = 128  // bytes
	MaxHoldOwner   = 256  // bytes
	MaxHoldPointer = 4096 // bytes

	// MaxHoldPrincipal bounds a kind and a name, as in user/alice.
	MaxHoldPrincipal = 128

	// MaxHoldBytes is the maximum number of bytes that AppendHold and AppendHoldPrincipal write for
	// one hold.
	MaxHoldBytes = holdHeaderBytes + MaxHoldName + MaxHoldOwner + MaxHoldPointer + 2 + MaxHoldPrincipal
)

// Hold keeps every record of a log from Offset on: nothing trims them until the hold is moved,
// released, expired or broken. The names of a log's holds are unique.
type Hold struct {
	Name   string
	Offset Offset
	Owner  string // a text for people: whom to ask before the hold is released
	// Lease is the time in milliseconds after which the hold expires unless it is set again; 0: it
	// never expires.
	Lease uint32
	// MaxBytes and MaxAge (ms) bound what the hold keeps. Once it keeps more, the leader breaks it.
	// 0: no bound.
	MaxBytes, MaxAge int64
	// Pointer is set by the client that sets the hold: for example, the location of the state derived from the records
	// below Offset. Readers of trimmed offsets receive it.
	Pointer []byte
	// Principal is the principal that last set or moved the hold, such as user/alice; empty if it is
	// not known, for example because rights are not enforced.
	Principal string
}

const holdHeaderBytes = 24

// AppendHold appends the encoding of a hold in the text of a SetHold command: everything but
// Offset and Lease, which are fields of the command, and Principal, which may follow.
//
//	 0  i64  most bytes kept
//	 8  i64  most age kept, ms
//	16  u16  name length
//	18  u16  owner length
//	20  u32  pointer length
//	24  name, owner, pointer
func AppendHold(dst []byte, h Hold) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(h.MaxBytes))
	dst = le.AppendUint64(dst, uint64(h.MaxAge))
	dst = le.AppendUint16(dst, uint16(len(h.Name)))
	dst = le.AppendUint16(dst, uint16(len(h.Owner)))
	dst = le.AppendUint32(dst, uint32(len(h.Pointer)))
	dst = append(dst, h.Name...)
	dst = append(dst, h.Owner...)
	return append(dst, h.Pointer...)
}

// ParseHold decodes the result of AppendHold, and returns what follows it. The hold does not
// alias data. A hold that Check refuses is an error.
func ParseHold(data []byte) (h Hold, rest []byte, err error) {
	if len(data) < holdHeaderBytes {
		return Hold{}, nil, fmt.Errorf("%w: hold of %d bytes", ErrEntry, len(data))
	}
	le := binary.LittleEndian
	name, owner, pointer := int(le.Uint16(data[16:])), int(le.Uint16(data[18:])), int(le.Uint32(data[20:]))
	body := data[holdHeaderBytes:]
	if name+owner > len(body) || pointer > len(body)-name-owner {
		return Hold{}, nil, fmt.Errorf("%w: hold of %d bytes, with %d, %d and %d", ErrEntry, len(data), name, owner, pointer)
	}
	h = Hold{
		MaxBytes: int64(le.Uint64(data)), MaxAge: int64(le.Uint64(data[8:])),
		Name: string(body[:name]), Owner: string(body[name : name+owner]),
		Pointer: append([]byte(nil), body[name+owner:name+owner+pointer]...),
	}
	if r := h.Check(); r != nil {
		return Hold{}, nil, fmt.Errorf("%w: %s", ErrEntry, r.Detail)
	}
	return h, body[name+owner+pointer:], nil
}

// AppendHoldPrincipal appends the encoded principal of a hold, a u16 length and the name. It
// follows the result of AppendHold.
func AppendHoldPrincipal(dst []byte, h Hold) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(h.Principal)))
	return append(dst, h.Principal...)
}

// ParseHoldPrincipal decodes the result of AppendHoldPrincipal, and returns what follows it.
func ParseHoldPrincipal(data []byte) (principal string, rest []byte, err error) {
	if len(data) < 2 {
		return "", nil, fmt.Errorf("%w: principal of a hold, of %d bytes", ErrEntry, len(data))
	}
	length := int(binary.LittleEndian.Uint16(data))
	data = data[2:]
	if length > MaxHoldPrincipal || length > len(data) || !utf8.Valid(data[:length]) {
		return "", nil, fmt.Errorf("%w: principal of a hold, of %d bytes, in %d", ErrEntry, length, len(data))
	}
	return string(data[:length]), data[length:], nil
}

// AppendHoldCommand appends the encoded text of a SetHold command to dst. It includes the
// principal only if that is known, since only later feature levels permit it.
func AppendHoldCommand(dst []byte, h Hold) []byte {
	if dst = AppendHold(dst, h); h.Principal != "" {
		dst = AppendHoldPrincipal(dst, h)
	}
	return dst
}

// ParseHoldCommand decodes the result of AppendHoldCommand. Further bytes are an error.
func ParseHoldCommand(data []byte) (Hold, error) {
	h, rest, err := ParseHold(data)
	if err == nil && len(rest) > 0 {
		h.Principal, rest, err = ParseHoldPrincipal(rest)
	}
	switch {
	case err != nil:
		return Hold{}, err
	case len(rest) > 0:
		return Hold{}, fmt.Errorf("%w: %d bytes behind a hold", ErrEntry, len(rest))
	}
	return h, nil
}

// Check refuses a hold that no log accepts.
func (h *Hold) Check() *Refusal {
	tooLarge := func(what string, bytes, limit int) *Refusal {
		r := Refuse(TooLarge, "%s of %d bytes, the limit is %d", what, bytes, limit)
		r.Limit = int64(limit)
		return r
	}
	switch {
	case h.Name == "" || !utf8.ValidString(h.Name) || !utf8.ValidString(h.Owner):
		return Refuse(Invalid, "the name of a hold must be text of 1 to %d bytes, its owner must be text", MaxHoldName)
	case len(h.Name) > MaxHoldName:
		return tooLarge("name", len(h.Name), MaxHoldName)
	case len(h.Owner) > MaxHoldOwner:
		return tooLarge("owner", len(h.Owner), MaxHoldOwner)
	case len(h.Pointer) > MaxHoldPointer:
		return tooLarge("pointer", len(h.Pointer), MaxHoldPointer)
	case h.MaxBytes < 0 || h.MaxAge < 0:
		return Refuse(Invalid, "the limits of a hold must be 0 or more, not %d bytes and %d ms", h.MaxBytes, h.MaxAge)
	}
	return nil
}

// Trimmed returns the refusal of an offset below the start of a log. It contains the highest of
// the log's holds that has a pointer, since a late reader has least to read from there.
func Trimmed(asked, start Offset, holds []Hold) *Refusal {
	r := Refuse(OffsetTrimmed, "offset %d is trimmed; the log now starts at %d", asked, start)
	r.Start = start
	for i := range holds {
		// A hold below the start was released after the caller read the start, or before the start
		// moved.
		if h := &holds[i]; len(h.Pointer) > 0 && h.Offset >= start && (r.Hold == nil || h.Offset > r.Hold.Offset) {
			r.Hold = h
		}
	}
	if r.Hold != nil {
		r.Detail += fmt.Sprintf("; hold %q points to what is needed to begin at %d", r.Hold.Name, r.Hold.Offset)
	}
	return r
}
