package node

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
)

// A metered reader gets all records in order, whether memory is short or not, and
// whatever it has to give up and read again on the way.
func TestAMeteredReaderReadsAgainWhatItGaveUp(t *testing.T) {
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	const records = 300
	for i := range records {
		mustAppend(t, n, "orders", fmt.Sprintf("%0*d", 10_000, i))
	}
	reads := n.memory.Reads
	for _, short := range []bool{false, true} {
		t.Run(fmt.Sprint("short of memory ", short), func(t *testing.T) {
			if short {
				others := reads.Size() - 2*runtime.ChunkRoom
				require.True(t, reads.TryAcquire(others))
				defer reads.Release(others)
			}
			before := reads.Used()
			r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Metered: true})
			require.NoError(t, err)
			next := record.Offset(0)
			for i := 0; ; i++ {
				c, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.Equal(t, next, c.First)
				if short {
					require.Less(t, c.Bytes, 32<<10+20_000)
				}
				for got, err := range c.Records {
					require.NoError(t, err)
					require.Equal(t, next, got.Offset)
					require.Equal(t, fmt.Sprintf("%0*d", 10_000, int(next)), string(got.Value))
					next++
				}
				c.Release()
				if i%3 == 0 {
					r.Drop()
					require.Equal(t, before, reads.Used(), "nothing is held")
				}
			}
			require.Equal(t, record.Offset(records), next)
			r.Close()
			require.Equal(t, before, reads.Used())
		})
	}
}

// A chunk that was never released does not keep its part of the memory.
func TestAReaderThatIsClosedHoldsNothing(t *testing.T) {
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	mustAppend(t, n, "orders", "x")
	r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Metered: true})
	require.NoError(t, err)
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, runtime.ChunkRoom, n.memory.Reads.Used())
	r.Close()
	require.Zero(t, n.memory.Reads.Used())
}
