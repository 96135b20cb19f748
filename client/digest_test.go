package client_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestARecordIsProvedUnderADigestThatTheCallerHas(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	empty, err := c.Digest(t.Context(), "orders", client.DigestAtEnd)
	require.NoError(t, err)
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", empty.String(), "the SHA-256 of nothing")
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	for i := range 20 {
		_, err := p.AppendBatch(t.Context(), []client.Record{
			{Key: []byte("k"), Value: fmt.Append(nil, 2*i), Headers: []client.Header{{Key: "h", Value: []byte("x")}}}, {Value: fmt.Append(nil, 2*i+1)},
		})
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context()))

	kept, err := c.Digest(t.Context(), "orders", 30)
	require.NoError(t, err)
	require.Equal(t, []int64{30, 0, 30, 15, 0, 40}, []int64{kept.At, kept.From, kept.Covered, kept.Batches, kept.Start, kept.End})
	known, err := c.KnownDigest(t.Context(), "orders", 30)
	require.NoError(t, err)
	require.Equal(t, kept, known)
	half, err := c.Digest(t.Context(), "orders", 31)
	require.NoError(t, err)
	require.Equal(t, kept.Hash, half.Hash)
	require.EqualValues(t, 30, half.Covered)

	text, err := client.ParseDigest(kept.String(), kept.At)
	require.NoError(t, err)
	for offset := range int64(30) {
		r, err := c.Prove(t.Context(), "orders", offset, text)
		require.NoError(t, err)
		require.Equal(t, offset, r.Offset)
		require.Equal(t, fmt.Sprint(offset), string(r.Value))
		known, err := c.ProveKnown(t.Context(), "orders", offset, text)
		require.NoError(t, err)
		require.Equal(t, r, known)
	}
	_, err = c.Prove(t.Context(), "orders", 30, text)
	require.ErrorIs(t, err, client.ErrPrecondition, "the digest does not cover it")
	text.Hash[0] ^= 1
	_, err = c.Prove(t.Context(), "orders", 3, text)
	require.ErrorIs(t, err, client.ErrUnproven)
	_, err = client.ParseDigest("abc", 3)
	require.ErrorIs(t, err, client.ErrInvalid)
	_, err = c.Digest(t.Context(), "orders", 41)
	require.ErrorIs(t, err, client.ErrOffsetBeyondEnd)
	_, err = c.Digest(t.Context(), "orders", -7)
	require.ErrorIs(t, err, client.ErrInvalid)
}
