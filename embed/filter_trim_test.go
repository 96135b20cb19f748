package embed_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestAFilteredReadBesideTrimsMissesNothingFromWhereItBegins(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir())
	defer cluster.Close()
	c := clientOf(t, cluster)
	defer c.Close()
	_, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	const records, each, kept = 8_000, 100, 300
	p, err := c.Producer(t.Context(), "orders", client.WithCompression(client.Zstd))
	require.NoError(t, err)
	appendSome := func(from int64) error {
		var batch []client.Record
		for n := from; n < from+each; n++ {
			batch = append(batch, client.Record{Key: fmt.Appendf(nil, "customer-%d", n%10), Value: fmt.Appendf(nil, `{"n": %d}`, n)})
		}
		if _, err := p.AppendBatch(t.Context(), batch); err != nil {
			return err
		}
		_, _, err := c.Admin().Trim(t.Context(), "orders", max(0, from+each-kept), false)
		return err
	}
	for from := int64(0); from < 2*kept; from += each {
		require.NoError(t, appendSome(from))
	}
	var writing sync.WaitGroup
	var failed error
	writing.Go(func() {
		for from := int64(2 * kept); from < records && failed == nil; from += each {
			failed = appendSome(from)
		}
	})
	for name, filter := range map[string]client.Filter{
		"key":   {Keys: [][]byte{[]byte("customer-3")}},
		"where": {Where: `value.n % 10 == 3`},
	} {
		trimmed := 0
		begin := func(at int64) (*client.Reader, int64) {
			r, err := c.Reader(t.Context(), "orders", client.WithFilter(filter), client.WithStartOffset(at), client.WithFollow())
			require.NoError(t, err)
			return r, at + (13-at%10)%10
		}
		r, due := begin(0)
		for due < records {
			next, err := r.Next(t.Context())
			var gone *client.Error
			if errors.As(err, &gone) && gone.Reason == client.ErrOffsetTrimmed.Reason {
				require.Greater(t, gone.Start, r.Offset())
				require.NoError(t, r.Close())
				trimmed++
				r, due = begin(gone.Start)
				continue
			}
			require.NoError(t, err, name)
			require.Equal(t, due, next.Offset, name)
			due += 10
		}
		require.NoError(t, r.Close())
		require.Positive(t, trimmed, name)
	}
	writing.Wait()
	require.NoError(t, failed)
	require.NoError(t, p.Close(t.Context()))
}
