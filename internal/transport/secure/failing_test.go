package secure

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestAnAddressWhoseHandshakesFailIsSlowedDownAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failing{ofEach: map[netip.Prefix]*rate.Limiter{}}
		bad, good := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")
		for range 10 * failingRate {
			wait, ok := f.delay(bad)
			require.True(t, ok && wait == 0, "none has failed")
		}
		f.failed(bad)
		at := func(from netip.Prefix) (begin, waiting, refused int) {
			for range 10 * failingRate {
				switch wait, ok := f.delay(from); {
				case !ok:
					refused++
				case wait == 0:
					begin++
				default:
					waiting++
				}
			}
			return begin, waiting, refused
		}
		begin, waiting, refused := at(bad)
		require.Equal(t, failingRate, begin)
		require.Equal(t, failingRate, waiting, "as many as begin within a second")
		require.Equal(t, 8*failingRate, refused)
		begin, waiting, refused = at(good)
		require.Equal(t, []int{10 * failingRate, 0, 0}, []int{begin, waiting, refused})

		// It is forgotten when it is quiet, and at no time are there too many.
		time.Sleep(5 * time.Second)
		for i := range uint32(2 * maxFailing) {
			f.failed(netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, i+1<<24))), 32))
		}
		require.Len(t, f.ofEach, maxFailing)
		require.Nil(t, f.ofEach[bad])
		time.Sleep(sweepEvery)
		f.failed(bad)
		require.Len(t, f.ofEach, 1)
	})
}
