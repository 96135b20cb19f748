package records

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewWriter makes the command writer.
func NewWriter(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "writer",
		Short: "Elect the writer of a log, and fence earlier writers",
		Long: `Each writer of a log has a term: appends of older terms are refused. "acquire" takes
the newest term at once, or with --name waits for the writer lease, which elects one of
several programs. Appends with its term and "keep" renew the lease.`,
		Example: `  strandline writer acquire orders
  strandline writer acquire orders --name indexer-1 --lease 10s --wait 1m
  strandline writer watch orders`,
	},
		newWriterAcquire(c),
		newWriterKeep(c),
		newWriterRelease(c),
		newWriterWatch(c),
	)
}

func newWriterAcquire(c *terminal.Terminal) *cobra.Command {
	var claim client.WriterClaim
	var payload string
	lease, wait := terminal.Duration(10*time.Second), terminal.Duration(0)
	command := c.OneLog(&cobra.Command{
		Use:   "acquire LOG",
		Short: "Become the writer of a log: appends of older terms are refused",
		Long: `Raise the writer term of a log and print it. Appends with an older term are refused
from then on; earlier appends of an older writer are below the end shown. Appends without
a term are accepted, unless the log is fenced: "strandline log configure --fenced".

With --name the term comes with the writer lease. While another program has the lease,
the command changes nothing: it waits in line, or fails. The lease ends after a time
(--lease) without an append with the term and without "writer keep". A program that has
the lease and acquires it again under its name gets a new term.`,
		Example: `  strandline writer acquire orders
  strandline append orders --writer-term 3 < lines.txt
  strandline writer acquire orders --name indexer-1 --payload 10.0.0.1:80 --lease 10s --wait 1m`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := mayAcquire(command, claim.Name); err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				claim.Payload, claim.Lease = []byte(payload), time.Duration(lease)
				object := struct {
					Log        string `json:"log"`
					WriterTerm uint64 `json:"writer_term"`
					EndOffset  int64  `json:"end_offset"`
				}{Log: args[0]}
				var err error
				if claim.Name == "" {
					object.WriterTerm, object.EndOffset, err = admin.AcquireWriter(command.Context(), args[0])
				} else {
					var grant client.WriterGrant
					grant, err = admin.LeaseWriter(command.Context(), args[0], claim, time.Duration(wait))
					if err == nil && grant.Term == 0 {
						return fmt.Errorf("%q has the writer lease of log %s, with term %d: wait for it with --wait", grant.State.Name, args[0], grant.State.Term)
					}
					object.WriterTerm, object.EndOffset = grant.Term, grant.End
				}
				if err != nil {
					return terminal.Changing(err)
				}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "writer term %d of log %s, from offset %d on\n", object.WriterTerm, args[0], object.EndOffset)
				})
			})
		},
	})
	flags := command.Flags()
	flags.StringVar(&claim.Name, "name", "", "take part in the election under this `name`")
	flags.StringVar(&payload, "payload", "", "`text` of up to 4 KiB that \"writer watch\" shows, such as an address")
	flags.Var(&lease, "lease", "how long the lease lasts without an append or \"writer keep\", 1s to 1h")
	flags.Var(&wait, "wait", "how long to wait in line, at most 1m")
	return command
}

// mayAcquire refuses flags of the election without a name, which would take the log by force.
func mayAcquire(command *cobra.Command, name string) error {
	if name != "" {
		return nil
	}
	if command.Flags().Changed("name") {
		return terminal.Misused(command, "--name is empty: without --name the term is taken at once")
	}
	for _, flag := range []string{"payload", "lease", "wait"} {
		if command.Flags().Changed(flag) {
			return terminal.Misused(command, "--%s needs --name: without --name the term is taken at once", flag)
		}
	}
	return nil
}

// termOf reads a writer term, an argument of a command.
func termOf(command *cobra.Command, text string) (uint64, error) {
	term, err := strconv.ParseUint(text, 10, 64)
	if err != nil || term == 0 {
		return 0, terminal.Misused(command, "writer term must be a number above 0, not %q", text)
	}
	return term, nil
}

func newWriterKeep(c *terminal.Terminal) *cobra.Command {
	command := c.OneLog(&cobra.Command{
		Use:     "keep LOG TERM",
		Short:   "Renew the writer lease that was granted with a term",
		Example: "  strandline writer keep orders 3",
		RunE: func(command *cobra.Command, args []string) error {
			term, err := termOf(command, args[1])
			if err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.KeepWriter(command.Context(), args[0], term); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log        string `json:"log"`
					WriterTerm uint64 `json:"writer_term"`
					Kept       bool   `json:"kept"`
				}{args[0], term, true}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "the writer lease of log %s with term %d is renewed\n", args[0], term)
				})
			})
		},
	})
	command.Args = terminal.Named("LOG", "TERM")
	return command
}

func newWriterRelease(c *terminal.Terminal) *cobra.Command {
	var to string
	command := c.OneLog(&cobra.Command{
		Use:   "release LOG TERM",
		Short: "End the writer lease that was granted with a term, or hand it over",
		Long: `End the writer lease that was granted with a term. The first program in line gets it
at once; with --to the program of that name gets it. If that program does not wait, the
command changes nothing and fails.`,
		Example: "  strandline writer release orders 3\n  strandline writer release orders 3 --to indexer-2",
		RunE: func(command *cobra.Command, args []string) error {
			term, err := termOf(command, args[1])
			if err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.ReleaseWriter(command.Context(), args[0], term, to); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log        string `json:"log"`
					WriterTerm uint64 `json:"writer_term"`
					Released   bool   `json:"released"`
				}{args[0], term, true}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "the writer lease of log %s with term %d is released\n", args[0], term)
				})
			})
		},
	})
	command.Args = terminal.Named("LOG", "TERM")
	command.Flags().StringVar(&to, "to", "", "the `name` of the program in line that gets the lease")
	return command
}

// writerJSON is the writer of a log as --json shows it.
type writerJSON struct {
	Log        string    `json:"log"`
	WriterTerm uint64    `json:"writer_term"`
	Held       bool      `json:"held"`
	Name       string    `json:"name,omitempty"`
	LeaseS     float64   `json:"lease_s,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	LeftS      float64   `json:"left_s,omitempty"`
	Waiting    int       `json:"waiting"`
	// Payload is absent where it is no text; the other form is there whenever there is one.
	Payload    *string `json:"payload,omitempty"`
	PayloadB64 string  `json:"payload_b64,omitempty"`
}

func newWriterWatch(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "watch LOG",
		Short: "Print the holder of the writer lease of a log, now and after each change",
		Long: `Print the holder of the writer lease of a log, the time of the grant by the clock of the
log's leader, and the time since the last sign of life: now, and after each change, until
interrupted.`,
		Example: "  strandline writer watch orders\n  strandline writer watch orders --json | jq -r .payload",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				var last *client.WriterState
				for s, err := range admin.WatchWriter(command.Context(), args[0], 0) {
					if err != nil {
						return err
					}
					if last != nil && last.Term == s.Term && last.Held == s.Held {
						continue
					}
					last = &s
					if err := showWriter(c, args[0], s); err != nil {
						return err
					}
				}
				return nil
			})
		},
	})
}

func showWriter(c *terminal.Terminal, log string, s client.WriterState) error {
	if c.JSON {
		object := writerJSON{
			Log: log, WriterTerm: s.Term, Held: s.Held, Name: s.Name, LeaseS: s.Lease.Seconds(), Since: s.Since, LeftS: s.Left.Seconds(), Waiting: s.Waiting,
		}
		if len(s.Payload) > 0 {
			object.PayloadB64 = base64.StdEncoding.EncodeToString(s.Payload)
			if utf8.Valid(s.Payload) {
				object.Payload = new(string(s.Payload))
			}
		}
		return json.NewEncoder(c.Out).Encode(object)
	}
	if !s.Held {
		_, err := fmt.Fprintf(c.Out, "term %d: no holder of the writer lease\n", s.Term)
		return err
	}
	text := fmt.Sprintf("term %d: %s, since %s", s.Term, terminal.Printable(s.Name), s.Since.UTC().Format(time.RFC3339))
	text += fmt.Sprintf(", for %v without a sign of life, %d in line", terminal.Duration(s.Left.Truncate(100*time.Millisecond)), s.Waiting)
	if len(s.Payload) > 0 {
		text += ": " + terminal.Printable(string(s.Payload))
	}
	_, err := fmt.Fprintln(c.Out, text)
	return err
}
