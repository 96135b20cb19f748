package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// settled is what "serve" makes of flags about its cluster.
func settled(t *testing.T, grpc string, insecure bool, m membership) (serveSettings, error) {
	t.Helper()
	given := grpc != ""
	if !given {
		grpc = defaultGRPCAddress
	}
	if m.name == "" {
		m.name = "a"
	}
	s := serveSettings{grpc: grpc, membership: m}
	err := s.settleMembership(given, insecure)
	return s, err
}

func peersOf(t *testing.T, text string) peerFlag {
	t.Helper()
	var p peerFlag
	require.NoError(t, p.Set(text))
	require.Equal(t, text, p.String())
	return p
}

func TestANodeWithoutPeersFormsItsOwnCluster(t *testing.T) {
	s, err := settled(t, "", false, membership{})
	require.NoError(t, err)
	require.True(t, s.options(defaultGRPCAddress).FormAlone)

	s, err = settled(t, "", false, membership{join: []string{"127.0.0.1:7171"}})
	require.NoError(t, err)
	require.False(t, s.options(defaultGRPCAddress).FormAlone, "it would be in two clusters")
}

func TestANodeListensWhereItsPeersExpectIt(t *testing.T) {
	peers := peersOf(t, "a=127.0.0.1:9001,b=127.0.0.1:9002")
	s, err := settled(t, "", false, membership{peers: peers})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:9001", s.grpc)
	o := s.options("127.0.0.1:9001")
	require.Equal(t, "a", o.Name)
	require.Equal(t, "127.0.0.1:9001", o.GRPCAddress)
	require.Equal(t, map[string]string(peers), o.Peers)
	require.False(t, o.FormAlone)

	s, err = settled(t, "0.0.0.0:9001", true, membership{peers: peersOf(t, "a=10.0.0.5:9001,b=10.0.0.6:9001")})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.5:9001", s.options("[::]:9001").GRPCAddress, "a wildcard is nothing to tell others")

	s, err = settled(t, "127.0.0.1:8000", false, membership{peers: peers, advertise: "127.0.0.1:9001"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:9001", s.options("127.0.0.1:8000").GRPCAddress)
}

func TestFlagsThatCannotWorkTogetherAreRefused(t *testing.T) {
	peers := peersOf(t, "a=127.0.0.1:9001,b=127.0.0.1:9002")
	for name, row := range map[string]struct {
		grpc string
		m    membership
		want string
	}{
		"peers and join":     {"", membership{peers: peers, join: []string{"127.0.0.1:1"}}, "give one of them"},
		"not among its own":  {"", membership{name: "c", peers: peers}, "--node-name"},
		"another port":       {"127.0.0.1:7171", membership{peers: peers}, "--advertise"},
		"a wildcard to join": {"0.0.0.0:7171", membership{join: []string{"127.0.0.1:1"}}, "--advertise HOST:PORT"},
		"a bad name":         {"", membership{name: "a=b"}, "1 to 63 characters"},
		"a peer far away":    {"", membership{peers: peerFlag{"a": "127.0.0.1:9001", "b": "10.0.0.1:9001"}}, "beyond this machine"},
		"no port":            {"", membership{join: []string{"localhost"}}, "is not HOST:PORT"},
		"port 0":             {"", membership{advertise: "127.0.0.1:0"}, "nobody can connect"},
	} {
		_, err := settled(t, row.grpc, false, row.m)
		require.ErrorContains(t, err, row.want, name)
	}
}

func TestAListOfPeersIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"a":                    "is not NAME=HOST:PORT",
		"a=1:1,a=1:2":          "a is there twice",
		"a=1:1,b=1:1":          "a and b are both at 1:1",
		"a b=127.0.0.1:1":      "1 to 63 characters",
		"a=127.0.0.1:1,":       "is not NAME=HOST:PORT",
		"=127.0.0.1:1,b=1:1":   "1 to 63 characters",
		"a=127.0.0.1:1,,b=1:2": "is not NAME=HOST:PORT",
	} {
		var p peerFlag
		require.ErrorContains(t, p.Set(text), want, text)
	}
}
