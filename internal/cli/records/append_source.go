package records

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/record"
)

// source yields the records of an input in order, and io.EOF at its end. A
// record is valid until the next call.
type source interface {
	next() (client.Record, error)
}

func newSource(f terminal.Format, in io.Reader) source {
	lines := &lineReader{in: bufio.NewReaderSize(in, 1<<20)}
	switch f {
	case terminal.FormatJSON:
		lines.limit = maxJSONLine
		return jsonSource{lines}
	case terminal.FormatRaw:
		return &rawSource{in: lines.in}
	default:
		lines.limit = client.MaxRecordBytes
		return textSource{lines}
	}
}

// lineReader cuts an input into lines and counts them.
type lineReader struct {
	in     *bufio.Reader
	limit  int    // bytes of a line
	number int    // of the line read last, from 1
	long   []byte // reused for lines that do not fit into the buffer of in
}

// next is the next line without its line feed, valid until the next call. The
// last one may lack the line feed; an empty input has no line.
func (l *lineReader) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.long)+len(part) > l.limit+1 {
			return nil, fmt.Errorf("line %d is longer than %v", l.number+1, terminal.Size(l.limit))
		}
		line := part
		if len(l.long) > 0 || err != nil {
			l.long = append(l.long, part...)
			line = l.long
		}
		switch {
		case err == nil:
			l.number++
			return line[:len(line)-1], nil
		case err == io.EOF && len(line) > 0:
			l.number++
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// textSource makes a record of each line, as it is: a carriage return or a
// blank is part of it, and an empty line is an empty record.
type textSource struct{ lines *lineReader }

func (s textSource) next() (client.Record, error) {
	line, err := s.lines.next()
	if err != nil {
		return client.Record{}, err
	}
	return client.Record{Value: line}, nil
}

// columnSource makes a record of the columns of each line, as `read --only` writes them.
type columnSource struct {
	text    textSource
	columns []string // checked by checkColumns
}

const headerColumn = "header:"

func checkColumns(command *cobra.Command, columns []string) error {
	seen := map[string]bool{}
	for _, name := range columns {
		header, isHeader := strings.CutPrefix(name, headerColumn)
		switch {
		case name != "key" && name != "value" && (!isHeader || header == ""):
			return terminal.Misused(command, "--columns: %q is not key, value or header:NAME", name)
		case seen[name] && !isHeader:
			return terminal.Misused(command, "--columns: %s is given twice", name)
		}
		seen[name] = true
	}
	return nil
}

func (s columnSource) next() (client.Record, error) {
	line, err := s.text.lines.next()
	if err != nil {
		return client.Record{}, err
	}
	parts := bytes.SplitN(line, []byte{'\t'}, len(s.columns))
	if len(parts) < len(s.columns) {
		return client.Record{}, fmt.Errorf("line %d has %s, not %d separated by tabs: %s",
			s.text.lines.number, terminal.Counted(int64(len(parts)), "column"), len(s.columns), strings.Join(s.columns, ", "))
	}
	var r client.Record
	for i, name := range s.columns {
		switch name {
		case "key":
			r.Key = parts[i]
		case "value":
			r.Value = parts[i]
		default:
			r.Headers = append(r.Headers, client.Header{Key: strings.TrimPrefix(name, headerColumn), Value: parts[i]})
		}
	}
	return r, nil
}

// keyed gives every record of a source the same key.
type keyed struct {
	source
	key []byte
}

func (s keyed) next() (client.Record, error) {
	r, err := s.source.next()
	r.Key = s.key
	return r, err
}

// rawSource reads record batches of format v2, one after the other. Each
// carries its length and a CRC, so a damaged input is noticed before any
// record of the batch is sent.
type rawSource struct {
	in      *bufio.Reader
	open    []client.Record // the rest of the batch read last; they alias it
	batches int             // read so far
}

func (s *rawSource) next() (client.Record, error) {
	for len(s.open) == 0 {
		batch, err := s.nextBatch()
		if err != nil {
			return client.Record{}, err
		}
		for r, err := range batch.Records {
			if err != nil {
				return client.Record{}, err
			}
			s.open = append(s.open, FromStored(r))
		}
	}
	r := s.open[0]
	s.open = s.open[1:]
	return r, nil
}

func (s *rawSource) nextBatch() (record.Batch, error) {
	var header [record.BatchHeaderSize]byte
	if _, err := io.ReadFull(s.in, header[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("the input ends in the middle of batch %d: it is incomplete, or not raw", s.batches+1)
		}
		return nil, err
	}
	rest := int64(int32(binary.BigEndian.Uint32(header[8:]))) + 12 - record.BatchHeaderSize
	if rest < 0 || rest > record.MaxBatchBytes {
		return nil, fmt.Errorf("batch %d of the input is not a record batch", s.batches+1)
	}
	// The buffer grows with what is there, not with what the length claims.
	whole := bytes.NewBuffer(header[:])
	if _, err := io.CopyN(whole, s.in, rest); err != nil {
		return nil, fmt.Errorf("the input ends in the middle of batch %d: it is incomplete, or not raw", s.batches+1)
	}
	batch := record.Batch(whole.Bytes())
	if err := batch.Check(); err != nil {
		return nil, fmt.Errorf("batch %d of the input: %w", s.batches+1, err)
	}
	s.batches++
	return batch, nil
}
