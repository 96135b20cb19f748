// Package suite measures subjects: it makes the logs, repeats the workloads,
// and writes the results. A command line says what is to be measured; the
// suite knows how.
//
// Suite (suite.go) is where results go. Each benchmark is a file: appends.go,
// logs.go, idle.go, fanout.go, read.go, pipeline.go, matrix.go, mixed.go. all.go runs every one of them on
// systems that it starts itself, as much of each as plan.go says.
package suite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Suite measures subjects.
type Suite struct {
	Output
	Repeats int // how often each thing is measured; the rows are medians
	// Bar shows how far a measurement is. The unit is the workload's own.
	Bar func(label string, total int64, u Unit) Bar

	// Open reaches a subject; nil: driver.Open.
	Open func(driver.Address, driver.Options) (workload.System, error)

	logs int // made for one measurement each
}

func (s *Suite) open(a driver.Address, o driver.Options) (workload.System, error) {
	if s.Open != nil {
		return s.Open(a, o)
	}
	return driver.Open(a, o)
}

// Bar is the progress of one measurement.
type Bar interface {
	workload.Progress
	// Close takes the bar away.
	Close()
}

// Unit is what a Bar counts.
type Unit uint8

const (
	Milliseconds Unit = iota
	Records
)

// Subject is a system under test, and what tables say of it.
type Subject struct {
	driver.Address
	driver.Options
	Version string   // of the system; may be empty
	Files   string   // the directory of its files, if they are on this machine
	HTTP    []string // addresses of the HTTP ports of Strandline's nodes, if they are known
	Log     workload.LogConfig
}

// describe is the subject as rows say it, once there is a log.
func (s Subject) describe(target workload.Target) report.Subject {
	d := report.Subject{System: s.Label(), Client: driver.Describe(s.Address), Durability: "unknown", Disk: s.Address.Disk}
	if s.Version != "" {
		d.System += " " + s.Version
	}
	if d.Disk == "" {
		d.Disk = "as it is"
	}
	if target != nil {
		d.Durability = target.Durability()
	} else if s.Log.Durability != "" {
		d.Durability = string(s.Log.Durability)
	}
	return d
}

// name identifies the subject in the messages printed while it is measured.
func (s Subject) name() string { return s.Label() + ", " + driver.Describe(s.Address) }

// group says which subjects are worth comparing in one chart.
func (s Subject) group(d report.Subject) string {
	stored := s.Log.Durability
	if stored == "" {
		stored = workload.Synced
	}
	return fmt.Sprintf("%s, replicas: %d, disk: %s", stored, max(s.Log.Replicas, 1), d.Disk)
}

// cleanTime bounds what is done after a measurement, also after Ctrl-C, when
// patience is shorter.
const cleanTime = 20 * time.Second

// remove deletes a log that was made for a measurement.
func (s *Suite) remove(ctx context.Context, system workload.System, name string) error {
	patient, end := workload.Patient(ctx)
	defer end()
	clean, cancel := context.WithTimeout(patient, cleanTime)
	defer cancel()
	err := system.Delete(clean, name)
	if err != nil {
		s.Line("log %s is left behind: %v", name, err)
	}
	return err
}

// withLog calls do with a log, which is made if it is not there, and then
// deleted afterwards.
func (s *Suite) withLog(ctx context.Context, subject Subject, name string, do func(workload.Target, report.Subject) error) (err error) {
	system, err := s.open(subject.Address, subject.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	target, err := system.Open(ctx, name)
	if errors.Is(err, workload.ErrNoLog) {
		if err := system.Create(ctx, name, subject.Log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.remove(ctx, system, name)) }()
		target, err = system.Open(ctx, name)
	}
	if err != nil {
		return err
	}
	defer target.Close()
	return do(target, subject.describe(target))
}

// newLog is a name that no log has, so that withLog makes one.
func (s *Suite) newLog(prefix string) string {
	s.logs++
	return prefix + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-" + strconv.Itoa(s.logs)
}

// worthARow reports whether a run's figures are worth a row: all of a run that came
// to its end, and what an interrupted one has. A run that went wrong has none.
func worthARow(ctx context.Context, err error, measured int64) bool {
	return err == nil || ctx.Err() != nil && measured > 0
}

// label says in a bar what is being measured.
func label(benchmark string, subject report.Subject, setting string, run, runs int) string {
	text := fmt.Sprintf("%s, %s, %s, %s", benchmark, subject.System, subject.Client, setting)
	if runs > 1 {
		text += fmt.Sprintf(", run %d of %d", run+1, runs)
	}
	return text
}

func (s *Suite) repeats() int { return max(s.Repeats, 1) }
