package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// statusPause lies between two looks of a command that waits.
const statusPause = 200 * time.Millisecond

func newClusterStatus(c *terminal.Terminal) *cobra.Command {
	var (
		wait bool
		only statusFilter
	)
	timeout := terminal.Duration(time.Minute)
	command := &cobra.Command{
		Use:   "status",
		Short: "Show all nodes, and the leader and replicas of every log",
		Long: `Show all nodes, and for every log its leader, term and range, and the role, end, lag
and state of each replica. A log is healthy if it has a leader, every replica votes
and keeps up, and its placement rule is satisfied. Read replicas never vote, and their
state does not count. If there are rules, they are shown with what they lack.

--log, --node and --unhealthy select what is shown; given together, all of them must
apply.

--wait-healthy waits until every log is healthy, and ends with exit code 1 if the
time runs out.`,
		Example: `  strandline cluster status
  strandline cluster status --unhealthy
  strandline cluster status --node b --log 'orders-*'
  strandline cluster status --wait-healthy --timeout 5m
  strandline cluster status --json | jq '.logs[] | select(.healthy | not)'`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if command.Flags().Changed("timeout") && !wait {
				return terminal.Misused(command, "--timeout needs --wait-healthy")
			}
			return c.WithAdmin(func(admin *client.Admin) error {
				if !wait {
					status, err := admin.ClusterStatus(command.Context())
					if err != nil {
						return err
					}
					return showCluster(c, only.narrow(status))
				}
				status, err := waitHealthy(command.Context(), admin, time.Duration(timeout))
				if len(status.Logs) > 0 {
					err = errors.Join(err, showCluster(c, only.narrow(status)))
				}
				return err
			})
		},
	}
	command.Flags().StringSliceVar(&only.logs, "log", nil, "show only the log of this `name`, or those that begin with PREFIX*; may be repeated")
	command.Flags().StringSliceVar(&only.nodes, "node", nil, "show only the node of this `name`, and the logs that it holds; may be repeated")
	command.Flags().BoolVar(&only.unhealthy, "unhealthy", false, "show only logs that are not healthy")
	command.Flags().BoolVar(&wait, "wait-healthy", false, "wait until every log is healthy")
	command.Flags().Var(&timeout, "timeout", "how long to wait")
	return command
}

// statusFilter is what of a status is shown; the empty one shows all.
type statusFilter struct {
	logs, nodes []string
	unhealthy   bool
}

// narrow returns a status with what the filter shows.
func (f statusFilter) narrow(s client.ClusterStatus) client.ClusterStatus {
	named := func(names []string, name string) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool {
			prefix, some := strings.CutSuffix(n, "*")
			return n == name || some && strings.HasPrefix(name, prefix)
		})
	}
	s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n client.NodeStatus) bool { return !named(f.nodes, n.Name) })
	s.Logs = slices.DeleteFunc(slices.Clone(s.Logs), func(l client.LogStatus) bool {
		here := slices.ContainsFunc(l.Replicas, func(r client.ReplicaStatus) bool { return named(f.nodes, r.Node) })
		return !named(f.logs, l.Name) || len(f.nodes) > 0 && !here || f.unhealthy && l.Healthy
	})
	return s
}

// waitHealthy looks until every log is healthy. It returns what it saw last.
func waitHealthy(ctx context.Context, admin *client.Admin, timeout time.Duration) (client.ClusterStatus, error) {
	late, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var seen client.ClusterStatus
	var failed error
	for {
		status, err := admin.ClusterStatus(late)
		var answered *client.Error
		switch {
		case err == nil && status.Healthy():
			return status, nil
		case err == nil:
			seen, failed = status, nil
		case errors.As(err, &answered) && answered.Retryable:
			failed = err
		case late.Err() == nil:
			return seen, err
		}
		if pause(late) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			return seen, ctx.Err()
		case failed != nil:
			return seen, failed
		}
		return seen, fmt.Errorf("not healthy after %v: %s", terminal.Duration(timeout), unhealthy(seen))
	}
}

// pause waits until the next look. It reports false if ctx ends first.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(statusPause):
		return true
	case <-ctx.Done():
		return false
	}
}

func unhealthy(s client.ClusterStatus) string {
	var names []string
	for _, l := range s.Logs {
		if !l.Healthy {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return "no log is known"
	}
	return strings.Join(names, ", ")
}

// StatusJSON is a cluster as --json shows it.
type StatusJSON struct {
	Cluster string           `json:"cluster"`
	Level   *int             `json:"level"` // nil: unknown
	Nodes   []nodeJSON       `json:"nodes"`
	Logs    []clusterLogJSON `json:"logs"`
	// DefaultRules are those of logs without one of their own, by prefix.
	DefaultRules []defaultRuleJSON `json:"default_rules"`
}

type defaultRuleJSON struct {
	Prefix string             `json:"prefix"`
	Rule   *terminal.RuleJSON `json:"rule"`
}

type nodeJSON struct {
	ID          uint64 `json:"id"`
	Name        string `json:"name"`
	Address     string `json:"address"`
	Alive       bool   `json:"alive"`
	Version     string `json:"version"`
	BytesFree   *int64 `json:"bytes_free"` // nil: unknown, it does not answer
	BytesTotal  *int64 `json:"bytes_total"`
	MemoryUsed  *int64 `json:"memory_used"` // memory for the work of clients
	MemoryTotal *int64 `json:"memory_total"`
	OldestLevel *int   `json:"oldest_level"` // feature levels that it understands
	NewestLevel *int   `json:"newest_level"`

	Labels  []string `json:"labels"`
	Drained bool     `json:"drained"`
	Waits   []string `json:"waits"` // why it must not be stopped yet, if it is drained
}

type clusterLogJSON struct {
	Name     string        `json:"name"`
	ID       uint64        `json:"id"`
	Leader   string        `json:"leader"`
	Term     uint64        `json:"term"`
	Start    *int64        `json:"start"` // nil: unknown, it has no leader
	End      *int64        `json:"end"`
	Healthy  bool          `json:"healthy"`
	Replicas []replicaJSON `json:"replicas"`

	Rule  *terminal.RuleJSON `json:"rule"`  // nil: none
	Unmet []string           `json:"unmet"` // conditions of the rule that are not satisfied
	// Creator is the principal whose share of the cluster's logs it takes; absent: none.
	Creator string `json:"creator,omitempty"`
}

type replicaJSON struct {
	Replica uint64 `json:"replica"`
	Node    string `json:"node"`
	Role    string `json:"role"`
	End     *int64 `json:"end"` // nil: unknown
	Lag     *int64 `json:"lag"`
	State   string `json:"state"`
	Problem string `json:"problem"`
}

// NewStatusJSON returns the status of a cluster as --json shows it.
func NewStatusJSON(s client.ClusterStatus) StatusJSON {
	object := StatusJSON{Cluster: s.ClusterID, Nodes: []nodeJSON{}, Logs: []clusterLogJSON{}, DefaultRules: []defaultRuleJSON{}}
	if s.Level > 0 {
		object.Level = &s.Level
	}
	for _, n := range s.Nodes {
		node := nodeJSON{ID: n.ID, Name: n.Name, Address: n.Address, Alive: n.Alive, Version: n.Version, Labels: append([]string{}, n.Labels...), Drained: n.Drained, Waits: append([]string{}, n.Waits...)}
		if n.Alive {
			node.BytesFree, node.BytesTotal = &n.BytesFree, &n.BytesTotal
			node.MemoryUsed, node.MemoryTotal = &n.MemoryUsed, &n.MemoryTotal
		}
		if n.NewestLevel > 0 {
			node.OldestLevel, node.NewestLevel = &n.OldestLevel, &n.NewestLevel
		}
		object.Nodes = append(object.Nodes, node)
	}
	for _, l := range s.Logs {
		log := clusterLogJSON{
			Name: l.Name, ID: l.ID, Leader: l.Leader, Term: l.Term,
			Healthy: l.Healthy, Replicas: []replicaJSON{}, Rule: terminal.NewRuleJSON(l.Rule), Unmet: append([]string{}, l.Unmet...), Creator: l.Creator,
		}
		if l.Leader != "" {
			log.Start, log.End = &l.Start, &l.End
		}
		for _, r := range l.Replicas {
			replica := replicaJSON{Replica: r.Replica, Node: r.Node, Role: string(r.Role), State: string(r.State), Problem: r.Problem}
			if endKnown(l, r) {
				replica.End = &r.End
			}
			if lagKnown(l, r) {
				replica.Lag = &r.Lag
			}
			log.Replicas = append(log.Replicas, replica)
		}
		object.Logs = append(object.Logs, log)
	}
	for _, d := range s.DefaultRules {
		object.DefaultRules = append(object.DefaultRules, defaultRuleJSON{d.Prefix, terminal.NewRuleJSON(&d.Rule)})
	}
	return object
}

// endKnown reports whether the end of a replica is known: from the leader of the
// log or, without one, from the replica's own node.
func endKnown(l client.LogStatus, r client.ReplicaStatus) bool {
	if r.State == client.Unreachable {
		return r.End > 0 && l.Leader != "" // what the leader knew last
	}
	return r.Role != client.Missing
}

// lagKnown reports whether there is a leader that the replica can lag behind, and which
// hears how far it is.
func lagKnown(l client.LogStatus, r client.ReplicaStatus) bool {
	return r.Role != client.Missing && l.Leader != "" && r.State != client.Unreachable
}

func showCluster(c *terminal.Terminal, s client.ClusterStatus) error {
	return c.Show(NewStatusJSON(s), func(out io.Writer) {
		fmt.Fprintf(out, "cluster %s, feature level %s\n\n", s.ClusterID, levels(s.Level, s.Level))
		nodes := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(nodes, "NODE\tADDRESS\tALIVE\tFREE\tOF\tMEMORY\tOF\tLEVELS\tVERSION\tLABELS")
		for _, n := range s.Nodes {
			space := "unknown\tunknown\tunknown\tunknown"
			if n.Alive {
				space = fmt.Sprintf("%v\t%v\t%v\t%v", terminal.Size(n.BytesFree), terminal.Size(n.BytesTotal), terminal.Size(n.MemoryUsed), terminal.Size(n.MemoryTotal))
			}
			fmt.Fprintf(nodes, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				n.Name, n.Address, yesNo(n.Alive), space, levels(n.OldestLevel, n.NewestLevel), terminal.OrUnknown(n.Version), strings.Join(n.Labels, ","))
		}
		nodes.Flush()
		for _, n := range s.Nodes {
			if n.Drained {
				fmt.Fprintf(out, "\nnode %s is drained: %s\n", n.Name, cmp.Or(reasons(n.Waits), "it may be stopped"))
			}
		}
		fmt.Fprintln(out)
		showReplicas(out, s.Logs)
		showRules(out, s)
	})
}

// showRules prints the rules that there are, and what is missing to keep them.
func showRules(out io.Writer, s client.ClusterStatus) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "\nRULE OF\tRULE\tMISSING\n"
	row := func(of string, rule *client.PlacementRule, missing string) {
		fmt.Fprintf(columns, "%s%s\t%v\t%s\n", head, of, rule, missing)
		head = ""
	}
	for _, d := range s.DefaultRules {
		row(beginning(d.Prefix), &d.Rule, "")
	}
	for _, l := range s.Logs {
		if !l.Rule.Empty() {
			row(l.Name, l.Rule, strings.Join(l.Unmet, "; "))
		}
	}
	columns.Flush()
}

// showReplicas prints a line for each replica; what is the log's stands in the
// first of them.
func showReplicas(out io.Writer, logs []client.LogStatus) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "LOG\tHEALTHY\tLEADER\tTERM\tSTART\tEND\tREPLICA ON\tROLE\tEND\tLAG\tSTATE\tPROBLEM")
	for _, l := range logs {
		led := "unknown\tunknown\tunknown\tunknown"
		if l.Leader != "" {
			led = fmt.Sprintf("%s\t%d\t%d\t%d", l.Leader, l.Term, l.Start, l.End)
		}
		log := fmt.Sprintf("%s\t%s\t%s", l.Name, yesNo(l.Healthy), led)
		for _, r := range l.Replicas {
			end, lag := "unknown", "unknown"
			if endKnown(l, r) {
				end = fmt.Sprint(r.End)
			}
			if lagKnown(l, r) {
				lag = fmt.Sprint(r.Lag)
			}
			fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", log, r.Node, r.Role, end, lag, r.State, r.Problem)
			log = "\t\t\t\t\t"
		}
		if len(l.Replicas) == 0 {
			fmt.Fprintln(columns, log)
		}
	}
	columns.Flush()
}

// levels are feature levels as people read them.
func levels(oldest, newest int) string {
	switch {
	case newest == 0:
		return terminal.OrUnknown("")
	case oldest == newest:
		return strconv.Itoa(newest)
	}
	return fmt.Sprintf("%d-%d", oldest, newest)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
