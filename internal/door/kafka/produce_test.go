package kafkadoor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWhatAClientProducesItConsumes(t *testing.T) {
	d := openNew(t)
	d.create("orders", 1)
	c := d.client(kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"))
	for _, v := range []string{"a", "b", "c"} {
		require.NoError(t, c.ProduceSync(d.ctx(), kgo.StringRecord(v)).FirstErr())
	}
	records := d.poll(c, 3)
	require.Equal(t, []string{"a", "b", "c"}, values(records))
	for i, r := range records {
		require.EqualValues(t, i, r.Offset)
	}
}
