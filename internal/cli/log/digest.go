package log

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogDigest(c *terminal.Terminal) *cobra.Command {
	var at int64
	command := c.OneLog(&cobra.Command{
		Use:   "digest LOG[@WHERE]",
		Short: "Show the digest of a log's records below an offset",
		Long: `Show the digest of a log's records below an offset, or of all committed records. It is
a SHA-256 that is the same on every replica and depends on every bit of every record,
with its offset and its time. Keep it elsewhere, with its offset: then "log prove" and
"log diff" can show later that nothing has changed.

An offset within a batch means the beginning of that batch. Records appended before the cluster
was at feature level 3 are not covered.

WHERE is a node, or the directory of a stopped node or a copy of one, as in "log diff".`,
		Example: `  strandline log digest orders
  strandline log digest orders --at 1000 --json
  strandline log digest orders@/backup/strandline --at 1000`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := terminal.NotNegative(command, "at"); err != nil {
				return err
			}
			if !command.Flag("at").Changed {
				at = client.DigestAtEnd
			}
			log, err := openSide(c, command.Context(), args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			d, err := log.digest(command.Context(), at)
			if err != nil {
				return err
			}
			return c.Show(newDigestJSON(args[0], d), func(out io.Writer) {
				fmt.Fprintf(out, "%s  %s at %d: records [%d, %d) in %s\n", d, args[0], d.At, d.From, d.Covered, batches(d.Batches))
			})
		},
	})
	command.Flags().Int64Var(&at, "at", 0, "the `offset` below which records count, within the log; default: its end")
	return command
}

func batches(n int64) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}

// digestJSON is a digest as --json shows it.
type digestJSON struct {
	Log     string `json:"log"`
	Digest  string `json:"digest"`
	At      int64  `json:"at"`
	From    int64  `json:"from"`
	Covered int64  `json:"covered"`
	Batches int64  `json:"batches"`
	Start   int64  `json:"start_offset"`
	End     int64  `json:"end_offset"`
}

func newDigestJSON(log string, d client.Digest) digestJSON {
	return digestJSON{log, d.String(), d.At, d.From, d.Covered, d.Batches, d.Start, d.End}
}

func newLogProve(c *terminal.Terminal) *cobra.Command {
	var offset, at int64
	var text string
	command := c.OneLog(&cobra.Command{
		Use:   "prove LOG[@WHERE] --offset OFFSET --digest DIGEST --at OFFSET",
		Short: "Show a record after it was verified against a digest",
		Long: `Show the record at an offset once the server has proved that the log whose digest you
trust has this record there. DIGEST and --at are what "log digest" has shown earlier. The
client checks the proof: a server that has another record cannot make one. WHERE is as in "log diff".`,
		Example: "  strandline log prove orders --offset 17 --at 1000 --digest 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9",
		RunE: func(command *cobra.Command, args []string) error {
			if err := terminal.NotNegative(command, "offset", "at"); err != nil {
				return err
			}
			trusted, err := client.ParseDigest(text, at)
			if err != nil {
				return terminal.Misused(command, "--digest: %v", err)
			}
			log, err := openSide(c, command.Context(), args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			r, err := log.prove(command.Context(), offset, trusted)
			if err != nil {
				return err
			}
			object := struct {
				Log    string `json:"log"`
				Offset int64  `json:"offset"`
				Time   string `json:"time"`
				Key    []byte `json:"key_b64"`
				Value  []byte `json:"value_b64"`
			}{args[0], offset, r.Timestamp.UTC().Format(time.RFC3339Nano), r.Key, r.Value}
			return c.Show(object, func(out io.Writer) { fmt.Fprintf(out, "%s\n", r.Value) })
		},
	})
	command.Flags().Int64Var(&offset, "offset", 0, "the `offset` of the record")
	command.Flags().Int64Var(&at, "at", 0, "the `offset` that the digest is of")
	command.Flags().StringVar(&text, "digest", "", "the `digest`, 64 hexadecimal digits")
	for _, name := range []string{"offset", "at", "digest"} {
		_ = command.MarkFlagRequired(name)
	}
	return command
}

// errDiffer ends a command that has shown a difference.
var errDiffer = errors.New("the two differ")
