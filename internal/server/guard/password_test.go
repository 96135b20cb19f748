package guard

import (
	"net"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/xdg-go/scram"

	"strandline.dev/internal/budget"

	"strandline.dev/internal/transport/secure"
)

// One address that sends many passwords delays the login of another by one of them.
func TestPasswordsAreComparedAddressByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{logins: logins{deriving: budget.NewTurns(1)}}
		require.NoError(t, g.logins.deriving.Acquire(t.Context(), "held"))
		done := make(chan string, 10)
		compare := func(from net.Addr) {
			go func() {
				_, err := g.deriveWith(t.Context(), secure.Whereabouts(from), ScramSHA256, "secret", scram.KeyFactors{Salt: "0123456789abcdef", Iters: 4096})
				if err == nil {
					done <- secure.Whereabouts(from)
				}
			}()
			synctest.Wait()
		}
		for port := range 8 {
			compare(&net.TCPAddr{IP: net.ParseIP("10.0.0.7"), Port: 1000 + port})
		}
		compare(&net.TCPAddr{IP: net.ParseIP("10.0.0.8"), Port: 1})
		g.logins.deriving.Release()
		order := map[string]int{}
		for i := range 9 {
			if from := <-done; from == "10.0.0.8/32" {
				order[from] = i
			}
		}
		require.Contains(t, order, "10.0.0.8/32")
		require.LessOrEqual(t, order["10.0.0.8/32"], 2, strconv.Itoa(order["10.0.0.8/32"]))
	})
}
