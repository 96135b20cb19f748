package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// closingAtOnce is how many sessions are closed side by side: each is an entry of the log, and
// those that wait share a write.
const closingAtOnce = 64

func newSessionClose(c *terminal.Terminal) *cobra.Command {
	var principal string
	command := &cobra.Command{
		Use:   "close LOG [SESSION]",
		Short: "End a session: its appends are refused from then on",
		Long: `End a session, or all open sessions of a principal in a log: their appends are refused
from then on. For sessions of others it needs the right to administer the cluster. Sessions
that a principal opens meanwhile stay open: take its rights away first.`,
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
