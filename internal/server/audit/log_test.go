package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	long := strings.Repeat("\x01", 1<<20)
	lines, size := written(t, func(l *Log) {
		l.Record(Entry{Principal: long, Token: long, From: long, Verb: "read", Object: "log/" + long, Outcome: Refused, Reason: long})
	})
	require.Len(t, lines, 1)
	require.True(t, strings.HasPrefix(lines[0].Object, "log/\x01"))
	require.True(t, strings.HasSuffix(lines[0].Object, "..."))
	require.LessOrEqual(t, len(lines[0].Object), maxText)
	require.Less(t, size, 6*6*maxText)
	require.Equal(t, strings.Repeat("ä", 148)+"...", bounded(strings.Repeat("ä", 200)), "a letter is not cut")
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
