package records

import (
	"context"
	"errors"
	"fmt"
	"io"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// keptSource gives the records of a source to a log that is to have them at the
// offsets that they had in another one. Those that the log has already are passed
// over, so that a restore which was interrupted is begun again with the same input.
type keptSource struct {
	source
	end    int64 // where the log ends
	first  *client.Record
	passed int64
}

// keepOffsets reads the first record and brings the log to its offset: a log
// without records continues there.
func keepOffsets(c *terminal.Terminal, ctx context.Context, log string, s source) (*keptSource, error) {
	kept := &keptSource{source: s}
	first, err := s.next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	if err == nil {
		kept.first = &first
	}
	return kept, c.WithAdmin(func(admin *client.Admin) error {
		info, err := admin.Info(ctx, log)
		if err != nil {
			return err
		}
		kept.end = info.End
		if kept.first == nil || info.Start != info.End || first.Offset <= info.End {
			return nil
		}
		_, kept.end, err = admin.Trim(ctx, log, first.Offset, true)
		return err
	})
}

func (s *keptSource) next() (client.Record, error) {
	for {
		r, err := s.read()
		switch {
		case err != nil:
			return r, err
		case r.Offset < s.end:
			s.passed++
		case r.Offset > s.end:
			return r, fmt.Errorf("the input continues at offset %d, but the log ends at %d: the records between are missing", r.Offset, s.end)
		default:
			s.end++
			return r, nil
		}
	}
}

func (s *keptSource) read() (client.Record, error) {
	if r := s.first; r != nil {
		s.first = nil
		return *r, nil
	}
	return s.source.next()
}

// acknowledgedAt wraps acknowledge for a record that has to get the offset it had.
func acknowledgedAt(want int64, acknowledge func(int64, error)) func(int64, error) {
	return func(offset int64, err error) {
		if err == nil && offset != want {
			err = fmt.Errorf("the record of offset %d was appended at offset %d: another program appends to the log", want, offset)
		}
		acknowledge(offset, err)
	}
}

var errKeepRaw = errors.New("--keep-offsets needs records with offsets: --input raw")
