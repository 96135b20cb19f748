package records

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// openSessionJSON is an open session as --json shows it.
type openSessionJSON struct {
	Log          string  `json:"log"`
	SessionID    uint64  `json:"session_id"`
	Principal    string  `json:"principal"` // empty: nobody that is known
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
		Short: "List the open sessions of a log and their owners",
		Long: `List the open sessions of a log by number: who opened each, how long it lives
without a sign of life, how long ago the newest was, and what memory of the node it
takes with what it remembers of its appends. It needs the right to administer the
cluster; who has it may close any of them.

Where rights are enforced, a principal opens no more sessions of a log than there
is room for besides, and none while its sessions, with those that have ended and are
not forgotten, take a third of the node's memory for sessions. Those that are open
may still remember 64 separate runs of records and 7 ended epochs each.`,
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
