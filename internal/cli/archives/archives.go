// Package archives is the commands about archives of logs: restore, and those that need no cluster, archive list,
// describe and verify.
package archives

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/cli/terminal"
)

// source is which archives a command is about.
type source struct {
	from    string
	cluster string
}

// flags adds the flags of a source.
func (s *source) flags(command *cobra.Command) {
	command.Flags().StringVar(&s.from, "from", "", "the `URL` of the archive, as \"serve --archive\" has it: file:///DIRECTORY or s3://BUCKET/PREFIX")
	command.Flags().StringVar(&s.cluster, "cluster", "", "only logs of the cluster with this `id`, where several clusters share the archive")
	_ = command.MarkFlagRequired("from")
}

// open returns the archive and its logs: those named, or all.
func (s *source) open(command *cobra.Command, names []string) (archive.Archive, []archive.Listed, error) {
	bucket, err := terminal.OpenBucket(s.from)
	if err != nil {
		return archive.Archive{}, nil, terminal.Misused(command, "--from: %w", err)
	}
	a := archive.Archive{Bucket: bucket}
	all, err := a.List(command.Context())
	if err != nil {
		return a, nil, err
	}
	wanted := map[string]int{}
	for _, name := range names {
		wanted[name] = 0
	}
	var logs []archive.Listed
	for _, l := range all {
		if s.cluster != "" && (l.Manifest == nil || l.Manifest.Cluster != s.cluster) {
			continue
		}
		if len(names) > 0 {
			if l.Manifest == nil {
				continue
			}
			if _, named := wanted[l.Manifest.Log]; !named {
				continue
			}
			wanted[l.Manifest.Log]++
		}
		logs = append(logs, l)
	}
	for _, name := range names {
		if wanted[name] == 0 {
			return a, nil, fmt.Errorf("%s has no archive of a log %q", bucket, name)
		}
	}
	if len(logs) == 0 {
		return a, nil, fmt.Errorf("%s has no archives of logs", bucket)
	}
	return a, logs, nil
}

// New makes the command archive.
func New(c *terminal.Terminal) *cobra.Command {
	command := terminal.Group(&cobra.Command{
		Use:   "archive",
		Short: "Show and verify archives of logs, without a cluster",
		Long: `Show and verify archives of logs, which nodes write with "serve --archive". These commands
read the archive and need no cluster. Endpoint, region and credentials of S3 come from the
environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, ...) or ~/.aws/credentials.`,
		Example: `  strandline archive list --from s3://backups/strandline
  strandline archive verify orders --from s3://backups/strandline`,
	})
	command.AddCommand(newList(c), newDescribe(c), newVerify(c))
	return command
}

// logJSON is the archive of a log as --json shows it.
type logJSON struct {
	Log        string `json:"log,omitempty"`
	Cluster    string `json:"cluster,omitempty"`
	LogID      uint64 `json:"log_id,omitempty"`
	Start      int64  `json:"start_offset"`
	End        int64  `json:"end_offset"`
	Objects    int    `json:"objects"`
	Bytes      int64  `json:"bytes"`
	Newest     string `json:"newest,omitempty"`
	Digest     string `json:"digest,omitempty"`
	DigestFrom int64  `json:"digest_from"`
	// Problem is why the archive cannot be used; empty: it can.
	Problem string `json:"problem,omitempty"`
}

func newLogJSON(l archive.Listed) logJSON {
	if l.Err != nil {
		return logJSON{Problem: fmt.Sprintf("%s: %v", l.Name, l.Err)}
	}
	m := l.Manifest
	last := &m.Objects[len(m.Objects)-1]
	j := logJSON{
		Log: m.Log, Cluster: m.Cluster, LogID: m.LogID, Start: int64(m.Start()), End: int64(m.End()), Objects: len(m.Objects),
		Newest: at(last.To), Digest: last.Digest, DigestFrom: int64(last.DigestFrom),
	}
	for i := range m.Objects {
		j.Bytes += m.Objects[i].Bytes
	}
	return j
}

func at(unixMs int64) string { return time.UnixMilli(unixMs).UTC().Format(time.RFC3339) }

func newList(c *terminal.Terminal) *cobra.Command {
	var s source
	command := &cobra.Command{
		Use:   "list --from URL",
		Short: "List the archived logs",
		Long: `List the archived logs, with the offsets that their archives have and the time of the
newest record. An archive that cannot be read is listed with the reason; then the exit code is 1.`,
		Example: "  strandline archive list --from s3://backups/strandline\n  strandline archive list --from file:///backup --json",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			_, logs, err := s.open(command, nil)
			if err != nil {
				return err
			}
			unusable := 0
			table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
			if !c.JSON {
				fmt.Fprintln(table, "LOG\tSTART\tEND\tOBJECTS\tBYTES\tNEWEST\tCLUSTER\tID")
			}
			for _, l := range logs {
				j := newLogJSON(l)
				if j.Problem != "" {
					unusable++
				}
				err := c.Show(j, func(io.Writer) {
					if j.Problem == "" {
						fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n", terminal.Printable(j.Log), j.Start, j.End, j.Objects, j.Bytes, j.Newest, terminal.Printable(j.Cluster), j.LogID)
					}
				})
				if err != nil {
					return err
				}
			}
			if err := table.Flush(); err != nil {
				return err
			}
			for _, l := range logs {
				if l.Err != nil && !c.JSON {
					fmt.Fprintf(c.Err, "%s: %v\n", terminal.Printable(l.Name), l.Err)
				}
			}
			if unusable > 0 {
				return fmt.Errorf("%d of %d archives cannot be used", unusable, len(logs))
			}
			return nil
		},
	}
	s.flags(command)
	return command
}

// objectJSON is an object of an archive as --json shows it.
type objectJSON struct {
	Log        string `json:"log"`
	Object     string `json:"object"`
	First      int64  `json:"first_offset"`
	End        int64  `json:"end_offset"`
	Oldest     string `json:"oldest"`
	Newest     string `json:"newest"`
	Entries    int    `json:"entries"`
	Bytes      int64  `json:"bytes"`
	Digest     string `json:"digest"`
	DigestFrom int64  `json:"digest_from"`
	// Missing is how many offsets before First are not in the archive.
	Missing int64 `json:"missing_before,omitempty"`
}

func newDescribe(c *terminal.Terminal) *cobra.Command {
	var s source
	command := &cobra.Command{
		Use:     "describe LOG --from URL",
		Short:   "List the objects of a log's archive",
		Long:    "List the objects of a log's archive, with offsets, times, sizes and the digest of the log as of the end of each.",
		Example: "  strandline archive describe orders --from s3://backups/strandline",
		Args:    terminal.Named("LOG"),
		RunE: func(command *cobra.Command, args []string) error {
			_, logs, err := s.open(command, args)
			if err != nil {
				return err
			}
			for _, l := range logs {
				if err := describe(c, l.Manifest, len(logs) > 1); err != nil {
					return err
				}
			}
			return nil
		},
	}
	s.flags(command)
	return command
}

func describe(c *terminal.Terminal, m *archive.Manifest, several bool) error {
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		if several {
			fmt.Fprintf(c.Out, "%s, log %d of cluster %s:\n", terminal.Printable(m.Log), m.LogID, terminal.Printable(m.Cluster))
		}
		fmt.Fprintln(table, "FIRST\tEND\tENTRIES\tBYTES\tNEWEST\tDIGEST\tOBJECT")
	}
	end := m.Start()
	for i := range m.Objects {
		p := &m.Objects[i]
		j := objectJSON{
			m.Log, p.Name, int64(p.First), int64(p.End), at(p.From), at(p.To), p.Entries, p.Bytes, p.Digest, int64(p.DigestFrom), int64(p.First - end),
		}
		end = p.End
		err := c.Show(j, func(io.Writer) {
			if j.Missing > 0 {
				fmt.Fprintf(table, "%d\t%d\tnot in the archive\n", j.First-j.Missing, j.First)
			}
			fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%s\t%s\t%s\n", j.First, j.End, j.Entries, j.Bytes, j.Newest, j.Digest, j.Object)
		})
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

// verdictJSON is what verify has found, as --json shows it.
type verdictJSON struct {
	Log        string        `json:"log,omitempty"`
	Cluster    string        `json:"cluster,omitempty"`
	LogID      uint64        `json:"log_id,omitempty"`
	Intact     bool          `json:"intact"`
	Start      int64         `json:"start_offset"`
	End        int64         `json:"end_offset"`
	Objects    int           `json:"objects"`
	Bytes      int64         `json:"bytes"`
	Digest     string        `json:"digest,omitempty"`
	DigestFrom int64         `json:"digest_from"`
	Problems   []problemJSON `json:"problems,omitempty"`
}

type problemJSON struct {
	Object string `json:"object,omitempty"`
	First  int64  `json:"first_offset"`
	End    int64  `json:"end_offset"`
	Detail string `json:"detail"`
}

func newVerify(c *terminal.Terminal) *cobra.Command {
	var s source
	command := &cobra.Command{
		Use:   "verify [LOG...] --from URL",
		Short: "Read archives whole, and check them",
		Long: `Read all objects of the archives of some logs, or of all, and check every checksum, that
the objects follow each other, and that the digest computed from the records is the one that
the manifest names after each object. "log digest LOG --at OFFSET" shows the digest of the
log itself, to compare. Nothing is changed. What is wrong is listed with object and offsets.

Exit code 0 if nothing is wrong, 1 if something is wrong or cannot be read.`,
		Example: "  strandline archive verify --from s3://backups/strandline\n  strandline archive verify orders --from file:///backup --json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, args []string) error {
			a, logs, err := s.open(command, args)
			if err != nil {
				return err
			}
			bad := 0
			for _, l := range logs {
				v, err := verify(command.Context(), a, l)
				if err != nil {
					return err
				}
				if !v.Intact {
					bad++
				}
				if err := c.Show(v, v.print); err != nil {
					return err
				}
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d archives are damaged or incomplete", bad, len(logs))
			}
			return nil
		},
	}
	s.flags(command)
	return command
}

func verify(ctx context.Context, a archive.Archive, l archive.Listed) (verdictJSON, error) {
	if l.Err != nil {
		if !errors.Is(l.Err, archive.ErrManifest) && !errors.Is(l.Err, archive.ErrNotFound) {
			return verdictJSON{}, l.Err
		}
		return verdictJSON{Problems: []problemJSON{{Object: l.Name, Detail: l.Err.Error()}}}, nil
	}
	m := l.Manifest
	v, err := a.Verify(ctx, m, nil)
	if err != nil {
		return verdictJSON{}, err
	}
	j := verdictJSON{
		Log: m.Log, Cluster: m.Cluster, LogID: m.LogID, Intact: len(v.Problems) == 0, Start: int64(v.Start), End: int64(v.End),
		Objects: v.Objects, Bytes: v.Bytes, Digest: v.Digest.String(), DigestFrom: int64(v.From),
	}
	for _, p := range v.Problems {
		j.Problems = append(j.Problems, problemJSON{p.Object, int64(p.First), int64(p.End), p.Detail})
	}
	return j, nil
}

func (v verdictJSON) print(out io.Writer) {
	if v.Log != "" {
		state := "intact"
		if !v.Intact {
			state = "damaged or incomplete"
		}
		fmt.Fprintf(out, "%s: %s, offsets [%d, %d) in %s of %d bytes\n", terminal.Printable(v.Log), state, v.Start, v.End, terminal.Counted(int64(v.Objects), "object"), v.Bytes)
	}
	if v.Intact {
		fmt.Fprintf(out, "  digest %s as of offset %d\n", v.Digest, v.End)
	}
	for _, p := range v.Problems {
		where := terminal.Printable(p.Object)
		if where == "" {
			where = "between objects"
		}
		fmt.Fprintf(out, "  %s, offsets [%d, %d): %s\n", where, p.First, p.End, terminal.Printable(p.Detail))
	}
}
