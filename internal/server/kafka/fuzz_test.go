package kafkaserver

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/test/corpus"
)

// FuzzRequest: any frame is decoded or refused, without a panic and without
// memory beyond what it was charged for.
func FuzzRequest(f *testing.F) {
	corpus.Add(f)
	random := rand.New(rand.NewPCG(3, 4))
	for _, a := range apis {
		for _, version := range []int16{a.min, a.max} {
			q := kmsg.RequestForKey(a.key)
			fillRandom(random, reflect.ValueOf(q).Elem(), 0)
			q.SetVersion(version)
			f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz")).AppendRequest(nil, q, 1)[4:])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 8 || len(data) > 64<<10 {
			return
		}
		q := &call{connection: &connection{}, key: int16(uint16(data[0])<<8 | uint16(data[1])), version: int16(uint16(data[2])<<8 | uint16(data[3]))}
		if q.find(); q.api == unserved {
			if r := unsupported(q.key, q.version); r != nil {
				require.NotEmpty(t, r.AppendTo(nil))
			}
			return
		}
		q.buffer.bytes = data
		var err error
		cost := allocated(func() { err = q.decode() })
		require.Less(t, cost, int64(len(data))*callCost+64<<10)
		if err == nil && q.request != nil {
			require.Equal(t, q.key, q.request.Key())
		}
	})
}
