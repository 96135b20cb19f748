package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLineBytes bounds a line, as a history may be anybody's file: about a
// million records in one frame.
const MaxLineBytes = 16 << 20

// Input is one file of a history.
type Input struct {
	Name string
	io.Reader
}

// Reader reads a history of one or more files, in the order of time. Where lines of
// two files have the same time, what begins comes first: calls may then overlap
// that did not, which no rule reports as a violation.
type Reader struct {
	names []string
	files []*file // those that have more
	torn  int
}

// NewReader reads the inputs. Each is in the order of time itself.
func NewReader(inputs ...Input) *Reader {
	r := &Reader{}
	for i, in := range inputs {
		r.names = append(r.names, in.Name)
		r.files = append(r.files, &file{name: in.Name, number: i, in: bufio.NewReaderSize(in, 1<<16)})
	}
	return r
}

// Next returns the next event, which is the caller's to keep, and its place;
// io.EOF after the last. Any other error names the file and line.
func (r *Reader) Next() (*Event, Place, error) {
	var first *file
	for i := 0; i < len(r.files); {
		f := r.files[i]
		if err := f.fill(); errors.Is(err, io.EOF) {
			r.files = append(r.files[:i], r.files[i+1:]...)
			continue
		} else if errors.Is(err, errTorn) {
			r.torn++
			continue
		} else if err != nil {
			return nil, f.place(), fmt.Errorf("%s:%d: %w", f.name, f.line, err)
		}
		if first == nil || f.before(first) {
			first = f
		}
		i++
	}
	if first == nil {
		return nil, Place{}, io.EOF
	}
	e := first.next
	first.next = nil
	return e, first.place(), nil
}

// Torn returns how many files ended in half a line, which was left out: its writer
// died. What it had begun to write had reached nobody.
func (r *Reader) Torn() int { return r.torn }

// Name of the file that a place is in.
func (r *Reader) Name(at Place) string { return r.names[at.File] }

var errTorn = errors.New("half a line")

// file is one input and the event that it continues with.
type file struct {
	name   string
	number int
	in     *bufio.Reader
	line   int
	next   *Event
	newest int64 // time of the event before
	long   []byte
}

func (f *file) place() Place { return Place{f.number, f.line} }

func (f *file) before(o *file) bool {
	if f.next.Time != o.next.Time {
		return f.next.Time < o.next.Time
	}
	return f.next.Kind == Invoke && o.next.Kind != Invoke
}

// fill reads the next event, if it is not there.
func (f *file) fill() error {
	for f.next == nil {
		line, err := f.readLine()
		f.line++
		whole := err == nil
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		e, err := Parse(line)
		if err != nil && !whole {
			return errTorn
		}
		if err != nil {
			return err
		}
		if e.Time < f.newest {
			return fmt.Errorf("time goes back from %d to %d", f.newest, e.Time)
		}
		f.next, f.newest = e, e.Time
	}
	return nil
}

// readLine returns a line, valid until the next call. At the end of the input
// it returns what is left and io.EOF.
func (f *file) readLine() ([]byte, error) {
	line, err := f.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	f.long = append(f.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = f.in.ReadSlice('\n')
		f.long = append(f.long, line...)
		if len(f.long) > MaxLineBytes {
			return nil, fmt.Errorf("a line of more than %d bytes", MaxLineBytes)
		}
	}
	return f.long, err
}

// Parse reads one line.
func Parse(line []byte) (*Event, error) {
	e := &Event{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil {
		return nil, err
	}
	if rest := bytes.TrimSpace(line[d.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("after the event: %.20q", rest)
	}
	return e, e.Validate()
}
