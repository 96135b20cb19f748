package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/corpus"
	"strandline.dev/test/history"
)

// Whatever the lines are, they are refused or judged; and a line that is taken
// says the same when it is written again.
func FuzzHistory(f *testing.F) {
	corpus.Add(f)
	for _, s := range stories {
		h := newHistoryWriter()
		s.write(h)
		f.Add(h.out.Bytes())
	}
	f.Add([]byte(`{"t":1,"event":"replica","log":"l","node":"n","index":9223372036854775807,"commit":18446744073709551615,"hashes":"0000000000000001"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for line := range strings.Lines(string(data)) {
			e, err := history.Parse([]byte(line))
			if err != nil {
				continue
			}
			again, err := json.Marshal(e)
			require.NoError(t, err)
			same, err := history.Parse(again)
			require.NoError(t, err)
			require.Equal(t, e, same)
		}
		_, _ = Check(history.NewReader(history.Input{Name: "fuzz", Reader: bytes.NewReader(data)}), Options{})
	})
}

// What one line costs must not depend on how many there are: compare ns/line.
func BenchmarkCheck(b *testing.B) {
	for _, appends := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("appends=%d", appends), func(b *testing.B) {
			text := longHistory(appends)
			lines := 0
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				report, err := Check(history.NewReader(history.Input{Name: "history", Reader: bytes.NewReader(text)}), Options{})
				if err != nil || !report.Holds() {
					b.Fatal(err, report)
				}
				lines += report.Lines
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(lines), "ns/line")
		})
	}
}

// longHistory is of eight clients with sixteen appends open each, read by one
// reader every thousand records and trimmed now and then.
func longHistory(appends int) []byte {
	h := newHistoryWriter()
	type flying struct {
		call *history.Call
		hash uint64
	}
	var open []flying
	var hashes history.Hashes
	shown := int64(0)
	for i := range appends {
		client := i % 8
		hash := uint64(i)*0x9e3779b97f4a7c15 + 1
		open = append(open, flying{h.append(history.Event{
			Client: fmt.Sprint("w", client), Hashes: history.Hashes{hash}, Session: uint64(client + 1), Sequence: uint64(i / 8), Deadline: h.now + 1e12,
		}), hash})
		if len(open) == 8*16 {
			open[0].call.Return(ok(int64(len(hashes))))
			hashes = append(hashes, open[0].hash)
			open = open[1:]
		}
		if i%1000 == 999 {
			end := int64(len(hashes))
			read := h.begin(history.Read, history.Event{From: &shown})
			read.Frame(history.Event{First: &shown, End: &end, Hashes: hashes[shown:]})
			read.Return(history.Event{Outcome: history.OK, End: &end})
			shown = end
		}
		if i%50_000 == 49_999 {
			h.trim(shown / 2)
		}
	}
	return h.out.Bytes()
}
