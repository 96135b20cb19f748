package scenarios_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/clients/gorunner"
	"strandline.dev/clients/scenarios"
	"strandline.dev/test/cluster"
	"strandline.dev/test/cost"
)

var (
	update = flag.Bool("clients.update", false, "write the report into REPORT.md")
	only   = flag.String("clients.scenario", "", "play scenarios whose name matches a regular expression")
	player = flag.String("clients.client", "", "play scenarios with the clients whose name matches a regular expression")
	needed = flag.String("clients.needed", "", "languages, separated by commas, whose tools must be here")
)

// goRunner is the argument that makes this program the runner of the Go client: in a process of its own, as what it
// leaves running is looked for there.
const goRunner = "go-runner"

func TestMain(m *testing.M) {
	if !slices.Equal(os.Args[1:], []string{goRunner}) {
		cluster.Main(m)
		return
	}
	if err := gorunner.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func startGo(t *testing.T) *scenarios.Runner {
	program, err := os.Executable()
	require.NoError(t, err)
	r, err := scenarios.Start("Go", ".", program, goRunner)
	require.NoError(t, err)
	return r
}

// runners are the clients in the order of the report. The Go client is always there.
var runners = []struct {
	name, language string
	start          func(t *testing.T) *scenarios.Runner
}{
	{"Go", "go", startGo},
	{"Python", "python", func(t *testing.T) *scenarios.Runner { return startPython(t) }},
	{"Python, synchronous", "python", func(t *testing.T) *scenarios.Runner { return startPython(t, "--synchronous") }},
	{"TypeScript", "typescript", startTypeScript},
	{"Java", "java", startJava},
	{"Rust", "rust", startRust},
}

// atOnce is how many scenarios all clients together play at the same time: they wait more than
// they work.
const atOnce = 8

const report = "REPORT.md"

// table is the report in its page.
var table = regexp.MustCompile(`(?s)\| scenario \|.*?\n\n`)

func TestEveryClientDoesWhatTheScenariosSay(t *testing.T) {
	t.Parallel()
	all, err := scenarios.Load(".")
	require.NoError(t, err)
	e, err := scenarios.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })

	names, passed, complete := []string{}, map[string]map[string]bool{}, *only == "" && *player == ""
	free := make(chan struct{}, atOnce)
	var mu sync.Mutex // guards passed and complete
	var clients sync.WaitGroup
	for _, client := range runners {
		if !regexp.MustCompile(*player).MatchString(client.name) {
			continue
		}
		names = append(names, client.name)
		ok := map[string]bool{}
		passed[client.name] = ok
		clients.Go(func() {
			whole := t.Run(client.name, func(t *testing.T) {
				r := client.start(t)
				t.Cleanup(func() { require.NoError(t, r.Close()) })
				var playing sync.WaitGroup
				for _, s := range all {
					if *only != "" && !regexp.MustCompile(*only).MatchString(s.Name) {
						continue
					}
					free <- struct{}{}
					playing.Go(func() {
						defer func() { <-free }()
						kept := t.Run(s.Name, func(t *testing.T) { require.NoError(t, playUnhurried(t, e, s, r), "%s", s.Says) })
						mu.Lock()
						defer mu.Unlock()
						ok[s.Name] = kept
					})
				}
				playing.Wait()
				require.NoError(t, r.Leaks(t.Context()))
			})
			mu.Lock()
			defer mu.Unlock()
			complete = complete && whole && len(ok) == len(all)
		})
	}
	clients.Wait()
	if !complete {
		return // a tool is missing, or something is wrong and has been reported
	}
	made := scenarios.Table(all, names, passed)
	page, err := os.ReadFile(report)
	require.NoError(t, err)
	if *update {
		page = table.ReplaceAll(page, []byte(strings.ReplaceAll(made, "$", "$$")+"\n"))
		require.NoError(t, os.WriteFile(report, page, 0o644))
	}
	require.Contains(t, string(page), made, "run: go test ./clients/scenarios -clients.update")
}

// tooLate is how late a short sleep may be where the machine keeps up with the clients.
const tooLate = 300 * time.Millisecond

// playUnhurried plays a scenario. One that says it is hasty, fails, and was played while the
// machine stood still for a while is played again, at most twice.
func playUnhurried(t *testing.T, e *scenarios.Environment, s scenarios.Scenario, r *scenarios.Runner) error {
	for again := 2; ; again-- {
		latest := cost.WatchLateness()
		err := e.Play(t.Context(), s, r)
		late := latest()
		if err == nil || !s.Hasty || late < tooLate || again == 0 {
			return err
		}
		t.Logf("played again, as a sleep was %v late: %v", late, err)
		s.Name += "-again" // in a log of its own
	}
}

// A scenario that nobody could fail would say nothing.
func TestAScenarioThatIsNotKeptIsNoticed(t *testing.T) {
	t.Parallel()
	e, err := scenarios.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	r := startGo(t)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	appends := scenarios.Step{Do: "append", With: map[string]any{"values": "a b"}}
	steps := []scenarios.Step{{Do: "producer"}, appends, {Do: "close"}}
	for name, wrong := range map[string]scenarios.Scenario{
		"the log holds [a b], not [a]": {Log: "a", Steps: steps},
		"seen: Append is":              {Seen: map[string]any{"Append": "> 9"}, Steps: steps},
		"the answer.offsets is":        {Steps: []scenarios.Step{{Do: "producer"}, {Do: "append", With: appends.With, Gives: map[string]any{"offsets": "0 2"}}, {Do: "close"}}},
		"has to fail with":             {Steps: []scenarios.Step{{Do: "info", Fails: map[string]any{"reason": "LOG_NOT_FOUND"}}}},
		"failed:":                      {Create: scenarios.Create{Not: true}, Steps: []scenarios.Step{{Do: "info"}}},
	} {
		wrong.Name = "wrong-" + regexp.MustCompile(`\W+`).ReplaceAllString(name, "-")
		require.ErrorContains(t, e.Play(context.Background(), wrong, r), name)
	}
}

// tool returns the path of a program that a client's language needs. Without it the test
// is skipped, unless the language must be here.
func tool(t *testing.T, language, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, language, name+" is not installed")
	}
	return path
}

// built returns the folder of a client, in which `make clients` makes a file.
func built(t *testing.T, language, file string) (directory string) {
	t.Helper()
	directory, err := filepath.Abs("../" + language)
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(directory, file)); err != nil {
		missing(t, language, "the client has not been built: there is no clients/"+language+"/"+file)
	}
	return directory
}

// missing ends a test that lacks what it needs of a language.
func missing(t *testing.T, language, what string) {
	t.Helper()
	for _, l := range strings.Split(*needed, ",") {
		require.NotEqual(t, language, l, what)
	}
	require.NotEqual(t, "true", os.Getenv("CI"), what)
	t.Skip(what + ": `make clients` says how to get it")
}
