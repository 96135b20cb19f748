package kafkaserver

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Random requests of every kind and version that is announced: the layout walks
// over each exactly, and over nothing that is cut short.
func TestLayoutsAreThoseOfEveryVersionThatIsServed(t *testing.T) {
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
