package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/bench"
	"strandline.dev/internal/cli/terminal"
)

func TestBenchRunsTheProgramBesideOrElseInThePath(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	beside, inPath := t.TempDir(), t.TempDir()
	program := filepath.Join(beside, "strandline")
	out, err := exec.Command("go", "run", "-exec", "cp", "strandline.dev/cmd/strandline", program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := func(args ...string) (string, int) {
		command := exec.Command(program, args...)
		command.Env = []string{"PATH=" + inPath, "STRANDLINE_BENCH_APPENDS_WORKERS=3"}
		out, err := command.CombinedOutput()
		if err != nil {
			require.IsType(t, &exec.ExitError{}, err)
		}
		return string(out), command.ProcessState.ExitCode()
	}
	said, code := run("bench", "appends")
	require.Equal(t, terminal.ExitFailed, code)
	require.Contains(t, said, "strandline-bench is neither in "+beside+" nor in PATH")
	require.Contains(t, said, "install the package strandline-bench, or in a checkout: go run ./cmd/strandline-bench bench")
	said, code = run("__complete", "bench", "app")
	require.Zero(t, code)
	require.NotContains(t, said, "appends")

	script := func(directory, name string) {
		text := "#!/bin/sh\n" + `printf "` + name + `: $STRANDLINE_BENCH_APPENDS_WORKERS"; printf " %s" "$@"; exit 7` + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(directory, benchProgram), []byte(text), 0o700))
	}
	script(inPath, "in PATH")
	said, code = run("--server", "a:1", "bench", "appends", "--json", "--no-such-flag")
	require.Equal(t, "in PATH: 3 --server a:1 bench appends --json --no-such-flag", said)
	require.Equal(t, 7, code, "the exit code is that of the benchmarks")
	script(beside, "beside")
	for _, args := range []string{"bench", "bench --help", "__complete bench app"} {
		said, code = run(strings.Fields(args)...)
		require.Equal(t, "beside: 3 "+args, said)
		require.Equal(t, 7, code)
	}
}

// One file has the settings of all commands, for both programs.
func TestSettingsOfBenchmarksAreLeftToTheProgramThatHasThem(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "strandline.toml")
	for text, refused := range map[string]string{
		"[bench.appends]\nworkers = 3":    "",
		"[benches.appends]\nworkers = 3":  `unknown setting "benches.appends.workers"`,
		"[log.create.bench]\nworkers = 3": `unknown setting "log.create.bench.workers"`,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		c := &terminal.Terminal{Environ: []string{"STRANDLINE_BENCH_APPENDS_WORKERS=3"}, ConfigFile: file}
		command, _, err := newRoot(c, BenchBeside).Find([]string{"log", "list"})
		require.NoError(t, err)
		c.ConfigFile = file
		if refused == "" {
			require.NoError(t, c.ApplySettings(command))
		} else {
			require.ErrorContains(t, c.ApplySettings(command), refused)
		}
	}
	c := &terminal.Terminal{Environ: []string{"STRANDLINE_BENCHES=3"}}
	require.ErrorContains(t, c.ApplySettings(newRoot(c, BenchBeside)), "unknown environment variable STRANDLINE_BENCHES")
	require.Equal(t, bench.New(c).Short, BenchBeside(c).Short, "both programs say the same of it")
}
