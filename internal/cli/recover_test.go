package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/recovery/recoverytest"
	"strandline.dev/internal/vfs"
)

// identityOfBefore is written in the middle of a recovery.
const identityOfBefore = "set-aside/node-" + recoverytest.ClusterID + ".json"

// survivors are directories of nodes that were members of a larger cluster.
type survivors struct {
	t    *testing.T
	home string
}

func newSurvivors(t *testing.T, of uint64, names ...string) survivors {
	t.Helper()
	s := survivors{t, t.TempDir()}
	for _, name := range names {
		recoverytest.Member(t, vfs.OS(), s.dir(name), uint64(name[0]-'a')+1, of)
	}
	return s
}

func (s survivors) dir(name string) string { return filepath.Join(s.home, name) }

// dirs is the value of --data.
func (s survivors) dirs(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, s.dir(name))
	}
	return strings.Join(all, ",")
}

func (s survivors) recover(args ...string) outcome {
	s.t.Helper()
	return execute(s.t, nil, "", append([]string{"cluster", "recover"}, args...)...)
}

var (
	warnings  = regexp.MustCompile(`(?m)^time=.*\n`)
	newID     = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)
	becomes   = regexp.MustCompile(`(?m)^becomes +([A-Z2-7]{26}),`)
	continues = regexp.MustCompile(`(?m)^  to continue: .*(cluster recover .*)$`)
)

// said is what a person saw, without what differs from run to run.
func (s survivors) said(o outcome) string {
	text := strings.NewReplacer(s.home, "/srv", terminal.Invocation(), "strandline").Replace(o.out + o.err)
	return newID.ReplaceAllString(warnings.ReplaceAllString(text, ""), "NEW") + fmt.Sprintf("exit code %d\n", o.code)
}

func (s survivors) becomes(o outcome) string {
	s.t.Helper()
	found := becomes.FindStringSubmatch(o.out)
	require.NotNil(s.t, found, "%s%s", o.out, o.err)
	return found[1]
}

// obstruct has a file of node b not be written, until it is called.
func (s survivors) obstruct(file string) (remove func()) {
	s.t.Helper()
	path := filepath.Join(s.dir("b"), file+vfs.TemporarySuffix)
	require.NoError(s.t, os.MkdirAll(filepath.Join(path, "full"), 0o700))
	return func() { require.NoError(s.t, os.RemoveAll(path)) }
}

// The steps of docs/recovery.md for two of five nodes, each on a machine of its own.
func TestTheTranscriptOfARecovery(t *testing.T) {
	t.Parallel()
	s := newSurvivors(t, 5, "a", "b")
	files := s.dir("a.json") + "," + s.dir("b.json")
	require.Equal(t, "wrote what node a has to /srv/a.json; nothing was changed\nexit code 0\n", s.said(s.recover("--data", s.dir("a"), "--write-remains", s.dir("a.json"))))
	require.Zero(t, s.recover("--data", s.dir("b"), "--write-remains", s.dir("b.json")).code)

	const plan = `cluster OLD
survives   a, b
is lost    c, d, e
becomes    NEW, on all machines

LOG       CONTINUES FROM      VOTERS LEFT  COMMITTED  END  MAY BE LOST
_catalog  node a, replica 1   2 of 5       0          1    changes that only the lost nodes had: new logs, nodes, rights
orders    node a, replica 11  2 of 5       0          2    records from offset 2 on that only the lost nodes had acknowledged

Of a log that continues from a node, records from COMMITTED to END are kept, acknowledged or not. Offsets from END on
are given again: a reader that had read further has to begin anew. Writer terms are not given again: the newest rises by
2^32, so every writer that had acquired one is refused with FENCED and acquires another. A log with --fenced takes
no append without a term from then on.
not used, and set aside: replica 72 of log 7: it is no longer a member of its log
not used, and set aside: replica 71 of log 7: the surviving catalog has no such log
`
	asked := s.recover("--data", s.dir("a"), "--remains", files)
	require.Equal(t, plan+`strandline: nothing was done: to continue without the lost nodes, give --i-accept-loss
  see: strandline cluster recover --help
exit code 2
`, s.said(asked))
	a := s.recover("--data", s.dir("a"), "--remains", files, "--i-accept-loss")
	require.Equal(t, plan+`
recovered as cluster NEW
run it for node b as well, where it must print the same id
start the nodes that survive, then create or replace what is missing
kept as it was:
  /srv/a/set-aside/7-71
  /srv/a/set-aside/node-OLD.json
  /srv/a/set-aside/recovery-NEW.json
exit code 0
`, s.said(a))
	document, err := os.ReadFile("../../docs/recovery.md")
	require.NoError(t, err)
	shown := strings.NewReplacer("/srv/a/", "/var/lib/strandline/", "OLD", "NEW", "exit code 0\n", "").Replace(s.said(a))
	require.Contains(t, newID.ReplaceAllString(string(document), "NEW"), "```\n"+shown+"```\n", "as the documentation shows it")
	b := s.recover("--data", s.dir("b"), "--remains", files, "--i-accept-loss")
	require.Zero(t, b.code, b.err)
	require.Equal(t, s.becomes(a), s.becomes(b))
	require.Equal(t, s.becomes(a), s.becomes(asked))

	again := `strandline: nothing was done: /srv/a is already recovered: cluster OLD continues as NEW, with nodes a, b
  start the node, if it does not run; run the command for node b as well, if that is not done
  if more nodes were permanently lost since then: --again
exit code 2
`
	require.Equal(t, again, s.said(s.recover("--data", s.dir("a"), "--i-accept-loss")))
	require.Equal(t, again, s.said(s.recover("--data", s.dir("a"), "--remains", files, "--i-accept-loss")))
	third := s.recover("--data", s.dir("a"), "--i-accept-loss", "--again")
	require.Zero(t, third.code, third.err)
	require.Contains(t, third.out, "survives   a\nis lost    b\n")
	require.NotEqual(t, s.becomes(a), s.becomes(third))
}

// One of several directories cannot be written: the error says how far each is, and its command
// continues once it can.
func TestARecoveryThatStoppedSaysWhatIsCommittedAndContinues(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ at, says, continues string }{
		{"recovery.json", `
  /srv/a: not committed, only the plan is written
  /srv/b: not committed, nothing is written
  /srv/c: not committed, nothing is written
  to continue: strandline cluster recover --data /srv/a,/srv/b,/srv/c --i-accept-loss
  to make another plan, for other directories: the same with --replace-plan NEW
  the next start of a node continues in its directory, too
exit code 1
`, `
This continues what was begun:
/srv/a: not committed, only the plan is written
/srv/b: not committed, nothing is written
/srv/c: not committed, nothing is written
`},
		{identityOfBefore, `
  /srv/a: committed
  /srv/b: not committed, and started
  /srv/c: not committed, only the plan is written
  to continue: strandline cluster recover --data /srv/a,/srv/b,/srv/c --i-accept-loss
  the next start of a node continues in its directory, too
exit code 1
`, `
This continues what was begun:
/srv/a: committed
/srv/b: not committed, and started
/srv/c: not committed, only the plan is written
`},
	} {
		s := newSurvivors(t, 7, "a", "b", "c")
		remove := s.obstruct(row.at)
		stopped := s.recover("--data", s.dirs("a", "b", "c"), "--i-accept-loss")
		require.Contains(t, s.said(stopped), "strandline: the recovery as cluster NEW is not finished: ")
		require.Contains(t, s.said(stopped), row.says)

		again := s.recover("--data", s.dir("b"), "--write-remains", s.dir("b.json"))
		if row.at == identityOfBefore {
			require.Equal(t, terminal.ExitFailed, again.code, "what is half changed is no remains")
			require.Contains(t, again.err, "was started and is not finished")
		} else {
			require.Zero(t, again.code, again.err)
		}
		remove()
		command := continues.FindStringSubmatch(stopped.err)
		require.NotNil(t, command, stopped.err)
		done := execute(t, nil, "", strings.Fields(command[1])...)
		require.Zero(t, done.code, done.err)
		require.Contains(t, s.said(done), row.continues)
		require.Equal(t, s.becomes(stopped), s.becomes(done))
		require.Contains(t, s.recover("--data", s.dirs("a", "b", "c"), "--i-accept-loss").err, "is already recovered")
	}
}

// The node with which a plan was made is lost too, before the plan was started: another takes its place, if it is named.
func TestAPlanIsReplacedIfItIsNamedAndWasNotStarted(t *testing.T) {
	t.Parallel()
	s := newSurvivors(t, 5, "a", "b")
	remove := s.obstruct("recovery.json")
	first := s.becomes(s.recover("--data", s.dirs("a", "b"), "--i-accept-loss"))
	remove()
	require.Zero(t, s.recover("--data", s.dir("a"), "--write-remains", s.dir("a.json")).code)

	o := s.recover("--data", s.dir("a"), "--remains", s.dir("a.json"), "--i-accept-loss")
	require.Equal(t, `strandline: nothing was done: /srv/a has a plan to continue as cluster NEW, with nodes a, b, which differ from the files of --remains
  to continue with that plan: strandline cluster recover --data /srv/a --i-accept-loss
  to replace it, if no node has started with it: --replace-plan NEW
exit code 1
`, s.said(o))
	o = s.recover("--data", s.dir("a"), "--replace-plan", "NONE", "--i-accept-loss")
	require.Contains(t, o.err, "no directory has a plan to continue as cluster NONE")

	o = s.recover("--data", s.dir("a"), "--replace-plan", first)
	require.Contains(t, s.said(o), `This replaces the plan to continue as cluster NEW, with nodes a, b, which was not started here:
make sure that none of these nodes has started with it.
`)
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Equal(t, first, s.becomes(s.recover("--data", s.dir("a"))), "it is still there")
	o = s.recover("--data", s.dir("a"), "--replace-plan", first, "--i-accept-loss")
	require.Zero(t, o.code, o.err)
	require.NotEqual(t, first, s.becomes(o))
	require.Contains(t, o.out, "is lost    b, c, d, e\n")

	// The other one was planned with a. It goes another way, which only people can know.
	s = newSurvivors(t, 7, "a", "b", "c")
	remove = s.obstruct(identityOfBefore)
	first = s.becomes(s.recover("--data", s.dirs("a", "b", "c"), "--i-accept-loss"))
	remove()
	o = s.recover("--data", s.dir("b"), "--replace-plan", first, "--i-accept-loss")
	require.Equal(t, `strandline: nothing was done: the recovery as cluster NEW was started, and can only be finished
  /srv/b: not committed, and started
  node a: not known, its directory is elsewhere
  node c: not known, its directory is elsewhere
  to continue: strandline cluster recover --data /srv/b --i-accept-loss
exit code 1
`, s.said(o))
	o = s.recover("--data", s.dirs("a", "c"), "--replace-plan", first, "--i-accept-loss")
	require.Contains(t, o.err, "can only be finished", "it is started elsewhere")
	require.Zero(t, s.recover("--data", s.dirs("b", "c"), "--i-accept-loss").code)
}

func TestARecoveryIsRefusedWhereItWouldDoHarm(t *testing.T) {
	t.Parallel()
	s := newSurvivors(t, 5, "a", "b", "c")
	o := s.recover("--data", s.dirs("a", "b"))
	require.Equal(t, o, s.recover("--data", s.dirs("a", "b")), "what is only shown is the same again")
	require.Contains(t, o.out, "becomes    a new cluster, whose id is drawn once you accept\n")
	o = s.recover("--data", s.dir("nowhere"))
	require.Contains(t, o.err, "is not the data directory of a node")
	o = s.recover("--data", s.dirs("a", "b", "c"), "--i-accept-loss")
	require.Contains(t, o.err, "nothing was done: these nodes have a majority of the catalog and of every log")

	lock, err := vfs.OS().Lock(filepath.Join(s.dir("a"), "lock"))
	require.NoError(t, err)
	o = s.recover("--data", s.dir("a"), "--i-accept-loss")
	require.Contains(t, o.err, "stop the node that runs on it first, or wait for the other command", "of two operators one is first")
	require.NoError(t, lock.Close())

	// Another operator has asked the nodes again meanwhile: their plan is another one.
	require.Zero(t, s.recover("--data", s.dir("a"), "--write-remains", s.dir("a.json")).code)
	require.Zero(t, s.recover("--data", s.dir("a"), "--write-remains", s.dir("again.json")).code)
	require.Zero(t, s.recover("--data", s.dir("b"), "--write-remains", s.dir("b.json")).code)
	one := s.becomes(s.recover("--data", s.dir("a"), "--remains", s.dirs("a.json", "b.json"), "--i-accept-loss"))
	other := s.becomes(s.recover("--data", s.dir("b"), "--remains", s.dirs("again.json", "b.json")))
	require.NotEqual(t, one, other, "each is shown before anything is done")
	o = s.recover("--data", s.dir("c"), "--remains", s.dirs("a.json", "b.json"), "--i-accept-loss")
	require.NotZero(t, o.code)
	require.NoError(t, os.Truncate(s.dir("b.json"), 100))
	o = s.recover("--data", s.dir("b"), "--remains", s.dirs("a.json", "b.json"), "--i-accept-loss")
	require.Contains(t, o.err, "b.json: ")
	require.NoFileExists(t, filepath.Join(s.dir("b"), "recovery.json"))
}
