package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/internal/cli/terminal"
)

// NewDoctor makes the command doctor.
func NewDoctor(c *terminal.Terminal) *cobra.Command {
	var (
		data    string
		measure = terminal.Duration(time.Second)
	)
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine is suitable for a node",
		Long: `Check the disk for the data and the limits of this process: whether fsync is
honest, what it costs, and whether there is room. Every finding includes advice.
The exit code is 1 if a finding is bad; a warning leaves it at 0.`,
		Example: "  strandline doctor\n  strandline doctor --data /var/lib/strandline --json",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			findings, err := examine(command.Context(), data, time.Duration(measure))
			if err != nil {
				return err
			}
			if err := showFindings(c, findings); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Verdict == bad {
					return errors.New("this machine does not meet the requirements of a log yet")
				}
			}
			return nil
		},
	}
	command.Flags().StringVar(&data, "data", terminal.DefaultData, "data `directory`, which need not exist yet")
	command.Flags().Var(&measure, "duration", "time to spend on each measurement of the disk")
	_ = command.MarkFlagDirname("data")
	return command
}

// verdict of a finding.
type verdict string

const (
	fine verdict = "ok"
	warn verdict = "warn"
	bad  verdict = "bad"
)

// finding is one thing that the doctor looked at.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Advice  string  `json:"advice,omitempty"`
}

func examine(ctx context.Context, data string, d time.Duration) ([]finding, error) {
	directory, err := existing(data)
	if err != nil {
		return nil, err
	}
	disk, err := limit.LookAtDisk(directory)
	if err != nil {
		return nil, err
	}
	scratch, err := limit.NewScratch(directory)
	if err != nil {
		return nil, terminal.Hinted(err, "choose a --data directory in which this user may write")
	}
	defer scratch.Close()
	small, err := scratch.Sync(ctx, 2<<10, d)
	if err != nil {
		return nil, err
	}
	large, err := scratch.Sync(ctx, 256<<10, d)
	if err != nil {
		return nil, err
	}
	return []finding{
		judgeFileSystem(disk),
		judgeRoom(disk),
		judgeHonesty(small),
		judgeCost(small),
		judgeCost(large),
		judgeOpenFiles(terminal.OpenFileLimit()),
		judgeClock(terminal.ClockSynchronized()),
	}, nil
}

// existing is the directory itself or the nearest one above it that is there.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for !terminal.IsDirectory(path) {
		if _, err := os.Stat(path); err == nil {
			return "", fmt.Errorf("%s is not a directory", path)
		}
		path = filepath.Dir(path)
	}
	return path, nil
}

func showFindings(c *terminal.Terminal, findings []finding) error {
	if c.JSON {
		for _, f := range findings {
			if err := c.Show(f, nil); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", f.Verdict, f.Check, f.Found)
		if f.Advice != "" {
			fmt.Fprintf(columns, "\t\t-> %s\n", f.Advice)
		}
	}
	return columns.Flush()
}
