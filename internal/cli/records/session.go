package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"text/tabwriter"
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
  pending     it is in progress; ask again
  not now     it is not in the log, but a request in progress may still append it
  never       it is not in the log and never will be
  forgotten   the log no longer knows: the client has received the answer, or the
              session ended more than 24 h ago, or it never existed

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
		return 0, terminal.Misused(command, "session must be a number above 0, as printed by \"session open\", not %q", text)
	}
	return id, nil
}

// openSessionJSON is an open session as --json shows it.
type openSessionJSON struct {
	Log          string  `json:"log"`
	SessionID    uint64  `json:"session_id"`
	Principal    string  `json:"principal"` // empty: unknown
	Producer     bool    `json:"kafka_producer"`
	Epoch        uint32  `json:"epoch"`
	NextSequence uint64  `json:"next_sequence"`
	LeaseS       float64 `json:"lease_s"`
	SilentS      float64 `json:"silent_s"`
	MemoryBytes  uint64  `json:"memory_bytes"`
}

func newSessionList(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "list LOG",
		Short: "List the open sessions of a log and their principals",
		Long: `List the open sessions of a log: number, principal, lease, time since the last sign
of life, and the memory that each uses on the node. The command needs the right to
administer the cluster, which also allows closing any session.

Where rights are enforced, opening a session is refused if the principal has as many
open sessions of the log as remain for others, or if its sessions use more than half of
the memory for sessions that remains for others: a third of all if it is alone. A closed
session counts until the node forgets it, after 5 minutes. An open session can always
store 64 separate runs of records and 7 ended epochs.`,
		Example: `  strandline session list orders
  strandline session list orders --json | jq -r .principal | sort | uniq -c`,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				sessions, err := admin.ListSessions(command.Context(), args[0])
				if err != nil {
					return err
				}
				return showSessions(c, args[0], sessions)
			})
		},
	})
}

func showSessions(c *terminal.Terminal, log string, sessions []client.SessionInfo) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, s := range sessions {
			if err := encoder.Encode(openSessionJSON{log, s.ID, s.Principal, s.Producer, s.Epoch, s.Next, s.Lease.Seconds(), s.Silent.Seconds(), s.Memory}); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "SESSION\tPRINCIPAL\tOPENED BY\tEPOCH\tNEXT\tLEASE\tSILENT\tMEMORY")
	for _, s := range sessions {
		by := "a client"
		if s.Producer {
			by = "a Kafka producer"
		}
		fmt.Fprintf(columns, "%d\t%s\t%s\t%d\t%d\t%v\t%v\t%v\n", s.ID, terminal.OrUnknown(s.Principal), by, s.Epoch, s.Next, terminal.Duration(s.Lease), terminal.Duration(s.Silent), terminal.Size(int64(s.Memory)))
	}
	return columns.Flush()
}

// closingAtOnce is how many sessions are closed side by side: each is an entry of the log, and
// those that wait share a write.
const closingAtOnce = 64

func newSessionClose(c *terminal.Terminal) *cobra.Command {
	var principal string
	command := &cobra.Command{
		Use:   "close LOG [SESSION]",
		Short: "End a session: its appends are refused from then on",
		Long: `End a session, or all open sessions of a principal in a log: their appends are refused
from then on. Sessions of others need the right to administer the cluster. Sessions that
a principal opens meanwhile stay open: take its rights away first.`,
		Example:           "  strandline session close orders 17\n  strandline session close orders --principal user/bob",
		ValidArgsFunction: c.CompleteLog,
		RunE: func(command *cobra.Command, args []string) error {
			if principal != "" {
				return c.WithChange(func(admin *client.Admin) error { return closeOf(command.Context(), c, admin, args[0], principal) })
			}
			return changeSession(c, command, args, "closed", (*client.Admin).CloseSession)
		},
	}
	command.Args = func(command *cobra.Command, args []string) error {
		if principal != "" {
			return terminal.Named("LOG")(command, args)
		}
		return terminal.Named("LOG", "SESSION")(command, args)
	}
	command.Flags().StringVar(&principal, "principal", "", "all sessions of this `principal`, such as user/bob")
	return command
}

// sessions is what it takes to close those of a principal.
type sessions interface {
	ListSessions(ctx context.Context, log string) ([]client.SessionInfo, error)
	CloseSession(ctx context.Context, log string, s client.Session) error
}

// closeOf closes the sessions of a principal that are open when it begins.
func closeOf(ctx context.Context, c *terminal.Terminal, admin sessions, log, principal string) error {
	all, err := admin.ListSessions(ctx, log)
	if err != nil {
		return err
	}
	var ids []uint64
	for _, s := range all {
		if s.Principal == principal {
			ids = append(ids, s.ID)
		}
	}
	bar := c.NewProgress(true, "close", int64(len(ids)), terminal.UnitCount)
	closed, err := closeAll(ctx, admin, log, ids, bar)
	bar.Close()
	if err != nil {
		return terminal.Changing(fmt.Errorf("%d of %s of %s are closed, and then: %w", closed, terminal.Counted(int64(len(ids)), "session"), principal, err))
	}
	object := struct {
		Log       string `json:"log"`
		Principal string `json:"principal"`
		Closed    int    `json:"closed"`
	}{log, principal, closed}
	return c.Show(object, func(out io.Writer) {
		fmt.Fprintf(out, "closed %s of %s in log %s\n", terminal.Counted(int64(closed), "session"), principal, log)
	})
}

// closeAll closes sessions until one fails, and returns how many it has closed. Those that have
// ended by themselves need not be.
func closeAll(ctx context.Context, admin sessions, log string, ids []uint64, bar *terminal.Progress) (closed int, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan uint64)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range min(closingAtOnce, len(ids)) {
		all.Go(func() {
			for id := range next {
				err := admin.CloseSession(ctx, log, client.Session{ID: id})
				switch {
				case err == nil:
					mu.Lock()
					closed++
					mu.Unlock()
				case !errors.Is(err, client.ErrSessionExpired):
					stop(fmt.Errorf("session %d: %w", id, err))
					return
				}
				bar.Add(1)
			}
		})
	}
	for _, id := range ids {
		select {
		case next <- id:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	all.Wait()
	return closed, context.Cause(ctx)
}
