package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogDiff(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "diff LOG[@WHERE] [LOG[@WHERE]]",
		Short: "Compare two replicas or copies of a log, and show the first record that differs",
		Long: `Compare two replicas or copies of a log by their digests, and name the first record that
differs. WHERE is the name of a node, for the replica on that node, or the HOST:PORT of any
node of this cluster or another. Without WHERE the command uses the log's leader. With one
argument, it compares every replica of the log with the leader.

WHERE is a path if it contains a /: the data directory of a stopped node, a copy of one made
while the node was stopped, the directory of one replica in it (DIR/logs/LOG/REPLICA), or a
backup file written by "strandline read -o raw". The command reads a directory without a server
and does not change it; it sees the records that the replica knew to be committed. A backup
file has no digests: all its records are compared one by one.

The command compares the records that both sides have committed, from the higher of the two
start offsets. It compares trimmed records by their digest. Logs with equal digests are equal,
which takes one request to each side. Otherwise a binary search finds the first difference,
with about 30 requests for any size. If a copy holds the same records in other batches, the
digests differ: the command reads that part and compares it record by record.

The digests of a replica cover the records as they were appended. To find damage in the files
of a replica, use the scrub or "strandline verify".

Exit code 0 if nothing differs, 1 otherwise.`,
		Example: `  strandline log diff orders
  strandline log diff orders@n1 orders@n2
  strandline log diff orders orders-copy@10.1.0.7:7171 --json
  strandline log diff orders orders@/backup/strandline
  strandline log diff orders orders@./orders-0.raw`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("LOG is missing")
			case len(args) > 2:
				return fmt.Errorf("unexpected argument %q", args[2])
			}
			return nil
		},
		ValidArgsFunction: c.CompleteLog,
		RunE: func(command *cobra.Command, args []string) error {
			return diff(c, command.Context(), args)
		},
	}
}

func diff(c *terminal.Terminal, ctx context.Context, args []string) error {
	sides, err := openSides(c, ctx, args)
	for _, s := range sides {
		defer s.Close()
	}
	if err != nil {
		return err
	}
	if len(sides) == 1 {
		return terminal.Hinted(fmt.Errorf("log %s has only one replica: give a copy to compare it with", args[0]), "name a copy: log diff LOG LOG@WHERE")
	}
	differ := false
	for _, other := range sides[1:] {
		d, err := compare(ctx, sides[0], other)
		if err != nil {
			return err
		}
		differ = differ || !d.Equal
		if err := c.Show(d, d.print); err != nil {
			return err
		}
	}
	if differ {
		return errDiffer
	}
	return nil
}

// difference is what compare found.
type difference struct {
	A         string `json:"a"`
	B         string `json:"b"`
	Equal     bool   `json:"equal"`
	From      int64  `json:"from"` // what was compared: [From, To), of which [From, Start) by digests alone
	Start     int64  `json:"start_offset"`
	To        int64  `json:"to"`
	Digest    string `json:"digest,omitempty"` // of A as of To
	Exchanges int    `json:"exchanges"`
	// Offset is that of the first record that differs; -1: it was trimmed, on one side at least.
	Offset *int64 `json:"offset,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Batched is where equal records are in other batches from; nil: nowhere.
	Batched *int64 `json:"batched_otherwise_from,omitempty"`
}

func (d *difference) print(out io.Writer) {
	switch {
	case d.Equal && d.Batched != nil:
		fmt.Fprintf(out, "%s and %s have the same records [%d, %d), from offset %d on in other batches\n", d.A, d.B, d.From, d.To, *d.Batched)
	case d.Equal:
		fmt.Fprintf(out, "%s and %s are equal: records [%d, %d), digest %s\n", d.A, d.B, d.From, d.To, d.Digest)
	case *d.Offset < 0:
		fmt.Fprintf(out, "%s and %s differ below offset %d, where one of them starts\n", d.A, d.B, d.Start)
	default:
		fmt.Fprintf(out, "%s and %s differ first at offset %d: %s\n", d.A, d.B, *d.Offset, d.Detail)
	}
}

// compare finds the first difference of what two logs have committed.
func compare(ctx context.Context, a, b side) (*difference, error) {
	p := &pair{a: a, b: b, result: difference{A: a.String(), B: b.String()}}
	d := &p.result
	ends, err := p.digests(ctx, client.DigestAtEnd)
	switch {
	case errors.Is(err, errNoDigests):
		return d, p.allRecords(ctx)
	case err != nil:
		return nil, err
	}
	d.From, d.Start, d.To = ends[0].From, max(ends[0].Start, ends[1].Start, ends[0].From), min(ends[0].End, ends[1].End)
	switch {
	case ends[0].From != ends[1].From:
		return nil, fmt.Errorf("the digest of %s begins at offset %d and that of %s at offset %d: they cannot be compared", a, ends[0].From, b, ends[1].From)
	case d.Start > d.To:
		return nil, apart(a, b, d.To, d.Start)
	}
	equal, differs, err := firstDifference(d.Start, d.To, func(at int64) (bool, int64, error) {
		if at == d.From && at < d.To {
			return true, at, nil // nothing is covered there, and above offset 0 that is refused
		}
		both, err := p.digests(ctx, at)
		if err == nil && at == d.To {
			d.Digest = both[0].String()
		}
		// Offsets that were skipped are in no hash, and in what it covers.
		return both[0].Hash == both[1].Hash && both[0].Covered == both[1].Covered, both[0].Covered, err
	})
	switch {
	case err != nil:
		return nil, err
	case differs < 0:
		d.Equal = true
	case differs == d.Start && equal < 0:
		d.Offset = new(int64(-1))
	default:
		err = p.name(ctx, max(equal, d.Start))
	}
	return d, err
}

// firstDifference returns an offset up to which two logs are equal, and the lowest at which
// their digests differ: what ends there is the first batch that differs. same reports
// whether the digests as of an offset are equal, and how far they cover the log. Without a difference differs is
// -1; with one before low already, equal is.
func firstDifference(low, high int64, same func(at int64) (bool, int64, error)) (equal, differs int64, err error) {
	is, covered, err := same(high)
	if err != nil || is {
		return covered, -1, err
	}
	if is, covered, err = same(low); err != nil || !is {
		return -1, low, err
	}
	for equal = covered; high-low > 1; {
		middle := low + (high-low)/2
		is, covered, err := same(middle)
		switch {
		case err != nil:
			return 0, 0, err
		case is:
			low, equal = middle, covered
		default:
			high = middle
		}
	}
	return equal, high, nil
}

// pair is two logs on the way to their first difference.
type pair struct {
	a, b   side
	result difference
}

// allRecords compares them one by one.
func (p *pair) allRecords(ctx context.Context) error {
	start, end, err := p.a.bounds(ctx)
	if err != nil {
		return err
	}
	from, to, err := p.b.bounds(ctx)
	if err != nil {
		return err
	}
	d := &p.result
	d.Start, d.To = max(start, from), min(end, to)
	if d.From = d.Start; d.Start > d.To {
		return apart(p.a, p.b, d.To, d.Start)
	}
	return p.name(ctx, d.Start)
}

func apart(a, b side, to, from int64) error {
	return fmt.Errorf("%s and %s have no offset in common: one ends at %d, the other starts at %d", a, b, to, from)
}

// digests asks both sides at once.
func (p *pair) digests(ctx context.Context, at int64) (both [2]client.Digest, err error) {
	p.result.Exchanges++
	other := make(chan error, 1)
	go func() {
		var err error
		both[1], err = digestOf(ctx, p.b, at)
		other <- err
	}()
	both[0], err = digestOf(ctx, p.a, at)
	return both, errors.Join(err, <-other)
}

func digestOf(ctx context.Context, s side, at int64) (client.Digest, error) {
	d, err := s.digest(ctx, at)
	if err != nil {
		err = fmt.Errorf("%s: %w", s, err)
	}
	return d, err
}

// name reads both from the first batch that differs on, and says in which record it does.
// Where only the batches do, it continues to the end.
func (p *pair) name(ctx context.Context, from int64) error {
	d := &p.result
	one, err := p.a.records(ctx, from, d.To)
	if err != nil {
		return err
	}
	defer one.Close()
	other, err := p.b.records(ctx, from, d.To)
	if err != nil {
		return err
	}
	defer other.Close()
	for {
		x, errX := one.Next(ctx)
		y, errY := other.Next(ctx)
		switch {
		case errX == io.EOF && errY == io.EOF:
			d.Equal, d.Batched = true, &from
			return nil
		case errX != nil && errX != io.EOF || errY != nil && errY != io.EOF:
			return errors.Join(errX, errY)
		case errX != nil:
			d.Offset, d.Detail = &y.Offset, "only "+p.b.String()+" has a record there"
			return nil
		case errY != nil || x.Offset < y.Offset:
			d.Offset, d.Detail = &x.Offset, "only "+p.a.String()+" has a record there"
			return nil
		case y.Offset < x.Offset:
			d.Offset, d.Detail = &y.Offset, "only "+p.b.String()+" has a record there"
			return nil
		}
		if what := unlike(x, y); what != "" {
			d.Offset, d.Detail = &x.Offset, "another "+what
			return nil
		}
	}
}

// unlike names what differs in two records; nothing if they are equal.
func unlike(x, y client.Record) string {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	switch {
	case !same(x.Key, y.Key):
		return "key"
	case !same(x.Value, y.Value):
		return "value"
	case !x.Timestamp.Equal(y.Timestamp):
		return "timestamp"
	case !slices.EqualFunc(x.Headers, y.Headers, func(a, b client.Header) bool { return a.Key == b.Key && same(a.Value, b.Value) }):
		return "headers"
	}
	return ""
}
