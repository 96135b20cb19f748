package clienttest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/client/clienttest"
)

func TestARecordThatWasAppendedIsRead(t *testing.T) {
	c, err := client.Dial([]string{clienttest.Start(t).Address})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	offset, err := p.Append(t.Context(), []byte("first"))
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	r, err := c.Reader(t.Context(), "orders", client.WithStartOffset(offset))
	require.NoError(t, err)
	defer r.Close()
	record, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "first", string(record.Value))
}
