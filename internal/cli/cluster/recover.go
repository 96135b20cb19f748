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

const recoverHelp = `Continue a cluster with its surviving nodes when a majority of its nodes is permanently lost.
The command works on the data directories of the surviving nodes, while they are stopped. If
the lost nodes can come back, start them instead: then nothing is lost.

For every log it first shows the replica from which the log would continue, which is the most
complete one by term and index, the part of it that is proven to be committed, and the possible
loss: records that only the lost nodes had acknowledged. The amount of such records cannot be
determined. Up to this point the command changes nothing. It then asks for the id of the
cluster, unless --i-accept-loss is given.

It then removes the lost nodes and their replicas, and gives the cluster a new id and each log
a higher term. A lost node that comes back is refused, and logs the reason. If the lost nodes
have a majority among themselves, they continue as the former cluster: make sure that they are
off; the command names the addresses that answer. Offsets from the end of a log on are assigned
again, so a reader that had read further has to start again. The command removes no stored
record: it moves unusable replicas, and files that it rewrites, to DIR/set-aside, and names
them.

All surviving nodes take part. For nodes on other machines, write a report of each with
--write-remains, and give the files of all of them with --remains on each of these machines:
each then prints the same new cluster id. Run the command as the user of the nodes.

To finish an interrupted recovery, run the same command again, or start the node; the error
names the directories that are committed and those that are not. A plan that was not started
can be replaced with --replace-plan; a plan that was started can only be finished. A recovered
directory is refused, unless --again states that more nodes were permanently lost since.`

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
				return terminal.Misused(command, "--data is missing: give the data directory of a surviving, stopped node")
			}
			if r.written != "" && len(r.data) > 1 {
				return terminal.Misused(command, "--write-remains needs exactly one --data")
			}
			r.Terminal = c
			return r.run(command)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&r.data, "data", nil, "data `directories` of the surviving nodes, which must be stopped")
	flags.StringSliceVar(&r.remains, "remains", nil, "`files` written by --write-remains, of the nodes on other machines and of this one")
	flags.StringVar(&r.written, "write-remains", "", "write the report of the node's data to this `file`, and change nothing")
	flags.BoolVar(&r.accept, "i-accept-loss", false, "do not ask for confirmation: data that only the lost nodes had is lost")
	flags.StringSliceVar(&r.replace, "replace-plan", nil, "replace the plans with these cluster `ids`, which were not started")
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
		return nil, terminal.Hinted(err, "stop the node that runs on it first, or wait for the other command; give each directory only once")
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
	return terminal.Hinted(fmt.Errorf("nothing was done: %s has a plan to continue as cluster %s, with nodes %s, which differ from the files of --remains", at, plan.Cluster, survivors(plan)),
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
		return terminal.Hinted(terminal.Misused(command, "nothing was done: %s is already recovered: cluster %s continues as %s, with nodes %s", d.Path, plan.Was, plan.Cluster, survivors(plan)),
			hint+"\nif more nodes were permanently lost since then: --again")
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
		return terminal.Misused(command, "nothing was done: to continue without the lost nodes, give --i-accept-loss")
	}
	fmt.Fprint(r.Err, "To continue without the lost nodes, type the id of the cluster: ")
	if answer, _ := bufio.NewReader(r.In).ReadString('\n'); strings.TrimSpace(answer) != id {
		return terminal.Misused(command, "nothing was done: the id of the cluster is %s", id)
	}
	return nil
}
