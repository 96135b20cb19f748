package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

const checkHelp = `Check the calls of clients and their answers against the rules of a log: no acknowledged
record is lost, none is there twice, none changes. The files are JSON lines as the test
clients write them; several files form one history, in the order of their times.
docs/history.md describes the lines and the rules.

Each broken rule is shown with the lines that prove it. Exit code 0 if every rule
holds, 6 if one is broken, 1 if a file cannot be read or is malformed.`

// NewCheck makes the command check.
func NewCheck(c *terminal.Terminal) *cobra.Command {
	var (
		slack   = terminal.Duration(time.Second)
		perRule int
	)
	command := &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check the history of a test for broken promises",
		Long:    checkHelp,
		Example: "  strandline check history.jsonl\n  strandline check clients/*.jsonl --json | jq .violations",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("FILE is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return checkHistories(c, args, judge.Options{Slack: max(time.Duration(slack), 1), PerRule: perRule})
		},
	}
	command.Flags().Var(&slack, "slack", "how long after its deadline a call may end, on a busy machine")
	command.Flags().IntVar(&perRule, "per-rule", 10, "how many `violations` of one rule are listed; the others are counted")
	return command
}

func checkHistories(c *terminal.Terminal, files []string, o judge.Options) error {
	var inputs []history.Input
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		inputs = append(inputs, history.Input{Name: name, Reader: f})
	}
	in := history.NewReader(inputs...)
	report, err := judge.Check(in, o)
	if err != nil {
		return err
	}
	result := checkJSON{Files: files, Torn: in.Torn(), Report: report}
	if err := c.Show(result, result.print); err != nil {
		return err
	}
	if report.Holds() {
		return nil
	}
	return terminal.Broken(report.Broken())
}

// checkJSON is what check shows. A line's file is a number in Files.
type checkJSON struct {
	Files []string `json:"files"`
	Torn  int      `json:"torn"`
	*judge.Report
}

func (r checkJSON) print(out io.Writer) {
	terminal.Fields(out,
		"lines", r.Lines,
		"calls", fmt.Sprintf("%d, %d of them never returned", r.Calls, r.Open),
		"records", fmt.Sprintf("%d acknowledged, %d of them read back; %d failed, %d unknown", r.Acked, r.ReadBack, r.Failed, r.Unknown),
	)
	if r.Torn > 0 {
		fmt.Fprintf(out, "%d files end in half a line, which was left out\n", r.Torn)
	}
	proof := readLines(r.Files, r.Violations)
	for _, v := range r.Violations {
		name := v.Rule
		if v.Log != "" {
			name += ", log " + v.Log
		}
		fmt.Fprintf(out, "\n%s: %s\n", name, v.Message)
		for _, at := range v.Lines {
			fmt.Fprintf(out, "  %s:%d  %s\n", r.Files[at.File], at.Line, proof[at])
		}
	}
	for _, rule := range judge.Rules() {
		if n := r.Unlisted[rule.Name]; n > 0 {
			fmt.Fprintf(out, "\n%s: %d more\n", rule.Name, n)
		}
	}
	if r.Holds() {
		fmt.Fprintf(out, "all %d rules hold\n", len(judge.Rules()))
	}
}

// shownBytes bounds how much of a line is shown.
const shownBytes = 240

// readLines returns the beginnings of the lines that prove something. A file
// that cannot be read twice shows none.
func readLines(files []string, violations []judge.Violation) map[history.Place]string {
	proof := map[history.Place]string{}
	wanted := map[int]bool{}
	for _, v := range violations {
		for _, at := range v.Lines {
			proof[at], wanted[at.File] = "", true
		}
	}
	for number := range wanted {
		f, err := os.Open(files[number])
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, history.MaxLineBytes)
		for at := (history.Place{File: number, Line: 1}); lines.Scan(); at.Line++ {
			if _, is := proof[at]; is {
				text := strings.TrimSpace(lines.Text())
				if len(text) > shownBytes {
					text = text[:shownBytes] + "..."
				}
				proof[at] = text
			}
		}
		f.Close()
	}
	return proof
}
