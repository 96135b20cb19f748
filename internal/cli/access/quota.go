package access

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

const quotaHelp = `
A SUBJECT is user/NAME; * for each principal without a quota of its own, and for each address
of clients that are not authenticated; log/NAME, a topic with all its partitions; or log/*
for each log without a quota of its own. Limits hold on each node by itself.`

// NewQuota makes the command quota.
func NewQuota(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "quota",
		Short: "Limit what principals take, and what is taken of logs",
		Long: `Limit the bytes and requests in a second, the streams and the connections of principals, and
the bytes and requests of logs. Requests and reads above a quota wait, and are refused with
BUSY if they would wait too long.
` + quotaHelp,
		Example: `  strandline quota set user/reports --read-bytes 20MiB
  strandline quota list`,
	}, newQuotaSet(c), newQuotaRemove(c), newQuotaList(c))
}

// quota is one as it is shown.
type quota struct {
	Subject     string `json:"subject"`
	AppendBytes int64  `json:"append_bytes,omitempty"`
	ReadBytes   int64  `json:"read_bytes,omitempty"`
	Requests    int64  `json:"requests,omitempty"`
	Streams     int64  `json:"streams,omitempty"`
	Connections int64  `json:"connections,omitempty"`
}

// use is what is taken of a limit, as it is shown.
type use struct {
	Subject string  `json:"subject"`
	Limit   string  `json:"limit"`
	Quota   string  `json:"quota"`
	Taken   int64   `json:"taken"`
	Wait    float64 `json:"wait_seconds"`
	Waiting int64   `json:"waiting"`
}

func newQuotaSet(c *terminal.Terminal) *cobra.Command {
	var q quota
	var appends, reads terminal.Size
	command := &cobra.Command{
		Use:   "set SUBJECT",
		Short: "Set the quota of a principal or a log",
		Long: `Set the quota of a principal or a log, in place of the one that it has: a limit that is not
given is none. Without limits the subject is free of the quota of * or log/*. All nodes keep
the quota within a second. A quota needs feature level 6.
` + quotaHelp,
		Example: `  strandline quota set user/reports --read-bytes 20MiB --streams 100
  strandline quota set '*' --append-bytes 50MiB --requests 2000
  strandline quota set log/orders --append-bytes 100MiB`,
		Args:              terminal.Named("SUBJECT"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			q.Subject, q.AppendBytes, q.ReadBytes = args[0], int64(appends), int64(reads)
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.Access().SetQuota(command.Context(), client.Quota(q)); err != nil {
					return terminal.Changing(err)
				}
				return c.Show(q, func(out io.Writer) { fmt.Fprintf(out, "set the quota of %s: %s\n", q.Subject, q.limits()) })
			})
		},
	}
	command.Flags().Var(&appends, "append-bytes", "bytes of requests to append in a second")
	command.Flags().Var(&reads, "read-bytes", "bytes of batches read in a second")
	command.Flags().Int64Var(&q.Requests, "requests", 0, "requests in a second; of a log, appends and new reads")
	command.Flags().Int64Var(&q.Streams, "streams", 0, "open streams; not of a log")
	command.Flags().Int64Var(&q.Connections, "connections", 0, "open connections; not of a log")
	return command
}

// limits returns the limits for people.
func (q quota) limits() string {
	var all []string
	add := func(limit int64, text string) {
		if limit > 0 {
			all = append(all, text)
		}
	}
	add(q.AppendBytes, fmt.Sprintf("append %s/s", terminal.Size(q.AppendBytes)))
	add(q.ReadBytes, fmt.Sprintf("read %s/s", terminal.Size(q.ReadBytes)))
	add(q.Requests, fmt.Sprintf("%d requests/s", q.Requests))
	add(q.Streams, terminal.Counted(q.Streams, "stream"))
	add(q.Connections, terminal.Counted(q.Connections, "connection"))
	if len(all) == 0 {
		return "no limits"
	}
	return strings.Join(all, ", ")
}

func newQuotaRemove(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "remove SUBJECT",
		Short: "Remove the quota of a principal or a log",
		Long: `Remove the quota of a principal or a log. Whoever waits for it continues within a second. The
quota of * or log/* applies from then on, if there is one.
` + quotaHelp,
		Example:           "  strandline quota remove user/reports",
		Args:              terminal.Named("SUBJECT"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.Access().RemoveQuota(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				removed := struct {
					Subject string `json:"subject"`
				}{args[0]}
				return c.Show(removed, func(out io.Writer) { fmt.Fprintf(out, "removed the quota of %s\n", removed.Subject) })
			})
		},
	}
}

func newQuotaList(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all quotas, and who takes how much",
		Long: `List all quotas, and who takes how much of them on the node that answers, the catalog's
leader unless --address names one node: those first that wait longest. TAKEN is what was
taken in the last second, or is open; WAIT is how long the next request waits.`,
		Example:           "  strandline quota list",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, node, uses, err := admin.Access().ListQuotas(command.Context())
				if err != nil {
					return err
				}
				object := struct {
					Quotas []quota `json:"quotas"`
					Node   string  `json:"node"`
					Uses   []use   `json:"uses"`
				}{[]quota{}, node, []use{}}
				for _, q := range all {
					object.Quotas = append(object.Quotas, quota(q))
				}
				for _, u := range uses {
					object.Uses = append(object.Uses, use{u.Subject, u.Limit, u.Quota, u.Taken, u.Wait.Seconds(), u.Waiting})
				}
				return c.Show(object, func(out io.Writer) {
					table(out, "SUBJECT\tLIMITS", len(all), func(i int) []any { return []any{all[i].Subject, object.Quotas[i].limits()} })
					if len(all) == 0 {
						fmt.Fprintln(out, "no quotas: everybody takes as much as there is (strandline quota set)")
					}
					if len(uses) > 0 {
						fmt.Fprintf(out, "\non node %s:\n", node)
					}
					table(out, "SUBJECT\tLIMIT\tTAKEN\tWAIT\tWAITING", len(uses), func(i int) []any {
						u := uses[i]
						return []any{u.Subject, u.Limit, u.Taken, u.Wait.Round(1e6), u.Waiting}
					})
				})
			})
		},
	}
}
