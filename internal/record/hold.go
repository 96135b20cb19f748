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

	// MaxHoldPrincipal has room for a kind and a name, as in user/alice.
	MaxHoldPrincipal = 128

	// MaxHoldBytes is the most that AppendHold and AppendHoldPrincipal write of one.
	MaxHoldBytes = holdHeaderBytes + MaxHoldName + MaxHoldOwner + MaxHoldPointer + 2 + MaxHoldPrincipal
)

// Hold keeps every record of a log from Offset on: nothing trims them until the hold
// is moved, released, expired or broken. One of a name is in a log at a time.
type Hold struct {
	Name   string
	Offset Offset
	Owner  string // for people: who to ask before it is released
	// Lease in ms: the hold expires if it is not set again for so long; 0: never.
	Lease uint32
	// MaxBytes and MaxAge (ms) bound what the hold keeps: once that is more, the leader
	// breaks it. 0: no bound.
	MaxBytes, MaxAge int64
	// Pointer is the owner's: where the state lies that the records below Offset have
	// made, for example. A reader that comes too late is given it.
	Pointer []byte
	// Principal is who set or moved it last, as the server knows them, such as user/alice; empty: nobody that is
	// known, as where rights are not enforced.
	Principal string
}

const holdHeaderBytes = 24

// AppendHold encodes what a SetHold command has in its text: all but Offset and Lease,
// which are fields of the command, and Principal, which may follow.
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

// ParseHold reads what AppendHold wrote, and returns what follows it. The hold keeps
// nothing of data. What Check refuses is an error.
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

// AppendHoldPrincipal encodes the principal of a hold, a u16 length and the name. What AppendHold wrote stands
// before it.
func AppendHoldPrincipal(dst []byte, h Hold) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(h.Principal)))
	return append(dst, h.Principal...)
}

// ParseHoldPrincipal reads what AppendHoldPrincipal wrote, and returns what follows it.
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

// AppendHoldCommand encodes the text of a SetHold command: with the principal only if that is known, which only
// later feature levels allow.
func AppendHoldCommand(dst []byte, h Hold) []byte {
	if dst = AppendHold(dst, h); h.Principal != "" {
		dst = AppendHoldPrincipal(dst, h)
	}
	return dst
}

// ParseHoldCommand reads what AppendHoldCommand wrote. What follows it is an error.
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

// Check refuses a hold that no log takes, whatever its records are.
func (h *Hold) Check() *Refusal {
	tooLarge := func(what string, bytes, limit int) *Refusal {
		r := Refuse(TooLarge, "%s of %d bytes, the limit is %d", what, bytes, limit)
		r.Limit = int64(limit)
		return r
	}
	switch {
	case h.Name == "" || !utf8.ValidString(h.Name) || !utf8.ValidString(h.Owner):
		return Refuse(Invalid, "the name of a hold is text of 1 to %d bytes, its owner is text", MaxHoldName)
	case len(h.Name) > MaxHoldName:
		return tooLarge("name", len(h.Name), MaxHoldName)
	case len(h.Owner) > MaxHoldOwner:
		return tooLarge("owner", len(h.Owner), MaxHoldOwner)
	case len(h.Pointer) > MaxHoldPointer:
		return tooLarge("pointer", len(h.Pointer), MaxHoldPointer)
	case h.MaxBytes < 0 || h.MaxAge < 0:
		return Refuse(Invalid, "a hold of at most %d bytes and %d ms", h.MaxBytes, h.MaxAge)
	}
	return nil
}

// Trimmed refuses an offset below the start of a log. It carries the highest of the log's
// holds that has a pointer, because a late reader has least to read behind that.
func Trimmed(asked, start Offset, holds []Hold) *Refusal {
	r := Refuse(OffsetTrimmed, "offset %d is trimmed; the log now starts at %d", asked, start)
	r.Start = start
	for i := range holds {
		// One below the start was released after the caller looked at the start, or
		// before that moved.
		if h := &holds[i]; len(h.Pointer) > 0 && h.Offset >= start && (r.Hold == nil || h.Offset > r.Hold.Offset) {
			r.Hold = h
		}
	}
	if r.Hold != nil {
		r.Detail += fmt.Sprintf("; hold %q points to what is needed to begin at %d", r.Hold.Name, r.Hold.Offset)
	}
	return r
}
