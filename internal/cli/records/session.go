package records

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewSession makes the command session.
func NewSession(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "session",
		Short: "Open, list, resolve, keep and close append sessions",
		Long: `A session makes appends at most once and in order: each carries the session, an
epoch and a sequence, and a duplicate gets the first answer back. Client
libraries open sessions by themselves; these commands are for inspecting a session
and for programs without a library.`,
		Example: `  strandline session open orders --lease 5m
  strandline session resolve orders 17 --sequence 41`,
	},
		newSessionOpen(c),
		newSessionList(c),
		newSessionResolve(c),
		newSessionKeep(c),
		newSessionClose(c),
	)
}

type sessionJSON struct {
	Log       string  `json:"log"`
	SessionID uint64  `json:"session_id"`
	Epoch     uint32  `json:"epoch"`
	LeaseS    float64 `json:"lease_s"`
}

func newSessionOpen(c *terminal.Terminal) *cobra.Command {
	lease := terminal.Duration(60 * time.Second)
	command := c.OneLog(&cobra.Command{
		Use:     "open LOG",
		Short:   "Open a session and print its number",
		Example: "  strandline session open orders --lease 5m",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				s, err := admin.OpenSession(command.Context(), args[0], time.Duration(lease))
				if err != nil {
					return terminal.Changing(err)
				}
				return c.Show(sessionJSON{args[0], s.ID, s.Epoch, s.Lease.Seconds()}, func(out io.Writer) {
					fmt.Fprintf(out, "session %d of log %s, epoch %d, lease %v\n", s.ID, args[0], s.Epoch, terminal.Duration(s.Lease))
				})
			})
		},
	})
	command.Flags().Var(&lease, "lease", "how long the session lives without an append or a keep, 1s to 24h")
	return command
}

func newSessionResolve(c *terminal.Terminal) *cobra.Command {
	var (
		epoch    uint32
		sequence uint64
		final    bool
	)
	command := &cobra.Command{
		Use:   "resolve LOG SESSION --sequence N",
		Short: "Show the outcome of an append whose answer was lost",
		Long: `Show the outcome of the record with a sequence:

  committed   it is in the log, at the offset shown
  pending     it is on its way; ask again
  not now     it is not in the log, but a request still under way may bring it
  never       it is not in the log and never will be
  forgotten   the log no longer knows: the client has had its answer, or the
              session ended more than 24 h ago, or there never was one

--final turns "not now" into "never": the session's epoch ends.`,
		Example: "  strandline session resolve orders 17 --epoch 0 --sequence 41\n  strandline session resolve orders 17 --sequence 41 --final",
		RunE: func(command *cobra.Command, args []string) error {
			id, err := sessionID(command, args[1])
			if err != nil {
				return err
			}
			return c.WithAdmin(func(admin *client.Admin) error {
				r, err := admin.Resolve(command.Context(), args[0], client.SessionPosition{Session: id, Epoch: epoch, Next: sequence}, final)
				if err != nil && final {
					return terminal.Changing(err)
				}
				if err != nil {
					return err
				}
				return showResolution(c, args[0], id, r)
			})
		},
	}
	flags := command.Flags()
	flags.Uint32Var(&epoch, "epoch", 0, "epoch of the append")
	flags.Uint64Var(&sequence, "sequence", 0, "sequence of the record")
	flags.BoolVar(&final, "final", false, "if the record is not in the log, ensure that it is never appended")
	_ = command.MarkFlagRequired("sequence")
	return oneSession(c, command)
}

func showResolution(c *terminal.Terminal, log string, session uint64, r client.Resolution) error {
	object := struct {
		State  string `json:"state"`
		Offset *int64 `json:"offset,omitempty"`
		Epoch  uint32 `json:"epoch"`
	}{State: r.State.String(), Epoch: r.Epoch}
	if r.State == client.Committed {
		object.Offset = &r.Offset
	}
	return c.Show(object, func(out io.Writer) {
		if r.State == client.Committed {
			fmt.Fprintf(out, "committed at offset %d\n", r.Offset)
			return
		}
		if r.State == client.Forgotten && r.Epoch == 0 {
			// The log cannot distinguish a session of which it keeps nothing from
			// one that never was.
			fmt.Fprintf(out, "forgotten: log %s knows nothing of this record; if session %d was not opened in this log, it never was in it\n", log, session)
			return
		}
		fmt.Fprintf(out, "%v (the session is in epoch %d)\n", r.State, r.Epoch)
	})
}

func newSessionKeep(c *terminal.Terminal) *cobra.Command {
	return oneSession(c, &cobra.Command{
		Use:     "keep LOG SESSION",
		Short:   "Renew the lease of a session",
		Example: "  strandline session keep orders 17",
		RunE: func(command *cobra.Command, args []string) error {
			return changeSession(c, command, args, "kept", (*client.Admin).KeepSession)
		},
	})
}

// changeSession calls a verb that has no answer but that it was done.
func changeSession(c *terminal.Terminal, command *cobra.Command, args []string, done string,
	verb func(*client.Admin, context.Context, string, client.Session) error,
) error {
	id, err := sessionID(command, args[1])
	if err != nil {
		return err
	}
	return c.WithChange(func(admin *client.Admin) error {
		if err := verb(admin, command.Context(), args[0], client.Session{ID: id}); err != nil {
			return terminal.Changing(err)
		}
		object := map[string]any{"log": args[0], "session_id": id, "state": done}
		return c.Show(object, func(out io.Writer) {
			fmt.Fprintf(out, "%s session %d of log %s\n", done, id, args[0])
		})
	})
}

// oneSession gives a command its two arguments: a log and a session of it.
func oneSession(c *terminal.Terminal, command *cobra.Command) *cobra.Command {
	command.Args = terminal.Named("LOG", "SESSION")
	command.ValidArgsFunction = c.CompleteLog
	return command
}

func sessionID(command *cobra.Command, text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, terminal.Misused(command, "session %q: a session is a number above 0, as \"session open\" prints it", text)
	}
	return id, nil
}
