package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/bench/report"
)

func newBenchReport(c *cli) *cobra.Command {
	var markdown string
	command := &cobra.Command{
		Use:   "report DIR",
		Short: "Make a page, charts, CSV and JSON of what --out has kept",
		Long: `Read a directory that benchmarks have written with --out, and write into it
report.html, which needs nothing beside itself, charts/*.svg, result.csv with every
single run, and result.json.`,
		Example: "  strandline bench report results\n  strandline bench report results --markdown docs/benchmarks.md",
		Args:    named("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			page, err := report.Summarize(args[0])
			if errors.Is(err, os.ErrNotExist) {
				return hintedError{fmt.Errorf("%s holds no results", args[0]), "benchmarks write them with --out " + args[0]}
			}
			if err == nil && markdown != "" {
				err = writeMarkdown(args[0], markdown)
			}
			if err != nil {
				return err
			}
			return c.show(struct {
				Page string `json:"page"`
			}{page}, func(out io.Writer) { fmt.Fprintln(out, page) })
		},
	}
	command.Flags().StringVar(&markdown, "markdown", "", "write tables and charts as this Markdown `file`, too, the charts beside it")
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

const markdownIntroduction = `# Measurements

One full run on one machine; figures of runs differ by 15 %, sometimes more. What
each benchmark does is told by ` + "`strandline bench NAME --help`" + `. This page is made by

` + "```" + `
strandline bench all --with-kafka --out results
strandline bench report results --markdown docs/benchmarks.md
` + "```" + `

Every row names the durability it was measured with, since that is what the
figures depend on before all else. All servers and clients share the machine. A
measurement that failed is told above everything, and once more in a table.

` + "`bench all`" + ` measures less than each benchmark by itself, to end within 15 minutes:
on three nodes only appends and everything at once, and with a slow disk there only
Strandline's client; on one node with a slow disk only appends;
Sarama's appends, and those without fsync of the Kafka port and of three nodes, at
the fewest and the most connections; retentions of 7 days and of 1 second alone, since what is not
over while it is measured trims nothing (trimmed_percent tells what was); and a
disk against tmpfs and a memory log with five configurations of the matrix: one
by one, as fast as it goes, with compression, with large requests, and with both.
Reads are medians of two runs; the pipeline's shorter round trips, retention, the
RAM disk, the open loop and everything at once are one run. Kafka's libraries
have nothing automatic in flight: left alone they keep 5, which is measured.
`
