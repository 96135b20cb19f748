package kafkaserver

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/test/corpus"
)

// Random requests of every kind and version that is announced: the layout walks
// over each exactly, and over nothing that is cut short.
func TestLayoutsAreThoseOfEveryVersionThatIsServed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, a := range apis {
		for version := a.min; version <= a.max; version++ {
			for range 50 {
				q := kmsg.RequestForKey(a.key)
				fillRandom(random, reflect.ValueOf(q).Elem(), 0)
				q.SetVersion(version)
				data := q.AppendTo(nil)
				rest, _, err := a.layout.Check(data, version, q.IsFlexible())
				require.NoError(t, err, "%s version %d", a.name, version)
				require.Empty(t, rest, "%s version %d", a.name, version)
				if len(data) > 0 {
					cut := data[:random.IntN(len(data))]
					_, _, err := a.layout.Check(cut, version, q.IsFlexible())
					require.Error(t, err, "%s version %d, cut", a.name, version)
				}
			}
		}
	}
}

// fillRandom sets every field that can be set.
func fillRandom(random *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if tags, ok := v.Field(i).Addr().Interface().(*kmsg.Tags); ok {
				for range random.IntN(3) {
					tags.Set(uint32(1000+random.IntN(1000)), make([]byte, random.IntN(200)))
				}
			} else if v.Field(i).CanSet() {
				fillRandom(random, v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillRandom(random, v.Elem(), depth)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(4), 4))
		for i := range v.Len() {
			fillRandom(random, v.Index(i), depth)
		}
	case reflect.String:
		v.SetString(string(make([]byte, random.IntN(150))))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(random.Uint64()))
	case reflect.Uint8:
		v.SetUint(uint64(random.IntN(256)))
	}
}

func TestTheTableOfRequestsIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/kafka.md")
	require.NoError(t, err)
	for _, a := range apis {
		name := a.name
		if name == "InitProducerID" {
			name = "InitProducerId"
		}
		row := fmt.Sprintf("\n| %s | %d-%d |", name, a.min, a.max)
		require.True(t, strings.Contains(string(text), row), row)
	}
}

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
