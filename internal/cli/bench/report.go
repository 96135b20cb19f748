package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/bench/report"
	"strandline.dev/internal/cli/terminal"
)

func newBenchReport(c *terminal.Terminal) *cobra.Command {
	var markdown string
	command := &cobra.Command{
		Use:   "report DIR",
		Short: "Create a page, charts, CSV and JSON from the results in --out",
		Long: `Read a directory that benchmarks have written with --out, and write into it
report.html, which needs no other file, charts/*.svg, result.csv with every single run,
and result.json.`,
		Example: "  strandline bench report results\n  strandline bench report results --markdown docs/benchmarks-results.md",
		Args:    terminal.Named("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			page, err := report.Summarize(args[0])
			if errors.Is(err, os.ErrNotExist) {
				return terminal.Hinted(fmt.Errorf("%s has no results", args[0]), "benchmarks write them with --out "+args[0])
			}
			if err == nil && markdown != "" {
				err = writeMarkdown(args[0], markdown)
			}
			if err != nil {
				return err
			}
			return c.Show(struct {
				Page string `json:"page"`
			}{page}, func(out io.Writer) { fmt.Fprintln(out, page) })
		},
	}
	command.Flags().StringVar(&markdown, "markdown", "", "also write tables and charts as this Markdown `file`, with the charts beside it")
	return command
}

// writeMarkdown writes a document, and its charts into a folder that is called
// like it.
func writeMarkdown(directory, path string) error {
	results, err := report.ReadDirectory(directory)
	if err != nil {
		return err
	}
	charts := strings.TrimSuffix(path, filepath.Ext(path))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(
		results.Markdown(file, markdownIntroduction, filepath.Base(charts)),
		file.Close(),
		results.WriteCharts(charts))
}

const markdownIntroduction = `# One full run of the benchmarks

[benchmarks.md](benchmarks.md) says what these figures show. They are of one machine, which
all servers and clients share; figures of two runs differ by 15 %, sometimes more. This page
is the output of

` + "```" + `
strandline bench all --with-kafka --out results
strandline bench report results --markdown docs/benchmarks-results.md
` + "```" + `

Every row names the durability that it was measured with: figures depend on it before all
else. A measurement that failed is named above the charts and in a table of its own.
` + "`" + `strandline bench NAME --help` + "`" + ` describes each benchmark.

` + "`" + `bench all` + "`" + ` ends within 15 minutes and therefore measures less than each benchmark by
itself:

- On three nodes, only appends and everything at once; with a slow disk there, only
  Strandline's client. On one node with a slow disk, only appends.
- Sarama's appends, and appends without fsync through the Kafka port and on three nodes, at
  the fewest and the most connections only.
- Retentions of 7 days and of 1 second only; trimmed_percent is what was trimmed during the
  run.
- A disk against tmpfs and a memory log with five configurations of the matrix: one by one,
  as fast as possible, with compression, with large requests, and with both.

Reads from the cache are medians of five runs, in each of which all clients take turns. Those
from the disk, the pipeline's shorter round trips, retention, the RAM disk,
the open loop and everything at once are one run. Kafka's libraries choose no number of
requests in flight by themselves; the default of 5 is measured.
`
