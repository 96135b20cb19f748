package records

import (
	"bufio"
	"encoding/json"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/record"
)

// sink writes records in one format. It may hold some back until flush.
type sink interface {
	records([]client.Record) error
	flush() error
}

func newSink(f terminal.Format, parts []string, out *bufio.Writer) sink {
	switch f {
	case terminal.FormatJSON:
		return jsonSink{out, json.NewEncoder(out)}
	case terminal.FormatRaw:
		return &rawSink{out: out}
	default:
		if parts != nil {
			return columnSink{textSink{out}, parts}
		}
		return textSink{out}
	}
}

type textSink struct{ out *bufio.Writer }

func (s textSink) records(records []client.Record) error {
	for i := range records {
		if _, err := s.out.Write(records[i].Value); err != nil {
			return err
		}
		if err := s.out.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}

func (s textSink) flush() error { return s.out.Flush() }

// rawSink writes record batches: uncompressed, with the offsets that the
// records have in their log. They are cut where they are about as long as an
// entry, not where the stored ones are, so that a log and its copy look alike.
type rawSink struct {
	out     *bufio.Writer
	builder record.Builder
	buffer  []byte
	base    int64 // offset of the first record in the builder
}

func (s *rawSink) records(records []client.Record) error {
	for i := range records {
		r := toStored(&records[i])
		if s.builder.Count() > 0 && !s.fits(r) {
			if err := s.finish(); err != nil {
				return err
			}
		}
		if s.builder.Count() == 0 {
			s.builder.Reset(s.buffer)
			s.base = records[i].Offset
		}
		if err := s.builder.Add(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *rawSink) flush() error {
	if s.builder.Count() > 0 {
		if err := s.finish(); err != nil {
			return err
		}
	}
	return s.out.Flush()
}

// fits reports whether a record may join the open batch: offsets in a batch are
// dense, which the log's are not where it was fast-forwarded.
func (s *rawSink) fits(r record.Record) bool {
	return int64(r.Offset) == s.base+int64(s.builder.Count()) &&
		s.builder.Size()+len(r.Key)+len(r.Value) <= record.EntryTargetBytes
}

func (s *rawSink) finish() error {
	batch, err := s.builder.Finish(record.None)
	if err != nil {
		return err
	}
	batch.SetBaseOffset(record.Offset(s.base))
	s.buffer = batch
	_, err = s.out.Write(batch)
	return err
}
