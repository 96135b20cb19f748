// Package log is the commands about logs: create, list, configure, trim, compare, delete.
package log

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// New makes the command log.
func New(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "log",
		Short: "Create, list, change, trim, compare and delete logs",
		Example: `  strandline log create orders --retention 7d
  strandline log list`,
	},
		newLogCreate(c),
		newLogList(c),
		newLogInfo(c),
		newLogConfigure(c),
		newLogTrim(c),
		newLogSeal(c),
		newLogHold(c),
		newLogDigest(c),
		newLogProve(c),
		newLogDiff(c),
		newLogDelete(c),
	)
}

// logJSON is a log as --json shows it.
type logJSON struct {
	Log            string  `json:"log"`
	ID             uint64  `json:"id"`
	Durability     string  `json:"durability"`
	RetentionS     float64 `json:"retention_s"`
	RetentionBytes int64   `json:"retention_bytes"`
	Replicas       int     `json:"replicas"` // that it wants, without read replicas
	ReplicasNow    int     `json:"replicas_now"`
	Fenced         bool    `json:"fenced"`
	Created        string  `json:"created"`
	StartOffset    *int64  `json:"start_offset"` // nil: unknown
	EndOffset      *int64  `json:"end_offset"`
	BytesUsed      *int64  `json:"bytes_used"`
	BytesFree      int64   `json:"bytes_free"`
	WriterTerm     uint64  `json:"writer_term"`
	OpenSessions   int     `json:"open_sessions"`
	Leader         string  `json:"leader"`
	LeaderTerm     uint64  `json:"leader_term"`
	Sealed         bool    `json:"sealed"`
	Problem        string  `json:"problem,omitempty"`
	// Holds are shown where one log is.
	Holds []holdJSON `json:"holds,omitempty"`
	// Rule is its own; nil: none.
	Rule *terminal.RuleJSON `json:"rule"`
	// ReadReplicas are those that there are.
	ReadReplicas []readReplicaJSON `json:"read_replicas"`
}

type readReplicaJSON struct {
	Node   string   `json:"node"`
	Labels []string `json:"labels"`
	Lag    *int64   `json:"lag"` // nil: unknown
}

func newLogJSON(i client.LogInfo) logJSON {
	known := func(n int64) *int64 {
		if i.Unknown {
			return nil
		}
		return &n
	}
	object := logJSON{
		Log: i.Name, ID: i.ID,
		Durability: i.Config.Durability.String(), RetentionS: i.Config.Retention.Seconds(), RetentionBytes: i.Config.RetentionBytes,
		Replicas: i.Config.Replicas, ReplicasNow: len(i.Replicas) - len(readReplicas(i)),
		Fenced:      i.Config.Fenced,
		Rule:        terminal.NewRuleJSON(i.Config.Rule),
		Created:     i.Created.UTC().Format(time.RFC3339),
		StartOffset: known(i.Start), EndOffset: known(i.End),
		BytesUsed: known(i.BytesUsed), BytesFree: i.BytesFree,
		WriterTerm: i.WriterTerm, OpenSessions: i.OpenSessions,
		Leader: i.Leader, LeaderTerm: i.LeaderTerm,
		Sealed: i.Sealed, Problem: i.Problem, ReadReplicas: []readReplicaJSON{},
	}
	for _, r := range readReplicas(i) {
		object.ReadReplicas = append(object.ReadReplicas, readReplicaJSON{r.Node, append([]string{}, r.Labels...), r.Lag})
	}
	for _, h := range i.Holds {
		object.Holds = append(object.Holds, newHoldJSON(i.Name, h))
	}
	return object
}

// showLog prints all that is known of one log.
func showLog(c *terminal.Terminal, i client.LogInfo) error {
	return c.Show(newLogJSON(i), func(out io.Writer) {
		fields := []any{
			"log", i.Name,
			"durability", promise(i.Config.Durability),
			"retention", retention(i.Config),
			"held by", replicas(i),
			"offsets", fmt.Sprintf("[%d, %d), %s", i.Start, i.End, terminal.Counted(i.End-i.Start, "record")),
			"space", fmt.Sprintf("%v used, %v free, on %s", terminal.Size(i.BytesUsed), terminal.Size(i.BytesFree), answered(i)),
			"writer term", writerTerm(i),
			"sessions", fmt.Sprintf("%d open", i.OpenSessions),
			"leader", fmt.Sprintf("%s, term %d", terminal.OrUnknown(i.Leader), i.LeaderTerm),
			"created", i.Created.Local().Format(time.RFC3339),
		}
		for _, h := range i.Holds {
			fields = append(fields, "hold", fmt.Sprintf("%s, from %d on: %s", terminal.Printable(h.Name), h.Offset, kept(h)))
		}
		if !i.Config.Rule.Empty() {
			fields = append(fields, "rule", i.Config.Rule.String())
		}
		for _, r := range readReplicas(i) {
			fields = append(fields, "read replica", fmt.Sprintf("on %s (%s), %s", r.Node, strings.Join(r.Labels, ","), lag(r)))
		}
		if i.Sealed {
			fields = append(fields, "sealed", "takes no more appends")
		}
		if i.Problem != "" {
			fields = append(fields, "problem", i.Problem)
		}
		terminal.Fields(out, fields...)
	})
}

// answered names the node that answered: only that of the leader knows how far the leader is.
func answered(i client.LogInfo) string {
	for _, r := range i.Replicas {
		if r.Leader && r.Lag != nil {
			return "node " + r.Node
		}
	}
	return "the node that answered"
}

// writerTerm returns the newest term, and what becomes of appends without one.
func writerTerm(i client.LogInfo) string {
	switch {
	case i.Config.Fenced && i.WriterTerm > 0:
		return fmt.Sprintf("%d; appends without a term are refused", i.WriterTerm)
	case i.Config.Fenced:
		return "0; once one is acquired, appends without a term are refused"
	}
	return fmt.Sprint(i.WriterTerm)
}

// promise says what an acknowledgement of the log rests on.
func promise(d client.Durability) string {
	if d == client.Memory {
		return "memory: in the memory of a majority, nothing on disk"
	}
	return "disk: fsynced on a majority"
}

func retention(config client.LogConfig) string {
	age, bytes := terminal.Duration(config.Retention), terminal.Size(config.RetentionBytes)
	switch {
	case age == 0 && bytes == 0:
		return "everything is kept until it is trimmed"
	case bytes == 0:
		return fmt.Sprintf("trimmed after %v", age)
	case age == 0:
		return fmt.Sprintf("trimmed beyond %v", bytes)
	default:
		return fmt.Sprintf("trimmed after %v or beyond %v", age, bytes)
	}
}

func readReplicas(i client.LogInfo) (readers []client.ReplicaAddress) {
	for _, r := range i.Replicas {
		if r.ReadReplica {
			readers = append(readers, r)
		}
	}
	return readers
}

// lag says how far a replica is behind its leader.
func lag(r client.ReplicaAddress) string {
	if r.Lag == nil {
		return "lag unknown"
	}
	return terminal.Counted(*r.Lag, "record") + " behind"
}

// replicas reports how many copies there are and, if known, where.
func replicas(i client.LogInfo) string {
	var nodes []string
	for _, r := range i.Replicas {
		if !r.ReadReplica {
			nodes = append(nodes, r.Node)
		}
	}
	switch {
	case len(nodes) > 0 && len(nodes) < i.Config.Replicas:
		return fmt.Sprintf("%d of %d replicas on %s: \"cluster status\" shows how far the others are, or that they wait for more nodes", len(nodes), i.Config.Replicas, strings.Join(nodes, ", "))
	case len(nodes) > 0:
		return terminal.Counted(int64(len(nodes)), "replica") + " on " + strings.Join(nodes, ", ")
	case i.Config.Replicas > 0:
		return terminal.Counted(int64(i.Config.Replicas), "replica")
	}
	return "unknown"
}

func newLogInfo(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "info LOG",
		Short: "Show where a log starts and ends, and how it is kept",
		Long: `Show the range, configuration and leader of a log. Ranges are half-open: for [10, 25),
the first record has offset 10 and the next append gets 25.`,
		Example: "  strandline log info orders\n  strandline log info orders --json | jq .end_offset",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				info, err := admin.Info(command.Context(), args[0])
				if err != nil {
					return err
				}
				return showLog(c, info)
			})
		},
	})
}
