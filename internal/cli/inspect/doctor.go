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
		Long: `Check the disk for the data and the limits of this process: whether fsync reaches the
disk, how long it takes, and how much space is free. Every finding includes advice.
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
					return errors.New("this machine does not meet the requirements of a node")
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

// The problems of a machine that the doctor reports. Each bound is where a careful
// operator would begin to ask.
const (
	roomBad  = 1 << 30  // a few segments and their spares
	roomWarn = 10 << 30 // minutes of appends at full speed

	// No disk without a power-safe cache writes through in less: a flash page
	// alone takes longer to program.
	syncDoubtful = 15 * time.Microsecond
	syncSlow     = 10 * time.Millisecond

	openFilesWarn = 4096 // 1,000 logs with a few segments each
)

func judgeFileSystem(d limit.Disk) finding {
	f := finding{Check: "file system", Verdict: fine, Found: fmt.Sprintf("%s at %s", d.FileSystem, d.Directory)}
	switch d.FileSystem {
	case "tmpfs", "ramfs":
		f.Verdict = bad
		f.Advice = "this is memory: nothing here survives a power cut or a reboot; choose a directory on a disk"
	case "overlay":
		f.Verdict = warn
		f.Advice = "this is a container's own layer, which goes away with it; mount a volume for the data"
	case "nfs", "cifs", "fuse":
		f.Verdict = warn
		f.Advice = "what fsync promises here depends on another program or machine; a local disk is safer and faster"
	}
	return f
}

func judgeRoom(d limit.Disk) finding {
	f := finding{Check: "room", Verdict: fine, Found: fmt.Sprintf("%v free of %v", terminal.Size(d.Free), terminal.Size(d.Total))}
	switch {
	case d.Total == 0:
		f.Verdict, f.Found = warn, "unknown on this system"
	case d.Free < roomBad:
		f.Verdict = bad
		f.Advice = fmt.Sprintf("appends would soon be refused with FULL; make at least %v free", terminal.Size(roomBad))
	case d.Free < roomWarn:
		f.Verdict = warn
		f.Advice = "give logs a --retention-bytes that fits, or make room"
	}
	return f
}

func judgeHonesty(cost limit.SyncCost) finding {
	synced, written := cost.Synced.ValueAtQuantile(50), cost.Written.ValueAtQuantile(50)
	f := finding{
		Check: "fdatasync is honest", Verdict: fine,
		Found: fmt.Sprintf("write alone %v, with fdatasync %v (2 KiB, p50)", rounded(written), rounded(synced)),
	}
	if time.Duration(synced) < syncDoubtful {
		f.Verdict = warn
		f.Advice = "suspiciously fast: fine with a disk whose cache is safe without power, else acknowledged records " +
			"can be lost in a power cut; look for nobarrier, eatmydata, libvirt cache=unsafe or a write-back cache"
	}
	return f
}

func judgeCost(cost limit.SyncCost) finding {
	p50, p99 := cost.Synced.ValueAtQuantile(50), cost.Synced.ValueAtQuantile(99)
	f := finding{
		Check: fmt.Sprintf("fdatasync of %v", terminal.Size(cost.Bytes)), Verdict: fine,
		Found: fmt.Sprintf("p50 %v, p99 %v", rounded(p50), rounded(p99)),
	}
	if time.Duration(p50) > syncSlow {
		f.Verdict = warn
		f.Advice = "every append waits at least this long; throughput holds, because waiting appends share a sync, " +
			"but a faster disk makes each one faster"
	}
	return f
}

// judgeOpenFiles: limit is 0 where it is unknown.
func judgeOpenFiles(limit uint64) finding {
	f := finding{Check: "open files", Verdict: fine, Found: fmt.Sprintf("%d allowed", limit)}
	switch {
	case limit == 0:
		f.Found = "limit unknown on this system"
	case limit < openFilesWarn:
		f.Verdict = warn
		f.Advice = fmt.Sprintf("connections and segments need them; allow %d (ulimit -n, or LimitNOFILE of the service)", 16*openFilesWarn)
	}
	return f
}

func judgeClock(synchronized, known bool) finding {
	f := finding{Check: "clock", Verdict: fine, Found: "synchronized"}
	switch {
	case !known:
		f.Found = "cannot tell here whether it is synchronized"
	case !synchronized:
		f.Verdict, f.Found = warn, "not synchronized"
		f.Advice = "order and safety never depend on clocks, but retention by age and --since do: run an NTP client"
	}
	return f
}

func rounded(ns int64) time.Duration {
	return time.Duration(ns).Round(100 * time.Nanosecond)
}
