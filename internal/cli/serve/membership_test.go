package serve

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/settings"
)

// settled is what "serve" makes of flags about its cluster.
func settled(t *testing.T, grpc string, insecure bool, n settings.Options) (serveSettings, error) {
	t.Helper()
	given := grpc != ""
	if !given {
		grpc = terminal.DefaultGRPCAddress
	}
	n.Name = cmp.Or(n.Name, "a")
	s := serveSettings{grpc: grpc}
	s.Node, s.Insecure = n, insecure
	err := s.checkMembership(given)
	return s, err
}

func peersOf(t *testing.T, text string) map[string]string {
	t.Helper()
	var p peerFlag
	require.NoError(t, p.Set(text))
	require.Equal(t, text, p.String())
	return p
}

func TestANodeWithoutPeersFormsItsOwnCluster(t *testing.T) {
	s, err := settled(t, "", false, settings.Options{})
	require.NoError(t, err)
	require.True(t, s.options().Node.FormAlone)

	s, err = settled(t, "", false, settings.Options{Join: []string{"127.0.0.1:7171"}})
	require.NoError(t, err)
	require.False(t, s.options().Node.FormAlone, "it would be in two clusters")
}

func TestANodeListensWhereItsPeersExpectIt(t *testing.T) {
	peers := peersOf(t, "a=127.0.0.1:9001,b=127.0.0.1:9002")
	s, err := settled(t, "", false, settings.Options{Peers: peers})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:9001", s.grpc)
	o := s.options().Node
	require.Equal(t, "a", o.Name)
	require.Equal(t, "127.0.0.1:9001", o.GRPCAddress)
	require.Equal(t, peers, o.Peers)
	require.False(t, o.FormAlone)

	s, err = settled(t, "0.0.0.0:9001", true, settings.Options{Peers: peersOf(t, "a=10.0.0.5:9001,b=10.0.0.6:9001")})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.5:9001", s.options().Node.GRPCAddress, "a wildcard is no address for others")

	s, err = settled(t, "127.0.0.1:8000", false, settings.Options{Peers: peers, GRPCAddress: "127.0.0.1:9001"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:9001", s.options().Node.GRPCAddress)
}

func TestFlagsThatCannotWorkTogetherAreRefused(t *testing.T) {
	peers := peersOf(t, "a=127.0.0.1:9001,b=127.0.0.1:9002")
	for name, row := range map[string]struct {
		grpc string
		n    settings.Options
		want string
	}{
		"peers and join":     {"", settings.Options{Peers: peers, Join: []string{"127.0.0.1:1"}}, "give one of them"},
		"not among its own":  {"", settings.Options{Name: "c", Peers: peers}, "--node-name"},
		"another port":       {"127.0.0.1:7171", settings.Options{Peers: peers}, "--advertise"},
		"a wildcard to join": {"0.0.0.0:7171", settings.Options{Join: []string{"127.0.0.1:1"}}, "--advertise HOST:PORT"},
		"a bad name":         {"", settings.Options{Name: "a=b"}, "1 to 63 characters"},
		"a peer far away":    {"", settings.Options{Peers: map[string]string{"a": "127.0.0.1:9001", "b": "10.0.0.1:9001"}}, "on another machine"},
		"no port":            {"", settings.Options{Join: []string{"localhost"}}, "is not HOST:PORT"},
		"port 0":             {"", settings.Options{GRPCAddress: "127.0.0.1:0"}, "clients cannot connect"},
	} {
		_, err := settled(t, row.grpc, false, row.n)
		require.ErrorContains(t, err, row.want, name)
	}
}

func TestAListOfPeersIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"a":                    "is not NAME=HOST:PORT",
		"a=1:1,a=1:2":          "a is given twice",
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

func TestATokenComesFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(" the-token\n"), 0o600))
	read := func(change func(*serveSettings)) error {
		s := &serveSettings{joinTokenFile: path}
		s.Node.Name, s.Node.Join, s.Node.GRPCAddress = "d", []string{"127.0.0.1:7171"}, "127.0.0.1:7174"
		change(s)
		return s.checkMembership(false)
	}
	s := &serveSettings{joinTokenFile: path}
	require.NoError(t, s.readJoinToken())
	require.Equal(t, "the-token", s.Node.JoinToken)
	for text, change := range map[string]func(*serveSettings){
		"both give the token": func(s *serveSettings) { s.Node.JoinToken = "another" },
		"need --join":         func(s *serveSettings) { s.Node.Join = nil },
		"no such file":        func(s *serveSettings) { s.joinTokenFile = path + ".none" },
		"is empty":            func(s *serveSettings) { s.joinTokenFile = os.DevNull },
	} {
		require.ErrorContains(t, read(change), text)
	}
	require.NoError(t, read(func(*serveSettings) {}))
}
