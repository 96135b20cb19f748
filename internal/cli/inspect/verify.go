// Package inspect is the commands that judge without a cluster: a data directory
// (verify), a history (check), and a machine (doctor).
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/stopped"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

const verifyHelp = `Read all stored data of a stopped node, and compare it with its checksums: the frames
of all segments, their headers and indexes, and the snapshots. Compare the records with the
digests of their log, and look for missing files. DIR is the data directory of a node, or
that of one replica in it (DIR/logs/LOG/REPLICA). Nothing is changed. A file that belongs
to another replica, log or cluster is damage, whatever its name.

Damage is listed by file, with the bytes, the entries and the offsets of the records that
are lost with them, and with what to do. A torn tail is not damage: it was never
acknowledged, and the next start discards it.

Exit code 0 if nothing is damaged, 1 if something is damaged or cannot be read.`

// NewVerify makes the command verify.
func NewVerify(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "verify DIR",
		Short:   "Check the files of a stopped node against their checksums",
		Long:    verifyHelp,
		Example: "  strandline verify /var/lib/strandline\n  strandline verify strandline-data/logs/3/7 --json",
		Args:    terminal.Named("DIR"),
		RunE: func(command *cobra.Command, args []string) error {
			return verifyPaths(c, command.Context(), filepath.Clean(args[0]))
		},
	}
}

func verifyPaths(c *terminal.Terminal, ctx context.Context, dir string) error {
	replicas, data, err := stopped.Find(dir)
	if err != nil {
		return err
	}
	lock, err := stopped.Lock(data)
	if errors.Is(err, stopped.ErrRuns) {
		return terminal.Hinted(err, "stop the node that runs on it first; a running node verifies all data that it reads")
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	cluster, whole, err := verifyNode(c, data)
	if err != nil {
		return err
	}
	damaged := 0
	for _, replica := range replicas {
		r := verifyJSON{Log: replica.Log, Replica: replica.ID, Dir: replica.Dir}
		if err := verifyReplica(c, ctx, replica.Options(data, cluster), &r); err != nil {
			return err
		}
		if r.State != stateWhole {
			damaged++
		}
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d replicas are damaged", damaged, len(replicas))
	}
	if !whole {
		return fmt.Errorf("the node's own files in %s are damaged", data)
	}
	return nil
}

// verifyNode shows which of the node's own files are damaged, and returns the
// cluster they belong to; empty if that is not known.
func verifyNode(c *terminal.Terminal, data string) (cluster string, whole bool, err error) {
	if data == "" {
		return "", true, nil
	}
	cluster, damage, err := datadir.CheckData(vfs.ReadOnly(), data)
	if err != nil || len(damage) == 0 {
		return cluster, true, err
	}
	files := nodeFilesJSON{Dir: data, State: stateDamaged}
	for _, d := range damage {
		files.Damage = append(files.Damage, fileDamageJSON{d.Path, d.Detail})
	}
	return cluster, false, c.Show(files, files.print)
}

// nodeFilesJSON is what verify shows of the node's own files, if one is damaged.
type nodeFilesJSON struct {
	Dir    string           `json:"dir"`
	State  string           `json:"state"`
	Damage []fileDamageJSON `json:"damage"`
}

type fileDamageJSON struct {
	File   string `json:"file"`
	Detail string `json:"detail"`
}

func (f nodeFilesJSON) print(out io.Writer) {
	fmt.Fprintf(out, "%s: the node's own files are damaged\n", f.Dir)
	for _, d := range f.Damage {
		fmt.Fprintf(out, "  %s: %s\n", d.File, d.Detail)
	}
}

// verifyReplica looks at one replica and shows what it found.
func verifyReplica(c *terminal.Terminal, ctx context.Context, o store.Options, r *verifyJSON) error {
	var bar *terminal.Progress
	shown := int64(0)
	report, err := repair.SurveyDigests(ctx, vfs.ReadOnly(), r.Dir, o, core.DecodeDigest, func(done, total int64) {
		if bar == nil {
			bar = c.NewProgress(true, r.name(), total, terminal.UnitBytes)
		}
		bar.Add(done - shown)
		shown = done
	})
	bar.Close()
	switch {
	case errors.Is(err, segment.ErrNoLog):
		report = &repair.Report{} // its creation did not finish
	case err != nil:
		return err
	}
	r.take(report)
	return c.Show(r, r.print)
}

// The states of a replica that verify reports.
const (
	stateWhole   = "whole"
	stateDamaged = "damaged"
	stateLost    = "lost" // other replicas cannot repair it
)

// verifyJSON is what verify shows of a replica.
type verifyJSON struct {
	Log       uint64       `json:"log"`
	Replica   uint64       `json:"replica"`
	Dir       string       `json:"dir"`
	State     string       `json:"state"`
	Segments  int          `json:"segments"`
	Snapshots int          `json:"snapshots"`
	Bytes     int64        `json:"bytes"`
	Entries   uint64       `json:"entries"`
	First     uint64       `json:"first_index"`
	Last      uint64       `json:"last_index"`
	Start     int64        `json:"start_offset"` // -1: not known, since its entry is damaged
	End       int64        `json:"end_offset"`   // committed or not
	Torn      *tornJSON    `json:"torn,omitempty"`
	Damage    []damageJSON `json:"damage"`
	Aside     []string     `json:"kept_aside"`
}

type tornJSON struct {
	File     string `json:"file"`
	Position int64  `json:"position"`
}

type damageJSON struct {
	File       string `json:"file"`
	Position   int64  `json:"position"`
	Bytes      int64  `json:"bytes"`       // 0: the whole file
	First      uint64 `json:"first_index"` // 0: no entries
	Last       uint64 `json:"last_index"`
	Start      int64  `json:"start_offset"`
	End        int64  `json:"end_offset"`
	Detail     string `json:"detail"`
	Repairable bool   `json:"repairable"`
}

func (r *verifyJSON) take(report *repair.Report) {
	r.State = stateWhole
	r.Segments, r.Snapshots, r.Bytes, r.Entries = report.Segments, report.Snapshots, report.Bytes, report.Entries
	r.First, r.Last, r.Start, r.End = report.First, report.Last, int64(report.Start), int64(report.End)
	r.Damage, r.Aside = []damageJSON{}, append([]string{}, report.Aside...)
	if t := report.Torn; t != nil {
		r.Torn = &tornJSON{t.File, t.Position}
	}
	for _, d := range report.Damage {
		if d.Renew {
			r.State = stateLost
		} else if r.State == stateWhole {
			r.State = stateDamaged
		}
		r.Damage = append(r.Damage, damageJSON{
			File: d.File, Position: d.Position, Bytes: d.Size, First: d.First, Last: d.Last,
			Start: int64(d.Start), End: int64(d.End), Detail: d.Detail, Repairable: !d.Renew,
		})
	}
}

func (r *verifyJSON) name() string {
	if r.Replica == 0 {
		return r.Dir
	}
	return fmt.Sprintf("log %d, replica %d", r.Log, r.Replica)
}

func (r *verifyJSON) print(out io.Writer) {
	if r.Segments == 0 && r.State == stateWhole {
		fmt.Fprintf(out, "%s: empty, it was never finished\n", r.name())
		return
	}
	fmt.Fprintf(out, "%s: %s; %d segments, %d snapshots, %v; %d entries, offsets up to %d\n",
		r.name(), r.State, r.Segments, r.Snapshots, terminal.Size(r.Bytes), r.Entries, r.End)
	if r.Torn != nil {
		fmt.Fprintf(out, "  %s ends in a torn tail at byte %d: it was never synced, the next start cuts it\n", r.Torn.File, r.Torn.Position)
	}
	for _, d := range r.Damage {
		fmt.Fprintf(out, "  %s", d.File)
		if d.Bytes > 0 {
			fmt.Fprintf(out, ", bytes %d to %d", d.Position, d.Position+d.Bytes)
		}
		fmt.Fprintf(out, ": %s\n", d.Detail)
		if d.First > 0 {
			fmt.Fprintf(out, "    lost with it: entries %d to %d", d.First, d.Last)
			if d.End > d.Start {
				fmt.Fprintf(out, ", offsets %d to %d", d.Start, d.End-1)
			}
			fmt.Fprintln(out)
		}
	}
	switch r.State {
	case stateDamaged:
		fmt.Fprintln(out, "  A start of the node and its first scrub repair it with what other replicas of the log have. Without one, bring the files back from a copy.")
	case stateLost:
		fmt.Fprintln(out, "  This replica may have forgotten its vote: it must come back as a new one, which the others fill. Without others, bring the files back from a copy.")
	}
	for _, name := range r.Aside {
		fmt.Fprintf(out, "  %s was replaced and is kept aside; nothing reads it, delete it when you like\n", filepath.Join(r.Dir, name))
	}
}
