package server

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// as is a client with the certificate of a user.
func (a *authority) as(t *testing.T, user string, addresses ...string) *client.Client {
	t.Helper()
	f := a.user(user)
	c, err := client.Dial(addresses, client.WithCertificates(f.Authority, f.Certificate, f.Key), client.WithRetryTime(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestAClusterThatBeginsSecuredRefusesAllButItsAdministrator(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	var nodes []*Server
	var addresses []string
	for _, o := range secured(t, a, t.TempDir(), "a", "b", "c") {
		o.Node.Administrator = "user/root"
		n, err := Start(o)
		require.NoError(t, err)
		nodes, addresses = append(nodes, n), append(addresses, n.GRPC())
	}
	root, bob := a.as(t, "root", addresses[1]).Admin(), a.as(t, "bob", addresses...).Admin()

	_, err := bob.InitCluster(t.Context())
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	require.ErrorContains(t, err, "only user/root may form the cluster")
	formed, err := root.InitCluster(t.Context())
	require.NoError(t, err)
	require.False(t, formed.Existed)
	require.Eventually(t, func() bool { // forming waits for them, but not for ever
		s, err := root.ClusterStatus(t.Context())
		return err == nil && len(s.Nodes) == len(nodes)
	}, time.Minute, time.Millisecond)
	heard(t, nodes...)
	_, err = bob.CreateLog(t.Context(), "orders", client.LogConfig{})
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	_, err = root.CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	grants, on, err := root.Access().ListGrants(t.Context())
	require.NoError(t, err)
	require.True(t, on)
	require.Equal(t, []client.Grant{{Principal: "user/root", Object: "cluster", Rights: []string{"administer"}}}, grants)
	for _, n := range nodes {
		require.NoError(t, n.Close())
	}
}

func TestANodeThatBeginsSecuredAloneIsItsAdministrators(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials, o.Node.Administrator = "a", a.credentials("a"), "user/root"
	n, err := Start(o)
	require.NoError(t, err)
	require.True(t, n.enforced())
	_, err = a.as(t, "bob", n.GRPC()).Admin().ListLogs(t.Context(), false)
	require.NoError(t, err)
	_, err = a.as(t, "bob", n.GRPC()).Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.ErrorIs(t, err, client.ErrPermissionDenied)
	_, err = a.as(t, "root", n.GRPC()).Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	require.NoError(t, n.Close())
}

func TestANodeOfAnOpenClusterThatOthersReachSaysSo(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	directory := t.TempDir()
	for round, administrator := range []string{"", "user/root"} { // it was formed on loopback, and moves
		o := alone(t, directory)
		logged := &written{}
		o.Node.Name, o.Credentials, o.Node.Administrator, o.Node.Logger = "a", a.credentials("a"), administrator, slog.New(slog.NewTextHandler(logged, nil))
		n, err := Start(o)
		require.NoError(t, err)
		require.False(t, n.enforced(), "what runs is changed by nobody")
		says := func() bool {
			logged.mu.Lock()
			defer logged.mu.Unlock()
			return strings.Contains(logged.String(), "strandline grant enforce")
		}
		if round == 1 {
			require.Eventually(t, says, time.Minute, time.Millisecond)
		}
		require.NoError(t, n.Close())
		require.Equal(t, round == 1, says())
	}
}

func TestANodeThatHasNotHeardWhoMayDoWhatSaysSoAndRefuses(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	directory := t.TempDir()
	cluster, err := StartCluster(t.Context(), secured(t, a, directory, "a", "b", "c"))
	require.NoError(t, err)
	require.NoError(t, cluster.Close())
	again := secured(t, a, directory, "a", "b", "c")
	again[2].CloseListeners()
	first, err := Start(again[0])
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()
	f := a.user("alice")
	hasty, err := client.Dial([]string{first.GRPC()}, client.WithCertificates(f.Authority, f.Certificate, f.Key), client.WithRetryTime(0))
	require.NoError(t, err)
	defer hasty.Close()
	_, err = hasty.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.ErrorContains(t, err, "does not know yet who may do what")
	require.ErrorContains(t, err, "start those")
	metrics := func(who string) (int, string) {
		files := a.user(who)
		if who == "node" {
			files = a.node("a")
		}
		code, text, err := a.get(t, first.HTTP(), "/metrics", files)
		require.NoError(t, err)
		return code, text
	}
	code, text := metrics("alice")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "does not know yet who may do what")
	code, _ = metrics("node")
	require.Equal(t, http.StatusOK, code, "who looks for the reason is not kept out")

	second, err := Start(again[1])
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	require.Eventually(t, func() bool { code, _ := metrics("alice"); return code == http.StatusOK }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := hasty.Admin().ListLogs(t.Context(), false)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}
