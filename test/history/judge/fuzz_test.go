package judge

import (
	"bytes"
	"encoding/json"
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
		h := newTeller()
		s.tell(h)
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
