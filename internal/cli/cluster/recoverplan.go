package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/recovery"
)

// recoveryPlanJSON is what cluster recover shows before it does anything, and recoveredJSON afterwards.
type recoveryPlanJSON struct {
	Was         string                  `json:"was"`
	Cluster     string                  `json:"cluster"` // empty: it is drawn when the plan is accepted
	Survivors   []string                `json:"surviving_nodes"`
	Lost        []string                `json:"lost_nodes"`
	Answering   []string                `json:"answering_nodes"` // lost nodes at whose address something answers
	Directories []directoryJSON         `json:"directories"`
	Replaces    []string                `json:"replaces"` // clusters of plans that were not started
	Logs        []cluster.LogRecovery   `json:"logs"`
	Unused      []cluster.UnusedReplica `json:"unused_replicas"`
}

type directoryJSON struct {
	Path  string `json:"data"`
	State string `json:"state"`
}

type recoveredJSON struct {
	Cluster string   `json:"recovered"`
	Kept    []string `json:"kept"`
	// Elsewhere are nodes of the plan that the command was not given.
	Elsewhere []string `json:"elsewhere"`
}

func (r *recoverCommand) planJSON(plan *cluster.RecoveryPlan) recoveryPlanJSON {
	out := recoveryPlanJSON{
		Was: plan.Was, Survivors: []string{}, Lost: []string{}, Answering: []string{}, Directories: []directoryJSON{}, Replaces: []string{},
		Logs: plan.Logs, Unused: plan.Unused,
	}
	if r.settled {
		out.Cluster = plan.Cluster
	}
	for _, s := range plan.Remains {
		out.Survivors = append(out.Survivors, s.Name)
	}
	for _, n := range plan.Lost {
		out.Lost = append(out.Lost, n.Name)
	}
	for _, n := range r.answering {
		out.Answering = append(out.Answering, n.Name)
	}
	for _, d := range r.nodes {
		out.Directories = append(out.Directories, directoryJSON{d.Path, d.Progress(plan).String()})
	}
	for _, p := range r.replaced {
		out.Replaces = append(out.Replaces, p.Cluster)
	}
	return out
}

func (r recoveredJSON) print(out io.Writer) {
	fmt.Fprintf(out, "\nrecovered as cluster %s\n", r.Cluster)
	if len(r.Elsewhere) > 0 {
		fmt.Fprintf(out, "run it for %s as well, where it must print the same id\n", strings.Join(r.Elsewhere, ", "))
	}
	fmt.Fprint(out, "start the nodes that survive, then create or replace what is missing\nkept as it was:\n")
	for _, path := range r.Kept {
		fmt.Fprintf(out, "  %s\n", path)
	}
}

// answering are the nodes at whose address something accepts connections.
func answering(ctx context.Context, nodes []cluster.Node) (up []cluster.Node) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answers := make([]bool, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", n.Address)
			if answers[i] = err == nil; answers[i] {
				_ = connection.Close()
			}
		})
	}
	asked.Wait()
	for i, n := range nodes {
		if answers[i] {
			up = append(up, n)
		}
	}
	return up
}

// directories are those that the command was given.
type directories []*recovery.Directory

// furthest is how far that directory is which has come furthest with a plan.
func (ds directories) furthest(plan *cluster.RecoveryPlan) recovery.Progress {
	most := recovery.Untouched
	for _, d := range ds {
		most = max(most, d.Progress(plan))
	}
	return most
}

// complete reports whether a plan was made of these remains and, where none are given, of the directories.
func (ds directories) complete(given []cluster.Remains, plan *cluster.RecoveryPlan) bool {
	same := func(s cluster.Remains) bool {
		return slices.ContainsFunc(plan.Remains, func(p cluster.Remains) bool { return p.Node == s.Node && p.Nonce == s.Nonce })
	}
	missing := func(p cluster.Remains) bool {
		return !slices.ContainsFunc(given, func(s cluster.Remains) bool { return s.Node == p.Node }) &&
			!slices.ContainsFunc(ds, func(d *recovery.Directory) bool { return d.Node() == p.Node })
	}
	return !slices.ContainsFunc(given, func(s cluster.Remains) bool { return !same(s) }) && !slices.ContainsFunc(plan.Remains, missing)
}

// elsewhere names the nodes of a plan whose directories are not among them.
func (ds directories) elsewhere(plan *cluster.RecoveryPlan) []string {
	nodes := []string{}
	for _, s := range plan.Remains {
		if !slices.ContainsFunc(ds, func(d *recovery.Directory) bool { return d.Node() == s.Node }) {
			nodes = append(nodes, "node "+s.Name)
		}
	}
	return nodes
}

// survivors names the nodes of a plan.
func survivors(plan *cluster.RecoveryPlan) string {
	var names []string
	for _, s := range plan.Remains {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// inWords says of each recovery.Progress what it means.
var inWords = map[recovery.Progress]string{
	recovery.Untouched: "not committed, nothing is written",
	recovery.Planned:   "not committed, only the plan is written",
	recovery.Started:   "not committed, and started",
	recovery.Committed: "committed",
}

// printProgress says how far each directory has come with a plan.
func (ds directories) printProgress(out io.Writer, plan *cluster.RecoveryPlan) {
	for _, d := range ds {
		fmt.Fprintf(out, "%s: %s\n", d.Path, inWords[d.Progress(plan)])
	}
	for _, name := range ds.elsewhere(plan) {
		fmt.Fprintf(out, "%s: not known, its directory is elsewhere\n", name)
	}
}

func (r *recoverCommand) printPlan(out io.Writer, plan *cluster.RecoveryPlan) {
	p := r.planJSON(plan)
	becomes := "a new cluster, whose id is drawn once you accept"
	if p.Cluster != "" {
		becomes = p.Cluster + ", on all machines"
	}
	fmt.Fprintf(out, "cluster %s\nsurvives   %s\nis lost    %s\nbecomes    %s\n\n", p.Was, strings.Join(p.Survivors, ", "), strings.Join(p.Lost, ", "), becomes)
	for _, n := range r.answering {
		fmt.Fprintf(out, "Something answers at %s, the address of node %s: if that runs it is not lost. Let the lost nodes come back\ninstead, or stop it: a majority of them goes on without this cluster.\n\n", n.Address, n.Name)
	}
	for _, replaced := range r.replaced {
		fmt.Fprintf(out, "This replaces the plan to continue as cluster %s, with nodes %s, which was not started here:\nmake sure that none of these nodes has started with it.\n\n", replaced.Cluster, survivors(replaced))
	}
	if r.nodes.furthest(plan) > recovery.Untouched {
		fmt.Fprint(out, "This continues what was begun:\n")
		r.nodes.printProgress(out, plan)
		fmt.Fprintln(out)
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "LOG\tCONTINUES FROM\tVOTERS LEFT\tCOMMITTED\tEND\tMAY BE LOST")
	for i := range plan.Logs {
		l := &plan.Logs[i]
		from, left, committed, end := "", "", "", ""
		if len(l.Survivors) > 0 {
			if from = "its majority"; l.Term > 0 {
				from = fmt.Sprintf("node %s, replica %d", l.Survivors[0].Name, l.Survivors[0].ID)
			}
			left = fmt.Sprintf("%d of %d", l.Voters-l.LostVoters, l.Voters)
			committed, end = fmt.Sprint(int64(l.Committed)), fmt.Sprint(int64(l.End))
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, from, left, committed, end, lossOf(l))
	}
	columns.Flush()
	fmt.Fprint(out, "\nOf a log that continues from a node, records from COMMITTED to END are kept, acknowledged or not. Offsets from END on\nare given again: a reader that had read further has to begin anew. Writer terms are not given again: the newest rises by\n2^32, so every writer that had acquired one is refused with FENCED and acquires another. A log with --fenced takes\nno append without a term from then on.\n")
	for _, u := range plan.Unused {
		fmt.Fprintf(out, "not used, and set aside: replica %d of log %d: %s\n", u.ID, u.Log, u.Problem)
	}
	// A survivor that is started with a plan in its directory carries that out.
	planned := len(r.replaced) > 0 || r.nodes.furthest(plan) > recovery.Untouched
	if names := damaged(plan); len(names) > 0 && !planned {
		fmt.Fprintf(out, "\nDamaged replicas of %s may have records that no other has. Before you accept, start the\nsurvivors as they are and wait until \"cluster status\" shows none that is repairing: they repair each other\nas far as one has what another lacks, without a majority too. Then stop them and run this again.\n", strings.Join(names, ", "))
	}
}

// damaged are the names of the logs of which a replica on a surviving node cannot be used.
func damaged(plan *cluster.RecoveryPlan) (names []string) {
	for i := range plan.Logs {
		if l := &plan.Logs[i]; len(l.Damaged) > 0 {
			names = append(names, l.Name)
		}
	}
	return names
}

// lossOf says what may be lost of a log.
func lossOf(l *cluster.LogRecovery) string {
	switch {
	case l.Memory:
		return fmt.Sprintf("all: it was in memory, and begins anew at offset %d", int64(l.End))
	case len(l.Survivors) == 0 && len(l.Damaged) > 0:
		return "all: each replica that is left is damaged; its name stays until \"log delete\""
	case len(l.Survivors) == 0:
		return "all: no replica is left; its name stays until \"log delete\""
	case l.Majority:
		return "nothing"
	case l.Log == cluster.CatalogID:
		return "changes that only the lost nodes had: new logs, nodes, rights"
	}
	return fmt.Sprintf("records from offset %d on that only the lost nodes had acknowledged", int64(l.End))
}
