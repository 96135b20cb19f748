package clienttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain builds the program, unless STRANDLINE names one. The go command keeps what `go run` has linked, so that test
// binaries share it; `go build` links again.
func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "strandline-test-*")
	if err != nil {
		panic(err)
	}
	if os.Getenv("STRANDLINE") == "" {
		path := filepath.Join(directory, "strandline")
		out, err := exec.Command("go", "run", "-exec", "cp", "strandline.dev/cmd/strandline", path).CombinedOutput()
		if err != nil {
			panic(fmt.Sprintf("%v: %s", err, out))
		}
		os.Setenv("STRANDLINE", path)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

// standIn returns the path of a script in the place of the program.
func standIn(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "strandline")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, _, err := start(t.TempDir(), standIn(t, "echo no room >&2; exit 1"), nil)
	require.ErrorContains(t, err, "no room")
	_, _, err = start(t.TempDir(), standIn(t, "echo text; exec sleep 60"), nil)
	require.ErrorContains(t, err, "did not start")
}

func TestAMachineWithoutAProgramSaysHowToHaveOne(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := start(t.TempDir(), "", nil)
	require.ErrorContains(t, err, "set STRANDLINE to the path")
}

func TestVariablesOfTheCommandLineDoNotReachTheServer(t *testing.T) {
	t.Setenv("STRANDLINE_SERVE_GRPC", "10.0.0.1:7171")
	script := standIn(t, `echo "{\"grpc\":\"${STRANDLINE_SERVE_GRPC:-none}\",\"http\":\"$*\"}"; exec sleep 60`)
	s, stop, err := start(t.TempDir(), script, []string{"--memory", "64MiB"})
	require.NoError(t, err)
	defer stop()
	require.Equal(t, "none", s.Address)
	require.Regexp(t, "--kafka none --memory 64MiB$", s.HTTP)
}
