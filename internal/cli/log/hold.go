package log

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogHold(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "hold",
		Short: "Keep records from being trimmed",
		Long: `A hold keeps every record of a log from an offset on: trims beyond the lowest hold
are refused, and retention stops there. It ends when it is released, when its
lease expires, or when it keeps more than its limit.`,
		Example: `  strandline log hold set orders backup --from 120000 --pointer s3://backups/orders-120000
  strandline log hold release orders backup`,
	},
		newHoldSet(c),
		newHoldList(c),
		newHoldRelease(c),
	)
}

// holdJSON is a hold as --json shows it.
type holdJSON struct {
	Log      string  `json:"log"`
	Hold     string  `json:"hold"`
	Offset   int64   `json:"offset"`
	Owner    string  `json:"owner"`
	LeaseS   float64 `json:"lease_s"`   // 0: none
	MaxBytes int64   `json:"max_bytes"` // 0: no bound
	MaxAgeS  float64 `json:"max_age_s"`
	Kept     int64   `json:"kept_bytes"`
	// Principal set or moved it last; empty: not known, or not for the caller.
	Principal string `json:"principal,omitempty"`
	// Pointer is absent where it is no text; the other form is always there.
	Pointer    *string `json:"pointer,omitempty"`
	PointerB64 string  `json:"pointer_b64"`
}

func newHoldJSON(log string, h client.HoldInfo) holdJSON {
	object := holdJSON{
		Log: log, Hold: h.Name, Offset: h.Offset, Owner: h.Owner, LeaseS: h.Lease.Seconds(), MaxBytes: h.MaxBytes, MaxAgeS: h.MaxAge.Seconds(),
		Kept: h.Kept, Principal: h.Principal, PointerB64: base64.StdEncoding.EncodeToString(h.Pointer),
	}
	if utf8.Valid(h.Pointer) {
		object.Pointer = new(string(h.Pointer))
	}
	return object
}

func newHoldSet(c *terminal.Terminal) *cobra.Command {
	var (
		hold               client.HoldInfo
		from               int64
		fromStart, fromEnd bool
		pointer            string
		lease, age         terminal.Duration
		bytes              terminal.Size
	)
	command := c.OneLog(&cobra.Command{
		Use:   "set LOG HOLD --from OFFSET",
		Short: "Set a hold, or move it",
		Long: `Set a hold, or replace the one of the same name with all its settings. Once it is set,
the log has every record from its offset on; the command is refused if some of them are
trimmed already.

A lease is renewed only by setting the hold again before it expires.`,
		Example: `  strandline log hold set orders backup --from 120000 --pointer s3://backups/orders-120000
  strandline log hold set orders migration --from-start --owner ops --lease 12h --max-bytes 100GiB`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := terminal.NotNegative(command, "from"); err != nil {
				return err
			}
			switch hold.Offset = from; {
			case fromStart:
				hold.Offset = client.HoldFromStart
			case fromEnd:
				hold.Offset = client.HoldFromEnd
			}
			hold.Name, hold.Pointer = args[1], []byte(pointer)
			hold.Lease, hold.MaxAge, hold.MaxBytes = time.Duration(lease), time.Duration(age), int64(bytes)
			return c.WithChange(func(admin *client.Admin) error {
				offset, end, err := admin.SetHold(command.Context(), args[0], hold)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log       string `json:"log"`
					Hold      string `json:"hold"`
					Offset    int64  `json:"offset"`
					EndOffset int64  `json:"end_offset"`
				}{args[0], hold.Name, offset, end}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "hold %s keeps log %s from offset %d on; the log ends at %d\n", hold.Name, args[0], offset, end)
				})
			})
		},
	})
	command.Args = terminal.Named("LOG", "HOLD")
	flags := command.Flags()
	flags.Int64Var(&from, "from", 0, "the oldest `offset` to keep")
	flags.BoolVar(&fromStart, "from-start", false, "keep all records of the log")
	flags.BoolVar(&fromEnd, "from-end", false, "keep the records that are appended from now on")
	flags.StringVar(&hold.Owner, "owner", "", "the `people` to ask before it is released")
	flags.StringVar(&pointer, "pointer", "", "where the state of the earlier records is stored: up to 4 KiB of `text`, which the readers of a trimmed offset receive")
	flags.Var(&lease, "lease", "how long the hold lasts unless it is set again, 1s to 30d; 0: until it is released")
	flags.Var(&bytes, "max-bytes", "break it once it keeps more than this; 0: never")
	flags.Var(&age, "max-age", "break it once it keeps older records than this; 0: never")
	command.MarkFlagsOneRequired("from", "from-start", "from-end")
	command.MarkFlagsMutuallyExclusive("from", "from-start", "from-end")
	return command
}

func newHoldList(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "list LOG",
		Short: "List the holds of a log and the records that each keeps",
		Long: `List the holds of a log by name. KEPT is the size of the records from the offset
on, on the node that answered, followed by its limits. SET BY is the user who set or
moved the hold last, where rights are enforced and for whom may set holds of the log.`,
		Example: "  strandline log hold list orders\n  strandline log hold list orders --json | jq -r .pointer",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				info, err := admin.Info(command.Context(), args[0])
				if err != nil {
					return err
				}
				return showHolds(c, info)
			})
		},
	})
}

func showHolds(c *terminal.Terminal, info client.LogInfo) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, h := range info.Holds {
			if err := encoder.Encode(newHoldJSON(info.Name, h)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "HOLD\tOFFSET\tKEPT\tLEASE\tOWNER\tSET BY\tPOINTER")
	for _, h := range info.Holds {
		lease := "none"
		if h.Lease > 0 {
			lease = terminal.Duration(h.Lease).String()
		}
		fmt.Fprintf(columns, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", terminal.Printable(h.Name), h.Offset, kept(h), lease, terminal.Printable(h.Owner), terminal.Printable(h.Principal), terminal.Printable(string(h.Pointer)))
	}
	return columns.Flush()
}

// kept is what a hold keeps, of what it may.
func kept(h client.HoldInfo) string {
	text := terminal.Size(h.Kept).String()
	if h.MaxBytes > 0 {
		text += fmt.Sprintf(" of %v", terminal.Size(h.MaxBytes))
	}
	if h.MaxAge > 0 {
		text += fmt.Sprintf(" for %v", terminal.Duration(h.MaxAge))
	}
	return text
}

func newHoldRelease(c *terminal.Terminal) *cobra.Command {
	command := c.OneLog(&cobra.Command{
		Use:     "release LOG HOLD",
		Short:   "Release a hold, so that its records may be trimmed",
		Example: "  strandline log hold release orders backup",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.ReleaseHold(command.Context(), args[0], args[1]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log      string `json:"log"`
					Hold     string `json:"hold"`
					Released bool   `json:"released"`
				}{args[0], args[1], true}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "hold %s of log %s is released\n", args[1], args[0])
				})
			})
		},
	})
	command.Args = terminal.Named("LOG", "HOLD")
	return command
}
