package top

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"strandline.dev/internal/cli/terminal"
)

// show prints figures as tables.
func (f figures) show(out io.Writer, by order) {
	fmt.Fprintf(out, "cluster %s, %s, %s of %s, %d not healthy, by %s, %s to %s\n",
		f.Cluster, terminal.Counted(int64(len(f.Nodes)), "node"), fmt.Sprint(len(f.Logs)), terminal.Counted(int64(f.LogsTotal), "log"), f.Unhealthy,
		by, f.At.Add(-time.Duration(f.Seconds*float64(time.Second))).Local().Format(time.TimeOnly), f.At.Local().Format(time.TimeOnly))
	for _, p := range f.Problems {
		fmt.Fprintln(out, p)
	}
	table(out, "\nNODE\tALIVE\tLEADS\tAPPENDS/S\tRECORDS/S\tIN/S\tOUT/S\tAPPEND P99\tWRITE P99\tREFUSED/S\tLAG\tFREE\tMEMORY\tOF", f.Nodes, func(n nodeFigures) []string {
		return []string{
			n.Node, yesNo(n.Alive), number(n.Leads), number(n.Appends), number(n.Records), rounded(n.Bytes), rounded(n.Read),
			seconds(n.AppendP99), seconds(n.WriteP99), number(n.Refused), number(n.Lag), size(n.DiskFree), size(n.Memory), size(n.MemoryOf),
		}
	})
	table(out, "\nLOG\tLEADER\tHEALTHY\tRECORDS/S\tIN/S\tWRITES/S\tWRITE MEAN\tUSED\tEND\tLAG", f.Logs, func(l logFigures) []string {
		return []string{
			l.Log, terminal.OrUnknown(l.Leader), yesNo(l.Healthy), number(l.Records), rounded(l.Bytes), number(l.Writes), seconds(l.Write), rounded(l.Used),
			fmt.Sprint(l.End), whole(l.Lag),
		}
	})
	table(out, "\nSLOWEST STAGE\tNODE\tENTRIES/S\tMEAN\tP99\tOF NODE'S TIME", f.Stages, func(s stageFigures) []string {
		return []string{s.Stage, s.Node, number(&s.Count), seconds(&s.Mean), seconds(&s.P99), fmt.Sprintf("%.0f%%", 100*s.Share)}
	})
	table(out, "\nREPLICA BEHIND\tON\tROLE\tSTATE\tLAG\tPROBLEM", f.Replicas, func(r replicaFigures) []string {
		return []string{r.Log, r.Node, r.Role, r.State, whole(r.Lag), r.Problem}
	})
	more(out, f.ReplicasOf-len(f.Replicas), "replica")
	table(out, "\nGROUP BEHIND\tTOPIC\tPARTITION\tCOMMITTED\tEND\tLAG", f.Groups, func(g groupFigures) []string {
		committed := "none"
		if g.Offset != nil {
			committed = fmt.Sprint(*g.Offset)
		}
		return []string{terminal.Printable(g.Group), g.Topic, fmt.Sprint(g.Partition), committed, fmt.Sprint(g.End), fmt.Sprint(g.Lag)}
	})
	more(out, f.GroupsOf-len(f.Groups), "partition")
}

// table prints a head and a line for each row; nothing if there is none.
func table[R any](out io.Writer, head string, rows []R, cells func(R) []string) {
	if len(rows) == 0 {
		return
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, head)
	for _, r := range rows {
		fmt.Fprintln(columns, strings.Join(cells(r), "\t"))
	}
	columns.Flush()
}

func more(out io.Writer, left int, thing string) {
	if left > 0 {
		fmt.Fprintf(out, "and %s more\n", terminal.Counted(int64(left), thing))
	}
}

const none = "-"

// number has three digits at least: 0.12, 12.3, 1234.
func number(v *float64) string {
	switch {
	case v == nil:
		return none
	case *v == float64(int64(*v)) || *v >= 100:
		return fmt.Sprintf("%.0f", *v)
	}
	return fmt.Sprintf("%.3g", *v)
}

func whole(v *int64) string {
	if v == nil {
		return none
	}
	return fmt.Sprint(*v)
}

func rounded(v *float64) string {
	if v == nil {
		return none
	}
	whole := int64(*v + 0.5)
	return size(&whole)
}

// size is that of an amount in at most four digits: 1.5MiB.
func size(v *int64) string {
	if v == nil {
		return none
	}
	amount, unit := float64(*v), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if amount < 1024 {
			break
		}
		amount, unit = amount/1024, larger
	}
	if amount >= 100 || unit == "B" {
		return fmt.Sprintf("%.0f%s", amount, unit)
	}
	return fmt.Sprintf("%.3g%s", amount, unit)
}

func seconds(v *float64) string {
	if v == nil {
		return none
	}
	d := time.Duration(*v * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
