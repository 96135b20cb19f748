package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

const (
	heardAppend = `{"t":1,"event":"invoke","client":"a","call":1,"do":"append","log":"orders","hashes":"00000000000000aa"}
{"t":2,"event":"return","client":"a","call":1,"outcome":"ok","first":0}
`
	heardNothing = `{"t":3,"event":"invoke","client":"r","call":1,"do":"read","log":"orders","from":0}
{"t":4,"event":"return","client":"r","call":1,"outcome":"ok","end":0}
`
	heardRead = `{"t":3,"event":"invoke","client":"r","call":1,"do":"read","log":"orders","from":0}
{"t":4,"event":"frame","client":"r","call":1,"first":0,"hashes":"00000000000000aa"}
{"t":5,"event":"return","client":"r","call":1,"outcome":"ok","end":1}
`
)

func written(t *testing.T, texts ...string) (paths []string) {
	t.Helper()
	for i, text := range texts {
		path := filepath.Join(t.TempDir(), string(rune('a'+i))+".jsonl")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	return paths
}

func TestCheckOfAHistoryThatHoldsExitsZero(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", append([]string{"check"}, written(t, heardAppend, heardRead)...)...)
	require.Equal(t, terminal.ExitOK, o.code, o.err)
	require.Contains(t, o.out, "1 acknowledged, 1 of them read back")
	require.Contains(t, o.out, "rules hold")
}

func TestCheckOfAHistoryThatDoesNotHoldShowsTheLinesThatProveIt(t *testing.T) {
	t.Parallel()
	files := written(t, heardAppend, heardNothing)
	o := execute(t, nil, "", append([]string{"check"}, files...)...)
	require.Equal(t, terminal.ExitBroken, o.code)
	require.Contains(t, o.out, "linearizable, log orders: appends up to offset 1 had been acknowledged before")
	require.Contains(t, o.out, files[0]+`:2  {"t":2,"event":"return"`)
	require.Contains(t, o.out, files[1]+`:2  {"t":4`)
	require.Equal(t, "strandline: 1 violations\n", o.err)

	o = execute(t, nil, "", append([]string{"check", "--json"}, files...)...)
	require.Equal(t, terminal.ExitBroken, o.code)
	var result struct {
		Files      []string
		Violations []struct {
			Rule  string
			Lines []struct{ File, Line int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(o.out), &result))
	require.Equal(t, files, result.Files)
	require.Equal(t, "linearizable", result.Violations[0].Rule)
	require.Equal(t, []struct{ File, Line int }{{0, 2}, {1, 1}, {1, 2}}, result.Violations[0].Lines)
}

func TestCheckOfSomethingElseIsNoVerdict(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", append([]string{"check"}, written(t, "no history\n")...)...)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "a.jsonl:1: ")
	o = execute(t, nil, "", "check", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, terminal.ExitFailed, o.code)
	o = execute(t, nil, "", "check")
	require.Equal(t, terminal.ExitUsage, o.code)
}
