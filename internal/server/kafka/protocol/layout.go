package protocol

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// Layout is the layout of a request with respect to lengths and counts. The decoder of kmsg trusts
// a count before it has read the counted elements: it allocates by it, or loops. So a request is
// first checked against its layout, and decoded only if it is complete.
//
// A layout is written as one field after the other:
//
//	b h i l u   bool or int8, int16, int32, int64, uuid
//	s r         string, bytes; either may be null
//	[ ... ]     array of structs
//	( x )       array of a plain type
//	{ ... }     struct that may be null
//	x@3 x@3-5   only from version 3 on, only in versions 3 to 5
//
// In a flexible version every struct ends with tagged fields, and lengths are varints. The layout
// does not contain this; Check adds it.
type Layout []field

type field struct {
	kind     byte // a letter of the above; '[' and '(' for arrays, '{' for a struct
	inner    Layout
	min, max int16
}

// ParseLayout parses a layout. It panics if the text is invalid, since layouts are constants.
func ParseLayout(text string) Layout {
	l, rest := parseFields(text, 0)
	if rest != "" {
		panic("layout: unexpected " + rest)
	}
	return l
}

func parseFields(text string, closing byte) (Layout, string) {
	var l Layout
	for {
		text = strings.TrimLeft(text, " ")
		switch {
		case text == "" && closing == 0:
			return l, ""
		case text == "":
			panic("layout: an array is not closed")
		case text[0] == closing:
			return l, text[1:]
		}
		f := field{kind: text[0], max: 1<<15 - 1}
		text = text[1:]
		switch f.kind {
		case '[':
			f.inner, text = parseFields(text, ']')
		case '(':
			f.inner, text = parseFields(text, ')')
		case '{':
			f.inner, text = parseFields(text, '}')
		case 'b', 'h', 'i', 'l', 'u', 's', 'r':
		default:
			panic("layout: unknown field " + string(f.kind))
		}
		if strings.HasPrefix(text, "@") {
			n := strings.IndexFunc(text[1:], func(r rune) bool { return r != '-' && (r < '0' || r > '9') })
			versions := text[1:]
			if n >= 0 {
				versions = text[1 : 1+n]
			}
			text = text[1+len(versions):]
			from, to, both := strings.Cut(versions, "-")
			f.min = parseVersion(from)
			if both {
				f.max = parseVersion(to)
			}
		}
		l = append(l, f)
	}
}

func parseVersion(text string) int16 {
	v, err := strconv.ParseInt(text, 10, 16)
	if err != nil {
		panic("layout: version: " + err.Error())
	}
	return int16(v)
}

var errLayout = errors.New("a length or a count goes beyond the request")

// Check verifies that data begins with one complete request of this layout, counts its fields,
// elements and tags, and returns the bytes that follow it. They have no meaning: librdkafka
// sometimes sends an extra byte.
func (l Layout) Check(data []byte, version int16, flexible bool) (rest []byte, parts int, err error) {
	w := Walk{Rest: data, Version: version, Flexible: flexible}
	if !w.fields(l, true) {
		return nil, 0, errLayout
	}
	return w.Rest, w.parts, nil
}

// Walk reads the fields of a request in order. Its methods report whether the field is complete.
type Walk struct {
	Rest     []byte
	Version  int16
	Flexible bool
	parts    int // passed so far
}

// fields walks a struct. tagged means that it ends with tagged fields, if the version is flexible.
func (w *Walk) fields(l Layout, tagged bool) bool {
	for i := range l {
		f := &l[i]
		if w.Version < f.min || w.Version > f.max {
			continue
		}
		if !w.field(f) {
			return false
		}
	}
	return !tagged || !w.Flexible || w.Tags()
}

var fixedSizes = [256]int{'b': 1, 'h': 2, 'i': 4, 'l': 8, 'u': 16}

func (w *Walk) field(f *field) bool {
	w.parts++
	switch f.kind {
	case 's':
		n, ok := w.Length(2)
		return ok && w.Skip(n)
	case 'r':
		n, ok := w.Length(4)
		return ok && w.Skip(n)
	case '[', '(':
		count, ok := w.Length(4)
		// Every element takes at least one byte; otherwise a small request could make the walk
		// endless.
		if !ok || count > len(w.Rest) {
			return false
		}
		for range count {
			if !w.fields(f.inner, f.kind == '[') {
				return false
			}
		}
		return true
	}
	if f.kind == '{' {
		if len(w.Rest) == 0 {
			return false
		}
		null := w.Rest[0] == 0xff
		return w.Skip(1) && (null || w.fields(f.inner, true))
	}
	return w.Skip(fixedSizes[f.kind])
}

// Length reads a length or count of the given number of bytes, or a varint; null is 0.
func (w *Walk) Length(size int) (int, bool) {
	if w.Flexible {
		n, ok := w.uvarint()
		return max(n-1, 0), ok
	}
	if len(w.Rest) < size {
		return 0, false
	}
	n := 0
	if size == 2 {
		n = int(int16(binary.BigEndian.Uint16(w.Rest)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(w.Rest)))
	}
	w.Rest = w.Rest[size:]
	return max(n, 0), n >= -1
}

func (w *Walk) Tags() bool {
	count, ok := w.uvarint()
	if !ok || count > len(w.Rest)/2 {
		return false
	}
	for range count {
		w.parts++
		if _, ok := w.uvarint(); !ok {
			return false
		}
		size, ok := w.uvarint()
		if !ok || !w.Skip(size) {
			return false
		}
	}
	return true
}

// uvarint reads a varint of at most 31 bits in at most five bytes.
func (w *Walk) uvarint() (int, bool) {
	n, size := binary.Uvarint(w.Rest[:min(len(w.Rest), 5)])
	if size <= 0 || n > 1<<31-1 {
		return 0, false
	}
	w.Rest = w.Rest[size:]
	return int(n), true
}

func (w *Walk) Skip(n int) bool {
	if n > len(w.Rest) {
		return false
	}
	w.Rest = w.Rest[n:]
	return true
}
