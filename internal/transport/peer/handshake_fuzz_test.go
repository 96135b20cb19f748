package peer

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a node that nobody knows yet sends is read, or refused, and takes no more memory
// than it may.
func FuzzOpening(f *testing.F) {
	f.Add(opening{Cluster: "c", Node: Node{ID: 1, Name: "a", Address: "a:1"}, Levels: Levels{1, 2}, oldest: 1, Newest: 7}.encode())
	f.Add(opening{oldest: 9, Newest: 3}.encode())
	f.Add(verdict{refused, "no"}.encode())
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if o, err := readOpening(bytes.NewReader(sent)); err == nil {
			again, err := readOpening(bytes.NewReader(o.encode()))
			require.NoError(t, err)
			require.Equal(t, o.hello(), again.hello())
			mine := opening{oldest: 2, Newest: 4}
			if judgeVersions(mine, o).judgement == welcome {
				v := version(mine, o)
				require.True(t, v >= 2 && v <= 4 && v >= o.oldest && v <= o.newest(), v)
			}
		}
		if v, err := readVerdict(bytes.NewReader(sent)); err == nil {
			require.LessOrEqual(t, len(v.reason), maxReason)
			again, err := readVerdict(bytes.NewReader(v.encode()))
			require.NoError(t, err)
			require.Equal(t, v, again)
		}
	})
}
