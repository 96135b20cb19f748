package suite

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/process"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Idle is idle logs: each gets one record, and nothing happens for a while. Then the use of processor,
// memory and disk is measured.
type Idle struct {
	Logs       int
	Sessions   bool          // the session of each log stays open
	Settle     time.Duration // between the last append and the measurement
	limit.Span               // Duration alone counts
}

// idleValue is the record of each log.
const idleValue = 16

// Idle measures a system without and with the logs. It runs once: what has been removed may have left
// memory behind.
func (s *Suite) Idle(ctx context.Context, subject Subject, i Idle) error {
	setting := fmt.Sprintf("logs=%d", i.Logs)
	if i.Sessions {
		setting += ", with sessions"
	}
	subject.Log.Partitions = i.Logs
	without, err := i.use(ctx, s, subject, "without logs")
	if err != nil {
		return s.settle(ctx, err, "idle", subject.describe(nil), setting)
	}
	begin := time.Now()
	err = s.withLog(ctx, subject, s.newLog("bench-idle"), func(target workload.Target, d report.Subject) error {
		created := time.Since(begin)
		sender, err := fillOnce(ctx, target, i.Logs)
		if err != nil {
			return err
		}
		if i.Sessions {
			defer sender.Close()
		} else if err := sender.Close(); err != nil {
			return err
		}
		if err := pause(ctx, i.Settle); err != nil {
			return err
		}
		with, err := i.use(ctx, s, subject, setting)
		if err != nil {
			return err
		}
		return s.result([]report.Row{report.Idle(d, i.Logs, i.Sessions, created, without, with)}, "cpu_percent")
	})
	return s.settle(ctx, err, "idle", subject.describe(nil), setting)
}

// fillOnce appends a record to each log, and returns the sender that did.
func fillOnce(ctx context.Context, target workload.Target, logs int) (workload.Sender, error) {
	sender, err := target.Sender(ctx, workload.Sending{Partitions: logs})
	if err != nil {
		return nil, err
	}
	answered := make(chan error, logs)
	sent := 0
	for ; sent < logs && err == nil; sent++ {
		err = sender.Send(ctx, sent, make([]byte, idleValue), func(err error) { answered <- err })
	}
	if err != nil {
		sent-- // the last was refused
	}
	for range sent {
		if e := <-answered; err == nil {
			err = e
		}
	}
	if err != nil {
		_ = sender.Close()
		return nil, err
	}
	return sender, nil
}

// use measures what one node takes.
func (i Idle) use(ctx context.Context, s *Suite, subject Subject, what string) (report.IdleUse, error) {
	i.Processor = process.Usage(subject.Nodes)
	nodes := float64(max(len(subject.Nodes), 1))
	bar := s.Bar("idle, "+subject.name()+", "+what, i.Duration.Milliseconds(), Milliseconds)
	defer bar.Close()
	taken, begin := i.Taken(), time.Now()
	if err := pause(ctx, i.Duration); err != nil {
		return report.IdleUse{}, err
	}
	use := report.IdleUse{Processor: -1, Goroutines: -1, Memory: -1, Disk: -1}
	elapsed := time.Since(begin)
	if _, servers := taken(); servers >= 0 {
		use.Processor = servers.Seconds() / elapsed.Seconds() * 100 / nodes
	}
	if bytes, ok := process.Resident(subject.Nodes); ok {
		use.Memory = float64(bytes) / nodes
	}
	if subject.Files != "" {
		if bytes, ok := limit.Allocated(subject.Files); ok {
			use.Disk = float64(bytes) / nodes
		}
	}
	if len(subject.HTTP) > 0 {
		use.Goroutines = 0
		for _, address := range subject.HTTP {
			n, err := goroutines(ctx, address)
			if err != nil {
				return use, err
			}
			use.Goroutines += n / float64(len(subject.HTTP))
		}
	}
	return use, nil
}

// goroutines reads a node's metrics.
func goroutines(ctx context.Context, address string) (float64, error) {
	const metric = "go_goroutines "
	url := "http://" + address + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	connection := new(http.Transport)
	defer connection.CloseIdleConnections()
	response, err := connection.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), metric); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s answers %s without go_goroutines: %w", url, response.Status, lines.Err())
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
