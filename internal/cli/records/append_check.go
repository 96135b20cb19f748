package records

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// unless are the flags of the check of an append.
type unless struct {
	keys, prefixes, headers []string
	since                   int64
}

func (u *unless) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&u.keys, "unless-key", nil, "append only if no record since --since has this `key`, or one of several")
	flags.StringArrayVar(&u.prefixes, "unless-prefix", nil, "append only if the key of no record since --since begins with this `text`, or one of several")
	flags.StringArrayVar(&u.headers, "unless-header", nil, "append only if no record since --since has this header, as `NAME=VALUE`, or one of several")
	flags.Int64Var(&u.since, "since", 0, "with --unless-key, --unless-prefix and --unless-header: the `offset` up to which you have read; by default the start of the log")
}

// given reports whether the append has a check.
func (u *unless) given() bool { return len(u.keys)+len(u.prefixes)+len(u.headers) > 0 }

// check returns the check, but for Since if the flag is not given.
func (u *unless) check(command *cobra.Command) (*client.Check, error) {
	switch {
	case !u.given() && command.Flags().Changed("since"):
		return nil, terminal.Misused(command, "--since needs --unless-key, --unless-prefix or --unless-header")
	case !u.given():
		return nil, nil
	case u.since < 0:
		return nil, terminal.Misused(command, "--since %d is below 0", u.since)
	}
	check := &client.Check{Since: u.since, Keys: bytesOfEach(u.keys), KeyPrefixes: bytesOfEach(u.prefixes)}
	for _, h := range u.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, terminal.Misused(command, "--unless-header must be NAME=VALUE, not %s", h)
		}
		check.Headers = append(check.Headers, client.Header{Key: name, Value: []byte(value)})
	}
	return check, nil
}

// appendChecked appends all records of a source together, or none of them. fromStart has the check
// begin at the start of the log.
func appendChecked(c *terminal.Terminal, ctx context.Context, log string, source source, check client.Check, fromStart bool, options ...client.ProducerOption) (*appended, error) {
	result := &appended{}
	records, err := readWhole(source)
	if err != nil || len(records) == 0 {
		return result, err
	}
	producer, disconnect, err := openProducer(c, ctx, log, func(connection *client.Client) error {
		if !fromStart {
			return nil
		}
		info, err := connection.Admin().Info(ctx, log)
		if err == nil {
			check.Since = info.Start
		}
		return err
	}, options...)
	if err != nil {
		return result, err
	}
	defer disconnect()
	first, err := producer.AppendBatch(ctx, records, client.WithCheck(check))
	for i := range records {
		result.acknowledge(first+int64(i), err)
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	closed := producer.Close(flush)
	result.explain(producer.Stats().Stages)
	return result, cmp.Or(err, closed)
}

// readWhole reads a source to its end. What does not fit into one append is an error.
func readWhole(source source) ([]client.Record, error) {
	var records []client.Record
	bytes := 0
	for {
		r, err := source.next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		if bytes += len(r.Key) + len(r.Value); bytes > client.MaxRecordBytes {
			return nil, fmt.Errorf("the input is larger than %v, the limit of an append with a condition", terminal.Size(client.MaxRecordBytes))
		}
		r.Key, r.Value, r.Headers = slices.Clone(r.Key), slices.Clone(r.Value), cloneHeaders(r.Headers)
		records = append(records, r)
	}
}

func cloneHeaders(headers []client.Header) []client.Header {
	cloned := slices.Clone(headers)
	for i := range cloned {
		cloned[i].Value = slices.Clone(cloned[i].Value)
	}
	return cloned
}
