package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// written returns what a log has written of what record recorded.
func written(t *testing.T, record func(*Log)) (lines []Entry, size int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	record(l)
	l.Close()
	require.Zero(t, testutil.ToFloat64(l.dropped))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, one := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var e Entry
		require.NoError(t, json.Unmarshal(one, &e), "%s", one)
		lines = append(lines, e)
	}
	return lines, len(text)
}

func TestAnEntryIsSmallWhateverItsCallerCallsThings(t *testing.T) {
	for name, long := range map[string]string{
		"letters": "a", "signs of HTML": "<&>", "control characters": "\x01\n", "quotes": `"\`, "no UTF-8": "\xff\xc3", "separators": "\u2028", "large letters": "ä€😀",
	} {
		t.Run(name, func(t *testing.T) {
			long = strings.Repeat(long, 1<<10)
			lines, size := written(t, func(l *Log) {
				l.Record(Entry{Principal: long, Token: long, From: long, Verb: "read", Object: "log/" + long, Outcome: Refused, Reason: long})
			})
			require.Len(t, lines, 1)
			require.True(t, strings.HasPrefix(lines[0].Object, "log/"))
			require.True(t, strings.HasSuffix(lines[0].Object, "..."))
			require.Less(t, size, 5*maxText+200)
		})
	}
	require.Equal(t, strings.Repeat("ä", 148)+"...", bounded(strings.Repeat("ä", 200)), "a letter is not cut")
	require.Equal(t, strings.Repeat("ä", 150), bounded(strings.Repeat("ä", 150)), "what fits is whole")
}

// Days of it are no more than the disk has room for.
func TestWhoIsRefusedForLongHasFewLinesAMinute(t *testing.T) {
	const minutes, each = 5, 100
	lines, size := []Entry(nil), 0
	synctest.Test(t, func(t *testing.T) {
		lines, size = written(t, func(l *Log) {
			for second := range minutes * 60 {
				for i := range each {
					n := second*each + i
					l.Record(Entry{Principal: "anonymous", From: fmt.Sprintf("2001:db8::%x:%x", n>>16, n&0xffff), Verb: "read", Object: fmt.Sprintf("log/%d", n), Outcome: Refused})
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
		})
	})
	counted := 0
	for _, e := range lines {
		counted += max(1, e.Times)
	}
	require.Equal(t, minutes*60*each, counted, "all are counted")
	require.LessOrEqual(t, len(lines), (minutes+1)*(ofCaller+1), "all addresses of a network of IPv6 are one caller's")
	require.Less(t, size, (minutes+1)*ofCaller*maxText)
	require.Equal(t, "2001:db8::/64", lines[ofCaller].From)
}

func TestACallerThatIsRefusedHasFewLinesAndLosesNobodysElse(t *testing.T) {
	lines, _ := written(t, func(l *Log) {
		for i := range 50 * queued {
			l.Record(Entry{Principal: "anonymous", From: "10.0.0.7", Verb: "read", Object: fmt.Sprintf("log/%d", i), Outcome: Refused})
			if i%1000 == 0 {
				l.Record(Entry{Principal: "user/alice", From: "10.0.0.8", Verb: "trim", Object: "log/orders", Outcome: Done})
			}
		}
		for i := range 2 * gathered {
			l.Record(Entry{Principal: "anonymous", From: fmt.Sprintf("address %d", i), Verb: "read", Object: "log/orders", Outcome: Refused})
		}
	})
	of, refused := map[string]int{}, 0
	for _, e := range lines {
		of[e.Principal]++
		if e.Outcome == Refused {
			refused += max(1, e.Times)
		}
	}
	require.Equal(t, (50*queued+999)/1000, of["user/alice"])
	require.Equal(t, 50*queued+2*gathered, refused, "all are counted")
	require.Less(t, of["anonymous"], 4*gathered)
}

// Each of them may have changed something: when, and what, is not to be guessed from a count.
func TestEachChangeThatMayBeDoneHasALine(t *testing.T) {
	lines, _ := written(t, func(l *Log) {
		for i := range 2 * ofCaller {
			for _, object := range []string{"log/orders", fmt.Sprintf("log/%d", i)} {
				l.Record(Entry{Principal: "user/alice", From: "10.0.0.8", Verb: "delete", Object: object, Outcome: Unknown})
			}
		}
	})
	require.Len(t, lines, 4*ofCaller)
	for _, e := range lines {
		require.Equal(t, Unknown, e.Outcome)
		require.Zero(t, e.Times)
	}
}

// Who watches the counter sees how much is missing.
func TestEachEntryThatIsLostWithOthersIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	l.Close() // its file fails from now on
	const few, many = 3, 100
	count := func(c prometheus.Counter) int { return int(testutil.ToFloat64(c)) }
	for range few {
		l.write(Entry{Verb: "trim", Outcome: Done})
	}
	l.flush()
	require.Equal(t, few, count(l.dropped))
	for range many { // more than are written at once
		l.write(Entry{Verb: "trim", Outcome: Done})
	}
	l.flush()
	require.Equal(t, few+many, count(l.dropped))
	require.Zero(t, count(l.lines))

	require.NoError(t, l.open())
	for range many {
		l.write(Entry{Verb: "trim", Outcome: Done})
	}
	l.flush()
	require.NoError(t, l.file.Close())
	require.Equal(t, few+many, count(l.dropped))
	require.Equal(t, many, count(l.lines))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, many, bytes.Count(text, []byte("\n")))
}

// fullDisk is a file on a disk with room for so many bytes.
type fullDisk struct {
	bytes.Buffer
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n, _ := d.Buffer.Write(p[:min(len(p), d.room)])
	if d.room -= n; n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func (d *fullDisk) Close() error { return nil }

// A node may have ended, or crashed, with a part of a line in its file.
func TestALineIsNotJoinedToThePartOfOneFromBefore(t *testing.T) {
	l := &Log{
		path: filepath.Join(t.TempDir(), "audit.log"), logger: slog.New(slog.DiscardHandler),
		lines: prometheus.NewCounter(prometheus.CounterOpts{}), dropped: prometheus.NewCounter(prometheus.CounterOpts{}),
	}
	for before, want := range map[string]int{"": 1, "{}\n": 2, "{\"verb\":": 2} {
		require.NoError(t, os.WriteFile(l.path, []byte(before), 0o600))
		require.NoError(t, l.open())
		l.write(Entry{Verb: "trim", Outcome: Done})
		l.flush()
		text, err := os.ReadFile(l.path)
		require.NoError(t, err)
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		require.Len(t, lines, want, "%s", text)
		require.NoError(t, json.Unmarshal(lines[want-1], new(Entry)), "%s", text)
	}
	require.NoError(t, l.file.Close())
}

func TestALineIsNotJoinedToThePartOfOneThatWasWritten(t *testing.T) {
	l := &Log{
		logger: slog.New(slog.DiscardHandler), lines: prometheus.NewCounter(prometheus.CounterOpts{}), dropped: prometheus.NewCounter(prometheus.CounterOpts{}),
	}
	disk := &fullDisk{room: 10}
	l.file = disk
	one := func() {
		l.write(Entry{Verb: "trim", Outcome: Done})
		l.flush()
	}
	one() // a part of it
	one() // nothing of it
	disk.room = 1
	one() // the end of the part
	disk.room = 1 << 10
	one()
	one()
	lines := bytes.Split(bytes.TrimSpace(disk.Bytes()), []byte("\n"))
	require.Len(t, lines, 3, "%s", disk.Bytes())
	require.Len(t, lines[0], 10)
	for _, line := range lines[1:] {
		require.NoError(t, json.Unmarshal(line, new(Entry)), "%s", line)
	}
	require.EqualValues(t, 2, testutil.ToFloat64(l.lines))
	require.EqualValues(t, 3, testutil.ToFloat64(l.dropped))
}
