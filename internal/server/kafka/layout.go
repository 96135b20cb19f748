package kafkaserver

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// layout is how a request is laid out, as far as lengths and counts go. The
// decoder of kmsg believes a count before it has seen what it counts: it
// allocates by it, or goes in circles. So a request is walked by its layout
// first, and only what is wholly there is decoded.
//
// A layout is written as one field after the other:
//
//	b h i l u   bool or int8, int16, int32, int64, uuid
//	s r         string, bytes; either may be null
//	[ ... ]     array of structs
//	( x )       array of a plain type
//	x@3 x@3-5   only from version 3 on, only in versions 3 to 5
//
// In a flexible version every struct ends with tagged fields, and lengths are
// varints; the layout does not say so, the walk does.
type layout []field

type field struct {
	kind     byte // a letter of the above; '[' and '(' for arrays
	inner    layout
	min, max int16
}

// parseLayout panics where the text is wrong: layouts are constants.
func parseLayout(text string) layout {
	l, rest := parseFields(text, 0)
	if rest != "" {
		panic("layout: unexpected " + rest)
	}
	return l
}

func parseFields(text string, closing byte) (layout, string) {
	var l layout
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

// check proves that data begins with one request of this layout, whole, and counts
// its fields, elements and tags. What follows it is nobody's concern: librdkafka
// sends a byte too many now and then.
func (l layout) check(data []byte, version int16, flexible bool) (parts int, err error) {
	w := walk{rest: data, version: version, flexible: flexible}
	if !w.fields(l, true) {
		return 0, errLayout
	}
	return w.parts, nil
}

// walk goes over a request. Its methods report whether what they look for is
// there.
type walk struct {
	rest     []byte
	version  int16
	flexible bool
	parts    int // passed so far
}

// fields walks a struct; tagged tells that it ends with tagged fields, where
// the version is flexible.
func (w *walk) fields(l layout, tagged bool) bool {
	for i := range l {
		f := &l[i]
		if w.version < f.min || w.version > f.max {
			continue
		}
		if !w.field(f) {
			return false
		}
	}
	return !tagged || !w.flexible || w.tags()
}

var fixedSizes = [256]int{'b': 1, 'h': 2, 'i': 4, 'l': 8, 'u': 16}

func (w *walk) field(f *field) bool {
	w.parts++
	switch f.kind {
	case 's':
		n, ok := w.length(2)
		return ok && w.skip(n)
	case 'r':
		n, ok := w.length(4)
		return ok && w.skip(n)
	case '[', '(':
		count, ok := w.length(4)
		// Every element takes at least a byte, or the walk itself could be
		// made to go in circles.
		if !ok || count > len(w.rest) {
			return false
		}
		for range count {
			if !w.fields(f.inner, f.kind == '[') {
				return false
			}
		}
		return true
	}
	return w.skip(fixedSizes[f.kind])
}

// length reads a length or a count of so many bytes, or a varint; null is 0.
func (w *walk) length(size int) (int, bool) {
	if w.flexible {
		n, ok := w.uvarint()
		return max(n-1, 0), ok
	}
	if len(w.rest) < size {
		return 0, false
	}
	n := 0
	if size == 2 {
		n = int(int16(binary.BigEndian.Uint16(w.rest)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(w.rest)))
	}
	w.rest = w.rest[size:]
	return max(n, 0), n >= -1
}

func (w *walk) tags() bool {
	count, ok := w.uvarint()
	if !ok || count > len(w.rest)/2 {
		return false
	}
	for range count {
		w.parts++
		if _, ok := w.uvarint(); !ok {
			return false
		}
		size, ok := w.uvarint()
		if !ok || !w.skip(size) {
			return false
		}
	}
	return true
}

// uvarint reads a varint of at most 31 bits in at most five bytes.
func (w *walk) uvarint() (int, bool) {
	n, size := binary.Uvarint(w.rest[:min(len(w.rest), 5)])
	if size <= 0 || n > 1<<31-1 {
		return 0, false
	}
	w.rest = w.rest[size:]
	return int(n), true
}

func (w *walk) skip(n int) bool {
	if n > len(w.rest) {
		return false
	}
	w.rest = w.rest[n:]
	return true
}
