// Package records is the commands about records: append, read, and the sessions and
// writer terms that appends carry.
package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// flushTime bounds how long an interrupted append waits for the
// acknowledgements of what it has sent.
const flushTime = 5 * time.Second

// NewAppend makes the command append.
func NewAppend(c *terminal.Terminal) *cobra.Command {
	var (
		file       string
		key        string
		columns    []string
		input      = terminal.FormatText
		writerTerm uint64
		keep       bool
		explain    bool
		condition  unless
	)
	command := c.OneLog(&cobra.Command{
		Use:   "append LOG",
		Short: "Append records from standard input or a file",
		Long: `Append records from standard input or a file, and print the first and the last
offset when all are acknowledged. Records are sent as they arrive, in order and at
most once. The input is

  text   a record a line, without its line feed
  json   a JSON object a line, as "read -o json" writes them; value and key are
         text, value_base64 and key_base64 any bytes
  raw    record batches, as "read -o raw" writes them: copies keys, headers,
         times and bytes exactly

With --columns a line of text also has a key and headers, separated by tabs: key, value,
header:NAME. The last column is the rest of the line, tabs included.

With --keep-offsets, to restore a log, raw records get the offsets of the log that they
come from: an empty log continues at the first of them, records that the log already has
are skipped, and a gap is an error. No other client may append meanwhile.

With --unless-key, --unless-prefix or --unless-header, all records of the input, at most
16 MiB, are appended together or not at all: if a record at offset --since or above has
such a key or header, the append is refused with CONFLICT, which names that record. This
needs the right to read the log.

With --explain, the command prints a table of the stages of the requests at the end. A
request has all records that arrived during the one before. docs/tracing.md describes
the stages.

If an append fails, the command sends nothing more and prints the acknowledged offsets.`,
		Example: `  strandline append orders < lines.txt
  echo '{"key":"42","value":"paid"}' | strandline append orders -i json
  strandline append orders --columns key,value < lines.tsv
  strandline read orders --from-start -o raw | strandline append copy -i raw
  strandline append orders -i raw --keep-offsets -f orders.raw
  echo alice | strandline append users --key a@b.example --unless-key a@b.example
  strandline append ledger -i json --unless-header account=7 --since 4711 < transfer.json`,
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("key") && input != terminal.FormatText {
				return terminal.Misused(command, "--key needs text input: %s input has keys", input)
			}
			if len(columns) > 0 && input != terminal.FormatText {
				return terminal.Misused(command, "--columns needs text input: %s input has keys and headers", input)
			}
			if err := checkColumns(command, columns); err != nil {
				return err
			}
			if keep && input != terminal.FormatRaw {
				return terminal.Misused(command, "%v", errKeepRaw)
			}
			check, err := condition.check(command)
			if err != nil {
				return err
			}
			in := c.In
			if file != "" {
				opened, err := os.Open(file)
				if err != nil {
					return err
				}
				defer opened.Close()
				in = opened
			}
			// A person who types the records sees them already.
			p := c.NewProgress(!terminal.IsTerminal(in), "append", terminal.RegularSize(in), terminal.UnitBytes)
			source := newSource(input, p.Reading(in))
			if len(columns) > 0 {
				source = columnSource{source.(textSource), columns}
			}
			if command.Flags().Changed("key") {
				source = keyed{source, []byte(key)}
			}
			if keep {
				kept, err := keepOffsets(c, command.Context(), args[0], source)
				if err != nil {
					return err
				}
				source = kept
			}
			options := []client.ProducerOption{client.WithWriterTerm(writerTerm)}
			if explain {
				options = append(options, client.WithStages())
			}
			appending := func() (*appended, error) { return appendAll(c, command.Context(), args[0], source, options...) }
			if check != nil {
				appending = func() (*appended, error) {
					return appendChecked(c, command.Context(), args[0], source, *check, !command.Flags().Changed("since"), options...)
				}
			}
			result, err := appending()
			p.Close()
			return errors.Join(showAppended(c, args[0], result, err), terminal.Changing(err))
		},
	})
	flags := command.Flags()
	flags.StringVarP(&file, "file", "f", "", "read from this `file` instead of standard input")
	flags.StringVar(&key, "key", "", "give every record this key")
	flags.StringSliceVar(&columns, "columns", nil, "the parts of a line of text, separated by tabs: key, value, header:NAME")
	flags.BoolVar(&keep, "keep-offsets", false, "append raw records at their original offsets, and skip those that the log already has")
	flags.BoolVar(&explain, "explain", false, "print the time of the requests by stage")
	flags.VarP(&input, "input", "i", "text, json or raw")
	condition.register(flags)
	flags.Uint64Var(&writerTerm, "writer-term", 0, "append only while this `term` holds the log; 0: not fenced")
	command.MarkFlagsMutuallyExclusive("key", "columns")
	for _, flag := range []string{"unless-key", "unless-prefix", "unless-header"} {
		command.MarkFlagsMutuallyExclusive("keep-offsets", flag)
	}
	terminal.CompleteWords(command, "columns", "key", "value", "header:")
	terminal.CompleteWords(command, "input", "text", "json", "raw")
	_ = command.MarkFlagFilename("file")
	return command
}

// appended adds up what has been acknowledged.
type appended struct {
	mu          sync.Mutex
	count       int64
	first, last int64
	failed      error // the first failure; nothing is sent after it

	stages []client.StageHistogram // of requests; none if not requested
}

// acknowledge is called once for each record, from any goroutine.
func (a *appended) acknowledge(offset int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		if a.failed == nil {
			a.failed = err
		}
		return
	}
	if a.count == 0 {
		a.first, a.last = offset, offset
	}
	a.count++
	a.first, a.last = min(a.first, offset), max(a.last, offset)
}

func (a *appended) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// append sends all records of the source and waits for their answers. It is
// done when the source ends, with its first failure, or when ctx ends; what was
// sent by then is still waited for, for a while.
func appendAll(c *terminal.Terminal, ctx context.Context, log string, source source, options ...client.ProducerOption) (*appended, error) {
	result := &appended{}
	producer, disconnect, err := openProducer(c, ctx, log, nil, options...)
	if err != nil {
		return result, err
	}
	defer disconnect()

	// Reading standard input cannot be interrupted, so it has a goroutine that
	// an interrupted command leaves behind; the process ends soon after.
	sent := make(chan error, 1)
	go func() { sent <- send(ctx, producer, source, result) }()
	select {
	case err = <-sent:
	case <-ctx.Done():
		err = ctx.Err()
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	if ctx.Err() == nil {
		flush = ctx
	}
	defer cancel()
	closed := producer.Close(flush)
	result.explain(producer.Stats().Stages)
	// What the log said matters more than that we stopped because of it.
	return result, cmp.Or(result.failure(), err, closed)
}

// openProducer connects and opens a producer, with a notice while it waits and later when the producer has trouble.
// before, unless it is nil, is called with the connection first. disconnect ends both notice and connection.
func openProducer(c *terminal.Terminal, ctx context.Context, log string, before func(*client.Client) error, options ...client.ProducerOption) (producer *client.Producer, disconnect func(), err error) {
	waiting := c.NewWaitNotice()
	connection, err := c.Connect(client.WithTroubleHandler(waiting.Trouble))
	if err != nil {
		waiting.Stop()
		return nil, nil, err
	}
	disconnect = func() {
		connection.Close()
		waiting.Stop()
	}
	waiting.Trouble(log, terminal.ErrNoAnswer)
	if before != nil {
		err = before(connection)
	}
	if err == nil {
		producer, err = connection.Producer(ctx, log, options...)
	}
	if err != nil {
		disconnect()
		return nil, nil, err
	}
	waiting.Trouble(log, nil)
	return producer, disconnect, nil
}

func send(ctx context.Context, producer *client.Producer, source source, result *appended) error {
	for result.failure() == nil {
		r, err := source.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		acknowledge := result.acknowledge
		if _, kept := source.(*keptSource); kept {
			acknowledge = acknowledgedAt(r.Offset, acknowledge)
		}
		if err := producer.SendFunc(ctx, r, acknowledge); err != nil {
			return err
		}
	}
	return nil
}

// showAppended prints what was acknowledged. After a failure that is only of
// interest if something was.
func showAppended(c *terminal.Terminal, log string, a *appended, failed error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed != nil && a.count == 0 {
		return nil
	}
	object := struct {
		Log         string `json:"log"`
		Records     int64  `json:"records"`
		FirstOffset *int64 `json:"first_offset,omitempty"`
		LastOffset  *int64 `json:"last_offset,omitempty"`

		Stages []stageJSON `json:"stages,omitempty"`
	}{Log: log, Records: a.count, Stages: stagesOf(a.stages)}
	if a.count > 0 {
		object.FirstOffset, object.LastOffset = &a.first, &a.last
	}
	return c.Show(object, func(out io.Writer) {
		if a.count == 0 {
			fmt.Fprintf(out, "appended nothing to %s\n", log)
			return
		}
		fmt.Fprintf(out, "appended %s to %s, %s\n", terminal.Counted(a.count, "record"), log, offsets(a.first, a.last))
		showStages(out, object.Stages)
	})
}

func offsets(first, last int64) string {
	if first == last {
		return fmt.Sprintf("offset %d", first)
	}
	return fmt.Sprintf("offsets %d to %d", first, last)
}

// stageJSON is where a part of the time of requests went.
type stageJSON struct {
	Stage        string  `json:"stage"`
	SharePercent float64 `json:"share_percent"` // of all stages together
	MeanUs       float64 `json:"mean_us"`
	P50Us        float64 `json:"p50_us"`
	P99Us        float64 `json:"p99_us"`
}

func (a *appended) explain(stages []client.StageHistogram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stages = stages
}

func stagesOf(stages []client.StageHistogram) (all []stageJSON) {
	total := 0.0
	for _, s := range stages {
		total += float64(s.Sum)
	}
	for _, s := range stages {
		all = append(all, stageJSON{
			s.Stage, float64(s.Sum) / max(total, 1) * 100, s.Mean() / 1e3, float64(s.Quantile(0.5)) / 1e3, float64(s.Quantile(0.99)) / 1e3,
		})
	}
	return all
}

// showStages prints a table, and nothing of no stages.
func showStages(out io.Writer, stages []stageJSON) {
	if len(stages) == 0 {
		return
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "\nSTAGE\tSHARE\tMEAN\tP50\tP99\t")
	for _, s := range stages {
		fmt.Fprintf(columns, "%s\t%.1f %%\t%.0f us\t%.0f us\t%.0f us\t\n", s.Stage, s.SharePercent, s.MeanUs, s.P50Us, s.P99Us)
	}
	_ = columns.Flush()
}
