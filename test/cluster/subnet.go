package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// subnet is 127.7.number.0/24, of which every cluster has one: node N serves on
// host N, and host 200 is the network between them. Clusters of other tests and
// other processes are kept off by a port that is listened on while the cluster
// lives, so at most 254 clusters run on a machine at once.
type subnet struct {
	number int
	claim  net.Listener
}

const (
	networkHost = 200
	claimHost   = 254
	claimPort   = 7170
)

func claimSubnet() (subnet, error) {
	first := rand.IntN(254)
	for i := range 254 {
		number := 1 + (first+i)%254
		claim, err := net.Listen("tcp", fmt.Sprintf("127.7.%d.%d:%d", number, claimHost, claimPort))
		if err == nil {
			return subnet{number, claim}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return subnet{}, err
		}
	}
	return subnet{}, errors.New("all 254 networks under 127.7 are taken by other clusters")
}

func (s subnet) address(host, port int) string {
	return fmt.Sprintf("127.7.%d.%d:%d", s.number, host, port)
}

func (s subnet) release() { _ = s.claim.Close() }
