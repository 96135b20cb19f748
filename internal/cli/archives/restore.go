package archives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/archive"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// NewRestore makes the command restore.
func NewRestore(c *terminal.Terminal) *cobra.Command {
	var s source
	var names []string
	var as string
	command := &cobra.Command{
		Use:   "restore --from URL --log LOG [--log LOG...]",
		Short: "Restore logs from an archive into a cluster",
		Long: `Restore logs from an archive into a cluster, beside the logs that it has. Each log is
created, with the records of the archive at the offsets that they had, in the batches that
they had, so that it gets the same digest. Everything that is read is verified before it is
appended, and at the end the digest of the log is compared with that of the archived records:
use the log only if they are equal, which exit code 0 says.

Records before a gap in the archive are not restored, nor is what is not in an archive: the
retention of the log (set it with "strandline log configure"), sessions, writer terms, holds,
and offsets of Kafka's groups. Nobody else may append meanwhile.

A restore that was interrupted continues when the same command is given again, after it has
compared the digest of what is there.`,
		Example: "  strandline restore --from s3://backups/strandline --log orders\n  strandline restore --from file:///backup --log orders --as orders-restored",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if as != "" && len(names) > 1 {
				return terminal.Misused(command, "--as names one log, and --log %d", len(names))
			}
			a, logs, err := s.open(command, names)
			if err != nil {
				return err
			}
			if len(logs) > len(names) {
				return fmt.Errorf("%s has several archives of a log of that name: give --cluster ID, see \"strandline archive list\"", a.Bucket)
			}
			connection, err := c.Connect()
			if err != nil {
				return err
			}
			defer connection.Close()
			for _, l := range logs {
				if err := restore(command.Context(), c, connection, a, l.Manifest, as); err != nil {
					return err
				}
			}
			return nil
		},
	}
	s.flags(command)
	command.Flags().StringArrayVar(&names, "log", nil, "the `log` to restore; may be given several times")
	command.Flags().StringVar(&as, "as", "", "the `name` of the restored log (default: the one that it had)")
	_ = command.MarkFlagRequired("log")
	return command
}

// restoredJSON is the outcome of a restore as --json shows it.
type restoredJSON struct {
	Log      string `json:"log"`
	As       string `json:"as"`
	Start    int64  `json:"start_offset"`
	End      int64  `json:"end_offset"`
	Archived string `json:"archived_digest"` // of the records in the archive from Start on
	Digest   string `json:"digest"`          // of the restored log
	Equal    bool   `json:"equal"`
	Missing  int64  `json:"missing_before,omitempty"` // offsets below Start that the archive does not have in one piece
}

func restore(ctx context.Context, c *terminal.Terminal, connection *client.Client, a archive.Archive, m *archive.Manifest, as string) error {
	if as == "" {
		as = m.Log
	}
	last := lastRun(m)
	start := last.Start()
	if !c.JSON {
		fmt.Fprintf(c.Out, "%s: offsets [%d, %d) in %s\n", terminal.Printable(m.Log), start, m.End(), terminal.Counted(int64(len(last.Objects)), "object"))
		if start > m.Start() {
			fmt.Fprintf(c.Out, "  not restored: records of [%d, %d), since the archive has a gap before %d\n", m.Start(), start, start)
		}
	}
	to := &copied{ctx: ctx, client: connection, log: as, next: start, tree: digest.Begin(start)}
	if err := to.begin(m); err != nil {
		return err
	}
	verdict, err := a.Verify(ctx, last, to.add)
	if err == nil && len(verdict.Problems) > 0 {
		err = fmt.Errorf("the archive of log %s is damaged: %v; log %s has its records below offset %d", m.Log, verdict.Problems[0], as, to.at)
	}
	if err == nil {
		err = to.flush()
	}
	if err != nil {
		return err
	}
	got, err := connection.Digest(ctx, as, int64(m.End()))
	if err != nil {
		return err
	}
	r := restoredJSON{
		Log: m.Log, As: as, Start: int64(start), End: int64(m.End()), Archived: to.tree.Root().String(), Digest: got.String(), Missing: int64(start - m.Start()),
	}
	r.Equal = r.Archived == r.Digest && got.End == r.End
	err = c.Show(r, func(out io.Writer) {
		fmt.Fprintf(out, "restored as %s\n  archived records  %s\n  restored log      %s\n", as, r.Archived, r.Digest)
	})
	if err == nil && !r.Equal {
		err = fmt.Errorf("log %s is not what was archived: it ends at offset %d; do not use it, delete it, and restore again", as, got.End)
	}
	return err
}

// lastRun returns the archive from behind its last gap on.
func lastRun(m *archive.Manifest) *archive.Manifest {
	last, k := *m, 0
	for i := 1; i < len(m.Objects); i++ {
		if m.Objects[i].First != m.Objects[i-1].End {
			k = i
		}
	}
	last.Objects = m.Objects[k:]
	return &last
}

// copied is a log that gets the records of an archive.
type copied struct {
	ctx    context.Context
	client *client.Client
	log    string
	next   record.Offset // of the archived record that add expects
	at     record.Offset // end of the log
	batch  []byte        // of [at, next), to be appended
	// tree is the tree of the archived records below next, without the contents in entries: those in
	// entries without records are in no archive.
	tree digest.Tree
	// before is set if the log had records before, and they were not compared.
	before bool
}

const (
	// restoreBytes is the size of batches that are appended at once.
	restoreBytes = 1 << 20
	// appendTries bounds the appends in a row whose outcome was not known and that were not done.
	appendTries = 10
)

// begin creates the log, or finds where an earlier restore ended.
func (to *copied) begin(m *archive.Manifest) error {
	var config struct {
		Replicas int  `json:"replicas"`
		Fenced   bool `json:"fenced"`
	}
	if err := json.Unmarshal(m.Config, &config); err != nil {
		return fmt.Errorf("the configuration of log %s in the archive: %w", m.Log, err)
	}
	admin := to.client.Admin()
	_, err := admin.CreateLog(to.ctx, to.log, client.LogConfig{Replicas: config.Replicas, Fenced: config.Fenced})
	made := err == nil
	if err != nil && !errors.Is(err, client.ErrLogExists) {
		return err
	}
	info, err := admin.Info(to.ctx, to.log)
	if err != nil {
		return err
	}
	start, end := record.Offset(info.Start), record.Offset(info.End)
	if start == end && end > 0 && !made {
		// A restore that ended before its first append leaves a log without a digest. Any other log
		// has had records, which are trimmed.
		_, err := to.client.Digest(to.ctx, to.log, info.End)
		switch {
		case err == nil || end != to.next:
			return to.other(start, end)
		case !errors.Is(err, client.ErrPrecondition):
			return err
		}
	}
	if start == end && end < to.next {
		if _, _, err := admin.Trim(to.ctx, to.log, int64(to.next), true); err != nil {
			return err
		}
		start, end = to.next, to.next
	}
	if end < to.next || end > m.End() || start > to.next {
		return to.other(start, end)
	}
	to.at, to.before = end, start < end
	return nil
}

// other refuses a log with records that are not those of the archive.
func (to *copied) other(start, end record.Offset) error {
	return fmt.Errorf("log %s exists with offsets [%d, %d), and not with the records of the archive: nothing was appended; give another name with --as", to.log, start, end)
}

// add takes the next entry of the archive.
func (to *copied) add(e *segment.Entry) error {
	entry, err := record.ParseEntry(e.Payload)
	if err != nil {
		return err
	}
	if entry.First > to.next {
		return fmt.Errorf("the archive is damaged: the records of [%d, %d) are missing; log %s has those below %d", to.next, entry.First, to.log, to.at)
	}
	first, end := entry.First, entry.First
	for p, batch := range entry.All {
		first, end = end, p.End
		if end <= to.next {
			continue
		}
		if p.End > to.at && to.before {
			if err := to.compare(); err != nil {
				return err
			}
		}
		if p.End > to.at {
			if len(to.batch)+len(batch) > restoreBytes {
				if err := to.flush(); err != nil {
					return err
				}
			}
			to.batch = append(to.batch, batch...)
		}
		to.next = p.End
		to.tree.AddBatch(first, end, batch.Content())
	}
	return nil
}

// compare compares the digest of the records that the log had with that of the same records of the
// archive.
func (to *copied) compare() error {
	to.before = false
	got, err := to.client.Digest(to.ctx, to.log, int64(to.at))
	if err != nil {
		return err
	}
	if to.tree.End != to.at || got.String() != to.tree.Root().String() {
		return to.other(record.Offset(got.Start), to.at)
	}
	return nil
}

// flush appends the batches that wait. If the outcome of an append is not known, it asks for the end of
// the log, and appends what is not there.
func (to *copied) flush() error {
	if to.before { // the archive has no more records than the log
		if err := to.compare(); err != nil {
			return err
		}
	}
	for tries := 0; len(to.batch) > 0; {
		end, err := to.client.Admin().AppendStored(to.ctx, to.log, to.batch, int64(to.at))
		var failure *client.Error
		if errors.As(err, &failure) && failure.Outcome == client.MaybeDone {
			var info client.LogInfo
			info, err = to.client.Admin().Info(to.ctx, to.log)
			end = info.End
			if tries++; err == nil && end == int64(to.at) {
				if err = failure; tries < appendTries {
					err = pause(to.ctx, time.Duration(tries)*100*time.Millisecond)
				}
			}
		}
		if err != nil {
			return fmt.Errorf("log %s ends at offset %d, and the next records could not be appended: %w", to.log, to.at, err)
		}
		for len(to.batch) > 0 && int64(to.at) < end {
			batch, rest, err := record.Split(to.batch)
			if err != nil {
				return err
			}
			to.at += record.Offset(batch.Count())
			to.batch, tries = rest, 0
		}
		if int64(to.at) != end {
			return fmt.Errorf("log %s ends at offset %d, and not where a batch of the archive does: another program appends to it", to.log, end)
		}
	}
	to.batch = nil
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
