package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"strandline.dev/bench/report"
)

// pipeline has another build of this program measure the pipeline. It
// speaks JSON lines, and writes into our directory by itself.
func (other Other) pipeline(ctx context.Context, s *Suite, subject Subject, p Pipeline) error {
	var trips, inFlight []string
	for _, d := range p.RoundTrips {
		trips = append(trips, d.String())
	}
	for _, n := range p.InFlight {
		if n == 0 {
			inFlight = append(inFlight, "auto")
		} else {
			inFlight = append(inFlight, strconv.Itoa(n))
		}
	}
	query := url.Values{"client": {subject.Client}, "name": {subject.Label() + " " + subject.Version}, "disk": {subject.Disk}}
	arguments := []string{
		"bench", "pipeline", "--json", "--part",
		"--target", subject.Scheme + "://" + strings.Join(subject.Nodes, ",") + "?" + query.Encode(),
		"--round-trip", strings.Join(trips, ","), "--in-flight", strings.Join(inFlight, ","),
		"--records", strconv.FormatInt(p.Records, 10), "--value", strconv.Itoa(p.ValueBytes),
		"--flush-bytes", strconv.Itoa(p.Sending.RequestBytes), "--flush-frequency", p.Sending.Linger.String(),
		"--warmup", p.Warmup.String(), "--duration", p.Duration.String(),
		"--replicas", strconv.Itoa(subject.Log.Replicas), "--repeats", strconv.Itoa(max(p.Repeats, 1)),
	}
	if s.Directory != nil {
		arguments = append(arguments, "--out", s.Directory.Path())
	}
	bar := s.Bar("pipeline, "+other.Name, int64(len(trips)*len(inFlight)), Records)
	defer bar.Close()
	command := exec.CommandContext(ctx, other.Program, arguments...)
	command.Env = withoutSettings(os.Environ())
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = cleanTime
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	rows := s.showRows(bufio.NewScanner(out), bar)
	err = command.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", other.Program, err, strings.TrimSpace(complaints.String()))
	}
	return errors.Join(rows, err)
}

// showRows shows the rows of another process.
func (s *Output) showRows(lines *bufio.Scanner, bar Bar) error {
	for lines.Scan() {
		var row report.Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("read a row: %w", err)
		}
		if len(row) == 0 || row[0].Name == "environment" {
			continue
		}
		bar.Add(1)
		if err := s.Writer.Row(row); err != nil {
			return err
		}
	}
	return lines.Err()
}
