package records

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewRead makes the command read.
func NewRead(c *terminal.Terminal) *cobra.Command {
	var want readFlags
	command := c.OneLog(&cobra.Command{
		Use:   "read LOG",
		Short: "Read records, from any offset or time, or follow the tail",
		Long: `Read records and write them to standard output:

  text   the value and a line feed; keys and headers are left out
  json   a JSON object a line: offset, timestamp, key, value, headers. Bytes that
         are not text are in key_base64 and value_base64; a null is left out
  raw    record batches (Kafka's format v2), exact in every byte; for "append -i raw"

Without --from, --from-start, --last, --tail or --since, reading begins at the oldest
record that the log still has. --last begins that many offsets before the end, regardless
of what is selected. The command ends at the end of the log, or at the first limit
reached; with --follow it waits for more records. Ctrl-C ends --follow with exit code 0.

Reading is linearizable: it includes everything acknowledged before it began.
With another --consistency, the command reads from the first node in --server that
serves the log, whether it leads or not:

  any             the records that this node knows to be committed; needs no leader
  at-least=N      waits until the node knows offset N
  max-age=500ms   the node's end of the log is at most this old

--nearest reads from the replica that answers soonest, --near from one on a node with a
label, the first of several before the second. Either asks the leader once, unless
--consistency is any or max-age.

The server can select records, so that only those are sent: by --key, --key-prefix,
--header, or --where with an expression in CEL over key, headers, timestamp, offset,
size and the fields of a JSON value, such as value.customer.id. All given conditions
must match. --count and --max-bytes then count the selected records. With --only, only
the named parts are sent; as text they are printed separated by tabs. value:100 is the
first 100 bytes of the value, value.FIELD is a field of a value that is a JSON object.`,
		Example: `  strandline read orders --from 0 --count 10
  strandline read orders --last 10 --follow
  strandline read orders --since 5m -o json | jq .value
  strandline read orders --follow --from-follower --consistency max-age=1s
  strandline read orders --near dc=syd --consistency max-age=2s
  strandline read orders --where 'key.startsWith("eu/")' --only key,offset
  strandline read orders --key customer-17 --since 24h -o json
  strandline read orders -o raw | strandline append copy -i raw`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := terminal.NotNegative(command, "from", "until", "count"); err != nil {
				return err
			}
			if err := terminal.AtLeastOne(command, "last", "count", "max-bytes"); err != nil {
				return err
			}
			for _, l := range want.near {
				if key, value, both := strings.Cut(l, "="); !both || key == "" || value == "" {
					return terminal.Misused(command, "--near: %q is not a label such as dc=syd", l)
				}
			}
			if c.JSON {
				want.output = terminal.FormatJSON
			}
			ctx := command.Context()
			selected, err := want.filter.options(c, command)
			if err != nil {
				return err
			}
			err = want.filter.explain(readTo(c, ctx, args[0], append(want.options(command), selected...), want))
			if want.follow && ctx.Err() != nil && errors.Is(err, client.ErrCancelled) {
				return nil
			}
			return err
		},
	})
	want.register(command)
	return command
}

// readFlags are what to read and how to write it.
type readFlags struct {
	from      int64
	fromStart bool
	last      int64
	tail      bool
	since     terminal.Moment
	count     int64
	maxBytes  terminal.Size
	until     int64
	untilTime terminal.Moment
	follow    bool
	output    terminal.Format
	fresh     consistency
	follower  bool
	nearest   bool
	near      []string
	filter    filterFlags
}

func (f *readFlags) register(command *cobra.Command) {
	f.output = terminal.FormatText
	flags := command.Flags()
	flags.Int64Var(&f.from, "from", 0, "begin at this `offset`")
	flags.BoolVar(&f.fromStart, "from-start", false, "begin at the oldest record that the log still has (the default)")
	flags.Int64Var(&f.last, "last", 0, "begin this `number` of records before the end")
	flags.BoolVar(&f.tail, "tail", false, "begin after the newest record")
	flags.Var(&f.since, "since", "begin with the first record appended at or after this time, such as 2030-01-31T08:00:00Z or 5m (ago)")
	flags.BoolVar(&f.follow, "follow", false, "wait for more records at the end of the log")
	flags.Int64Var(&f.count, "count", 0, "stop after this `number` of records")
	flags.Var(&f.maxBytes, "max-bytes", "stop after about this size of batches as stored, such as 10MiB")
	flags.Int64Var(&f.until, "until", 0, "stop before this `offset`")
	flags.Var(&f.untilTime, "until-time", "stop before the first record appended at or after this time")
	flags.VarP(&f.output, "output", "o", "text, json or raw")
	flags.Var(&f.fresh, "consistency", "linearizable, any, at-least=OFFSET or max-age=500ms (default linearizable)")
	flags.BoolVar(&f.follower, "from-follower", false, "read from a replica that does not lead, while there is one")
	flags.BoolVar(&f.nearest, "nearest", false, "read from the replica that answers soonest")
	flags.StringSliceVar(&f.near, "near", nil, "read from a replica on a node with one of these `labels`, the first before the second, such as dc=syd,dc=sin")
	command.MarkFlagsMutuallyExclusive("from-follower", "nearest", "near")
	f.filter.register(flags)
	terminal.CompleteWords(command, "only", "key", "value", "headers", "offset", "timestamp")
	terminal.CompleteWords(command, "consistency", "linearizable", "any", "at-least=", "max-age=")
	command.MarkFlagsMutuallyExclusive("from", "from-start", "last", "tail", "since")
	terminal.CompleteWords(command, "output", "text", "json", "raw")
}

// options turns the flags that were given into those of a reader.
func (f *readFlags) options(command *cobra.Command) []client.ReaderOption {
	given := command.Flags().Changed
	var o []client.ReaderOption
	switch {
	case given("from"):
		o = append(o, client.WithStartOffset(f.from))
	case f.tail:
		o = append(o, client.WithStartAtTail())
	case given("since"):
		o = append(o, client.WithStartTime(f.since.Time))
	}
	if given("count") {
		o = append(o, client.WithMaxRecords(f.count))
	}
	if given("max-bytes") {
		o = append(o, client.WithMaxBytes(int64(f.maxBytes)))
	}
	if given("until") {
		o = append(o, client.WithEndOffset(f.until))
	}
	if given("until-time") {
		o = append(o, client.WithEndTime(f.untilTime.Time))
	}
	if f.follow {
		o = append(o, client.WithFollow())
	}
	if f.follower {
		o = append(o, client.WithPreferFollower())
	}
	if f.nearest || len(f.near) > 0 {
		o = append(o, client.WithNearest(f.near...))
	}
	if f.fresh.option != nil {
		o = append(o, f.fresh.option)
	}
	return o
}

// read copies records to the output until there are no more to come.
func readTo(c *terminal.Terminal, ctx context.Context, log string, options []client.ReaderOption, want readFlags) error {
	waiting := c.NewWaitNotice()
	defer waiting.Stop()
	connection, err := c.Connect(client.WithTroubleHandler(waiting.Trouble))
	if err != nil {
		return err
	}
	defer connection.Close()
	if want.last > 0 {
		info, err := connection.Admin().Info(ctx, log)
		if err != nil {
			return err
		}
		options = append(options, client.WithStartOffset(max(info.Start, info.End-want.last)))
	}
	reader, err := connection.Reader(ctx, log, options...)
	if err != nil {
		return err
	}
	defer reader.Close()

	sink := newSink(want.output, want.filter.only.names, bufio.NewWriterSize(c.Out, 256<<10))
	var p *terminal.Progress
	defer func() { p.Close() }()
	for {
		records, err := reader.NextBatch(ctx)
		if err == io.EOF {
			return sink.flush()
		}
		if err != nil {
			return errors.Join(err, sink.flush())
		}
		if p == nil {
			// A bar makes sense while a file is being written; on a terminal it
			// would stand between the records.
			visible := terminal.RegularSize(c.Out) >= 0 && !want.follow
			p = c.NewProgress(visible, "read", want.expected(records[0].Offset, reader.End()), terminal.UnitCount)
		}
		if err := sink.records(records); err != nil {
			return err
		}
		// With --follow a record is to be shown when it arrives, not when the
		// buffer is full.
		if want.follow && want.filter.given() || reader.Offset() >= reader.End() {
			if err := sink.flush(); err != nil {
				return err
			}
		}
		p.Add(int64(len(records)))
	}
}

// expected is how many records there will be at most, as far as is known.
func (f *readFlags) expected(first, end int64) int64 {
	if f.until > 0 {
		end = min(end, f.until)
	}
	expected := max(end-first, 0)
	if f.count > 0 {
		expected = min(expected, f.count)
	}
	return expected
}

// consistency is the flag of how fresh a read has to be.
type consistency struct {
	text   string
	option client.ReaderOption // nil: the default
}

func (c *consistency) Set(text string) error {
	word, bound, bounded := strings.Cut(text, "=")
	switch {
	case text == "any":
		c.option = client.WithAnyReplica()
	case text == "linearizable":
		c.option = client.WithLinearizable()
	case word == "at-least" && bounded:
		offset, err := strconv.ParseInt(bound, 10, 64)
		if err != nil || offset < 0 {
			return errors.New("at-least needs an offset, 0 or more")
		}
		c.option = client.WithAtLeast(offset)
	case word == "max-age" && bounded:
		var age terminal.Duration
		if err := age.Set(bound); err != nil {
			return err
		}
		if age == 0 {
			return errors.New("max-age must be above 0; use linearizable instead")
		}
		c.option = client.WithMaxStaleness(time.Duration(age))
	default:
		return errors.New("must be any, linearizable, at-least=OFFSET or max-age=DURATION")
	}
	c.text = text
	return nil
}

func (c *consistency) String() string { return c.text }

func (*consistency) Type() string { return "level" }
