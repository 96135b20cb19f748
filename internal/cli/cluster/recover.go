package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/recovery"
	"strandline.dev/internal/vfs"
)

const recoverHelp = `Let what is left of a cluster continue when a majority of its nodes is lost for good.
It works on the data directories of the nodes that survive, while they are stopped. If
the lost nodes can come back, let them: then nothing is lost, and this is not needed.

First it says of every log from which replica it would continue, which is the one with most
of the log by term and index, how much of that is proven to be committed, and what may be
lost: what only the lost nodes had acknowledged, and nobody can know how much that is. Nothing
has been changed by then. It asks for the id of the cluster, or takes --i-accept-loss.

Then the lost nodes and their replicas are members no more. The cluster has another id from
there on, and each log a higher term. A lost node that comes back after all is refused, and
its log says why. Lost nodes that have a majority among themselves go on without this cluster:
make sure that they are off; the command says whose address answers. Offsets from the end of a log on are given again, so a reader that
had read further has to begin anew. No stored record is removed: replicas that cannot be used, and the files that are
written anew, are kept in DIR/set-aside, and named.

All nodes that survive take part. Those on other machines say what they have with
--write-remains; give the files of all of them, with --remains, on each of these machines: each then prints the same id of
the cluster that it continues as. Run it as the user that the nodes run as.

A recovery that was interrupted is finished by the same command, or by the next start of the node; the error says
which directories are committed and which are not. A plan that was written and not started can be replaced by another,
with --replace-plan; one that was started can only be finished. A directory that was recovered is refused, unless
more nodes have been lost for good since, and you say so with --again.`

// newClusterRecover makes the command cluster recover.
func newClusterRecover(c *terminal.Terminal) *cobra.Command {
	var r recoverCommand
	command := &cobra.Command{
		Use:   "recover --data DIR",
		Short: "Continue without a majority that is permanently lost",
		Long:  recoverHelp,
		Example: `  strandline cluster recover --data /var/lib/strandline
  strandline cluster recover --data /var/lib/strandline --write-remains a.json
  strandline cluster recover --data /var/lib/strandline --remains a.json,b.json
  strandline cluster recover --data /srv/a,/srv/b --replace-plan 3KQ6ZC2BVXRWN5TJHM7DYPAEGL`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if len(r.data) == 0 {
				return terminal.Misused(command, "--data is needed: the data directory of a node that survives and is stopped")
			}
			if r.written != "" && len(r.data) > 1 {
				return terminal.Misused(command, "--write-remains is for one --data")
			}
			r.Terminal = c
			return r.run(command)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&r.data, "data", nil, "data `directories` of the surviving nodes, which must be stopped")
	flags.StringSliceVar(&r.remains, "remains", nil, "`files` that --write-remains made, of the nodes on other machines and of this one")
	flags.StringVar(&r.written, "write-remains", "", "write to this `file` what the node has, and change nothing")
	flags.BoolVar(&r.accept, "i-accept-loss", false, "do not ask for confirmation: data that only the lost nodes had is lost")
	flags.StringSliceVar(&r.replace, "replace-plan", nil, "the `ids` of clusters whose plans were written and not started: another plan takes their place")
	flags.BoolVar(&r.again, "again", false, "recover a directory again, because more nodes were permanently lost after its recovery")
	_ = command.MarkFlagDirname("data")
	return command
}

// recoverCommand is one run of cluster recover.
type recoverCommand struct {
	*terminal.Terminal
	data, remains, replace []string
	written                string
	accept, again          bool
	nodes                  directories
	replaced               []*cluster.RecoveryPlan
	aside                  directories // that have one of replaced
	answering              []cluster.Node
	// settled: the id of the plan's cluster stays what it is. One that is made anew draws another.
	settled bool
}

func (r *recoverCommand) run(command *cobra.Command) (err error) {
	for _, dir := range r.data {
		lock, err := lockStopped(dir)
		if err != nil {
			return err
		}
		defer lock.Close()
		d, err := recovery.Open(vfs.OS(), dir, slog.New(slog.NewTextHandler(r.Err, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, d)
	}
	if r.written != "" {
		return r.writeRemains(r.nodes[0])
	}
	plan, err := r.begun()
	if err != nil {
		return err
	}
	r.settled = plan != nil || r.accept
	if plan == nil && !r.again {
		if err := r.refuseDone(command); err != nil {
			return err
		}
	}
	taken := make([]cluster.Remains, len(r.nodes))
	for i, d := range r.nodes {
		if plan != nil && d.Progress(plan) != recovery.Untouched {
			continue // perhaps half of it is done
		}
		if taken[i], err = d.Take(); err != nil {
			return err
		}
	}
	if plan == nil {
		if plan, err = r.plan(taken); err != nil {
			return err
		}
	}
	r.answering = answering(command.Context(), plan.Lost)
	if err := r.Show(r.planJSON(plan), func(out io.Writer) { r.printPlan(out, plan) }); err != nil {
		return err
	}
	if err := r.confirm(command, plan.Was); err != nil {
		return err
	}
	done, err := r.carryOut(plan, taken)
	if err != nil {
		return r.interrupted(plan, err)
	}
	return r.Show(done, done.print)
}

// carryOut has all directories of the command recovered by a plan.
func (r *recoverCommand) carryOut(plan *cluster.RecoveryPlan, taken []cluster.Remains) (done recoveredJSON, err error) {
	for i, d := range r.nodes { // all, before anything is written
		if err := d.Check(plan, taken[i]); err != nil {
			return done, err
		}
	}
	for i, d := range r.nodes {
		if err := d.Begin(plan, taken[i]); err != nil {
			return done, err
		}
	}
	done = recoveredJSON{Cluster: plan.Cluster, Kept: []string{}, Elsewhere: r.nodes.elsewhere(plan)}
	for _, d := range r.nodes {
		kept, err := d.Finish()
		if err != nil {
			return done, err
		}
		done.Kept = append(done.Kept, kept...)
	}
	return done, nil
}

// interrupted adds to an error how far each directory has come, and the command that continues.
func (r *recoverCommand) interrupted(plan *cluster.RecoveryPlan, err error) error {
	furthest := r.nodes.furthest(plan)
	if furthest == recovery.Untouched {
		return fmt.Errorf("nothing was done: %w", err)
	}
	var hint strings.Builder
	r.nodes.printProgress(&hint, plan)
	if !slices.ContainsFunc(r.aside, func(d *recovery.Directory) bool { return d.Progress(plan) == recovery.Untouched }) {
		r.replace = nil
	}
	fmt.Fprintf(&hint, "to continue: %s\n", r.command())
	if furthest == recovery.Planned {
		fmt.Fprintf(&hint, "to make another plan, for other directories: the same with --replace-plan %s\n", plan.Cluster)
	}
	hint.WriteString("the next start of a node continues in its directory, too")
	return terminal.Hinted(fmt.Errorf("the recovery as cluster %s is not finished: %w", plan.Cluster, err), hint.String())
}

// command is this command once more. What it asked before has been answered.
func (r *recoverCommand) command() string {
	words := []string{terminal.Invocation(), "cluster", "recover"}
	for _, flag := range []struct {
		name   string
		values []string
	}{{"--data", r.data}, {"--remains", r.remains}, {"--replace-plan", r.replace}} {
		if len(flag.values) > 0 {
			words = append(words, flag.name, quoted(strings.Join(flag.values, ",")))
		}
	}
	return strings.Join(append(words, "--i-accept-loss"), " ")
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if !strings.ContainsAny(word, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// lockStopped keeps a node from starting on its data directory meanwhile.
func lockStopped(dir string) (io.Closer, error) {
	if _, err := os.Stat(filepath.Join(dir, "node.json")); err != nil {
		return nil, fmt.Errorf("%s is not the data directory of a node that belongs to a cluster: %w", dir, err)
	}
	lock, err := vfs.OS().Lock(filepath.Join(dir, "lock"))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, terminal.Hinted(err, "stop the node that runs on it first, or wait for the other command; name a directory once only")
	}
	return lock, err
}

func (r *recoverCommand) writeRemains(d *recovery.Directory) error {
	if p := d.Pending(); p != nil && d.Progress(p) != recovery.Planned {
		return terminal.Hinted(fmt.Errorf("nothing was written: the recovery of %s as cluster %s was started and is not finished", d.Path, p.Cluster), "to continue: "+r.command())
	}
	s, err := d.Take()
	if err != nil {
		return err
	}
	data, err := recovery.EncodeRemains(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.written, data, 0o600); err != nil { // it has a checksum, in case that ends half-way
		return err
	}
	return showChange(r.Terminal, struct {
		Node    string `json:"node"`
		Remains string `json:"remains"`
	}{s.Name, r.written}, "wrote what node %s has to %s; nothing was changed", s.Name, r.written)
}

// begun is the plan that has to be finished in one of the directories; nil: there is none.
// Those that are to be replaced are left aside.
func (r *recoverCommand) begun() (plan *cluster.RecoveryPlan, err error) {
	at := ""
	for _, d := range r.nodes {
		found := d.Pending()
		if found == nil {
			if found, err = d.Done(); err != nil {
				return nil, err
			}
			if found == nil || !slices.ContainsFunc(r.nodes, func(other *recovery.Directory) bool { return other.ClusterID() == found.Was }) {
				continue
			}
		}
		switch {
		case slices.Contains(r.replace, found.Cluster):
			if err := r.leaveAside(d, found); err != nil {
				return nil, err
			}
		case plan == nil:
			plan, at = found, d.Path
		case plan.Cluster != found.Cluster:
			return nil, terminal.Hinted(fmt.Errorf("nothing was done: %s has the plan to continue as cluster %s, and %s as %s", at, plan.Cluster, d.Path, found.Cluster),
				"to replace one that was not started, name it with --replace-plan")
		}
	}
	for _, id := range r.replace {
		if !slices.ContainsFunc(r.replaced, func(p *cluster.RecoveryPlan) bool { return p.Cluster == id }) {
			return nil, fmt.Errorf("nothing was done: no directory has a plan to continue as cluster %s", id)
		}
	}
	if plan == nil || len(r.remains) == 0 {
		return plan, nil
	}
	return plan, r.compare(plan, at)
}

// leaveAside makes room for another plan in a directory, if none has started with this one.
func (r *recoverCommand) leaveAside(d *recovery.Directory, plan *cluster.RecoveryPlan) error {
	if r.nodes.furthest(plan) > recovery.Planned {
		var hint strings.Builder
		r.nodes.printProgress(&hint, plan)
		r.replace = nil
		fmt.Fprintf(&hint, "to continue: %s", r.command())
		return terminal.Hinted(fmt.Errorf("nothing was done: the recovery as cluster %s was started, and can only be finished", plan.Cluster), hint.String())
	}
	if !slices.ContainsFunc(r.replaced, func(other *cluster.RecoveryPlan) bool { return other.Cluster == plan.Cluster }) {
		r.replaced = append(r.replaced, plan)
	}
	r.aside = append(r.aside, d)
	return d.Disregard()
}

// compare refuses files that are not those of the plan that was written.
func (r *recoverCommand) compare(plan *cluster.RecoveryPlan, at string) error {
	given, err := readRemains(r.remains)
	if err != nil {
		return err
	}
	if r.nodes.complete(given, plan) {
		return nil
	}
	r.remains = nil
	return terminal.Hinted(fmt.Errorf("nothing was done: %s has a plan to continue as cluster %s, with nodes %s, and the files of --remains are others", at, plan.Cluster, survivors(plan)),
		fmt.Sprintf("to continue with that plan: %s\nto replace it, if no node has started with it: --replace-plan %s", r.command(), plan.Cluster))
}

// refuseDone refuses directories whose recovery is done.
func (r *recoverCommand) refuseDone(command *cobra.Command) error {
	for _, d := range r.nodes {
		plan, err := d.Done()
		if err != nil {
			return err
		}
		if plan == nil {
			continue
		}
		hint := "start the node, if it does not run"
		if others := r.nodes.elsewhere(plan); len(others) > 0 {
			hint += "; run the command for " + strings.Join(others, ", ") + " as well, if that is not done"
		}
		return terminal.Hinted(terminal.Misused(command, "nothing was done: %s is recovered already: cluster %s continues as %s, with nodes %s", d.Path, plan.Was, plan.Cluster, survivors(plan)),
			hint+"\nif more nodes have been lost for good since: --again")
	}
	return nil
}

// plan makes a new one.
func (r *recoverCommand) plan(taken []cluster.Remains) (*cluster.RecoveryPlan, error) {
	remains, err := readRemains(r.remains)
	if err != nil {
		return nil, err
	}
	files := len(remains)
	for _, s := range taken {
		// That of the file is what the other machines know.
		if !slices.ContainsFunc(remains, func(other cluster.Remains) bool { return other.Node == s.Node }) {
			remains = append(remains, s)
		}
	}
	// What files say is what it was when this is run again. Of what is taken here a random part is
	// new each time: of two copies of a directory each becomes a cluster of its own.
	r.settled = r.settled || len(remains) == files
	plan, err := cluster.PlanRecovery(remains)
	if errors.Is(err, cluster.ErrNothingLost) {
		return nil, fmt.Errorf("nothing was done: %w", err)
	}
	return plan, err
}

func readRemains(paths []string) (remains []cluster.Remains, err error) {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s, err := recovery.DecodeRemains(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		remains = append(remains, s)
	}
	return remains, nil
}

// confirm asks for the id of the cluster.
func (r *recoverCommand) confirm(command *cobra.Command, id string) error {
	switch {
	case r.accept:
		return nil
	case !terminal.IsTerminal(r.In) || !terminal.IsTerminal(r.Err):
		return terminal.Misused(command, "nothing was done: to go on without the lost nodes give --i-accept-loss")
	}
	fmt.Fprint(r.Err, "To go on without the lost nodes, type the id of the cluster: ")
	if answer, _ := bufio.NewReader(r.In).ReadString('\n'); strings.TrimSpace(answer) != id {
		return terminal.Misused(command, "nothing was done: that is not %s", id)
	}
	return nil
}
