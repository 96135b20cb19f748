package record

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Limits of a writer lease. The one of a log is in each of its snapshots.
const (
	MaxWriterName    = 128  // bytes
	MaxWriterPayload = 4096 // bytes

	// MaxWriterBytes is the maximum number of bytes that AppendWriter writes.
	MaxWriterBytes = writerHeaderBytes + MaxWriterName + MaxWriterPayload
)

// Writer is a program that holds the writer lease of a log, or waits for it.
type Writer struct {
	// Name identifies the program among those that wait for the lease: whoever asks under the name
	// of the holder gets the lease at once.
	Name string
	// Payload is not interpreted: for example, the address at which the program is reached.
	Payload []byte
	// Lease is the time in milliseconds after which the lease ends without a sign of life.
	Lease uint32
}

const writerHeaderBytes = 4

// AppendWriter appends the encoding of a writer in the text of a LeaseWriter command: everything
// but Lease, which is a field of the command.
//
//	0  u16  name length
//	2  u16  payload length
//	4  name, payload
func AppendWriter(dst []byte, w Writer) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(w.Name)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(w.Payload)))
	dst = append(dst, w.Name...)
	return append(dst, w.Payload...)
}

// ParseWriter decodes the result of AppendWriter. The writer does not alias data. Further bytes,
// and a writer that Check refuses, are errors.
func ParseWriter(data []byte) (Writer, error) {
	if len(data) < writerHeaderBytes {
		return Writer{}, fmt.Errorf("%w: writer of %d bytes", ErrEntry, len(data))
	}
	name, payload := int(binary.LittleEndian.Uint16(data)), int(binary.LittleEndian.Uint16(data[2:]))
	body := data[writerHeaderBytes:]
	if name+payload != len(body) {
		return Writer{}, fmt.Errorf("%w: writer of %d bytes, with %d and %d", ErrEntry, len(data), name, payload)
	}
	w := Writer{Name: string(body[:name]), Payload: append([]byte(nil), body[name:]...)}
	if r := w.Check(); r != nil {
		return Writer{}, fmt.Errorf("%w: %s", ErrEntry, r.Detail)
	}
	return w, nil
}

// Check refuses a writer whose name or payload no log accepts.
func (w *Writer) Check() *Refusal {
	tooLarge := func(what string, bytes, limit int) *Refusal {
		r := Refuse(TooLarge, "%s of %d bytes, the limit is %d", what, bytes, limit)
		r.Limit = int64(limit)
		return r
	}
	switch {
	case w.Name == "" || !utf8.ValidString(w.Name):
		return Refuse(Invalid, "the name of a writer must be text of 1 to %d bytes", MaxWriterName)
	case len(w.Name) > MaxWriterName:
		return tooLarge("name", len(w.Name), MaxWriterName)
	case len(w.Payload) > MaxWriterPayload:
		return tooLarge("payload", len(w.Payload), MaxWriterPayload)
	}
	return nil
}
