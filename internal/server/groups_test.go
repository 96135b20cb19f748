package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/client"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/transport/secure"
)

// Members of a group are Kafka's clients, and all that is asked about it is asked by gRPC of a node that does not
// coordinate it.
func TestGroupsAreSeenAndChangedByTheirRightsFromEveryNode(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	options := secured(t, a, t.TempDir(), "a", "b", "c")
	log := filepath.Join(t.TempDir(), "audit")
	for i := range options {
		options[i].AuditLog = fmt.Sprintf("%s-%d", log, i)
	}
	cluster, err := StartCluster(t.Context(), options)
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	alice := a.dial(t, cluster.Nodes[0].GRPC())
	defer alice.Close()
	admin := enforced(t, alice,
		client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append", "read", "create"}},
		client.Grant{Principal: "user/bob", Object: "group/bobs", Rights: []string{"read", "delete"}},
		client.Grant{Principal: "user/carol", Object: "log/orders", Rights: []string{"read"}},
		client.Grant{Principal: "user/carol", Object: "group/carols", Rights: []string{"read", "delete"}},
		client.Grant{Principal: "user/carol", Object: "group/bobs", Rights: []string{"observe"}},
	)
	heard(t, cluster.Nodes...)
	_, err = admin.CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(t, err)
	_, err = admin.CreateLog(t.Context(), "secrets", client.LogConfig{})
	require.NoError(t, err)
	groups, err := admin.ListGroups(t.Context())
	require.NoError(t, err)
	require.Empty(t, groups)

	member := func(user, group string) *kgo.Client {
		shown, err := secure.OpenClient(a.user(user))
		require.NoError(t, err)
		var seeds []string
		for _, n := range cluster.Nodes {
			seeds = append(seeds, n.Kafka())
		}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: shown.Client("127.0.0.1")}).DialContext(ctx, network, address)
		}
		k, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.Dialer(dial), kgo.ClientID(user+"s client"), kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"),
			kgo.DisableAutoCommit(), kgo.DefaultProduceTopic("orders"), kgo.HeartbeatInterval(50*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, err)
		t.Cleanup(k.Close)
		return k
	}
	bob := member("bob", "bobs")
	for range 5 {
		require.NoError(t, bob.ProduceSync(t.Context(), &kgo.Record{Value: []byte("x")}).FirstErr())
	}
	got := 0
	for got < 5 {
		fetched := bob.PollFetches(t.Context())
		require.NoError(t, fetched.Err())
		got += fetched.NumRecords()
	}
	require.NoError(t, bob.CommitUncommittedOffsets(t.Context()))
	require.NoError(t, bob.ProduceSync(t.Context(), &kgo.Record{Value: []byte("one more")}).FirstErr())

	// Every node answers, or names the one that does.
	for _, n := range cluster.Nodes {
		c := a.dial(t, n.GRPC())
		lags, err := c.Admin().GroupLag(t.Context(), "bobs")
		require.NoError(t, err)
		require.Len(t, lags, 1)
		require.Equal(t, []int64{5, 6, 1}, []int64{lags[0].Offset, lags[0].End, lags[0].Lag})
		require.NoError(t, c.Close())
	}
	d, err := admin.DescribeGroup(t.Context(), "bobs")
	require.NoError(t, err)
	status, err := admin.ClusterStatus(t.Context())
	require.NoError(t, err)
	for _, l := range status.Logs {
		if l.Name == backend.OffsetsLog {
			require.Equal(t, l.Leader, d.Coordinator)
		}
	}
	require.Equal(t, client.GroupInfo{Group: "bobs", State: "Stable", ProtocolType: "consumer", Size: 1, Principal: "user/bob"}, d.GroupInfo)
	require.Len(t, d.Members, 1)
	require.Equal(t, "bobs client", d.Members[0].ClientID)
	require.Equal(t, "user/bob", d.Members[0].Principal)
	require.Contains(t, d.Members[0].Host, "127.")
	require.Equal(t, []client.AssignedTopic{{Topic: "orders", Partitions: []int32{0}}}, d.Members[0].Assigned)

	as := func(user string) *client.Admin {
		f := a.user(user)
		c, err := client.Dial([]string{cluster.Nodes[1].GRPC()}, client.WithCertificates(f.Authority, f.Certificate, f.Key))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c.Admin()
	}
	first := []client.GroupOffset{{Topic: "orders", Offset: 0}}
	err = as("bob").SetGroupOffsets(t.Context(), "bobs", first)
	require.ErrorIs(t, err, client.ErrPrecondition)
	require.ErrorContains(t, err, `the consumer group "bobs" has members: stop them, or evict them, first`)
	require.ErrorIs(t, as("bob").DeleteGroup(t.Context(), "bobs"), client.ErrPrecondition)

	// Carol sees her own group, and of bob's what it does and not whose it is.
	carol := as("carol")
	require.NoError(t, carol.SetGroupOffsets(t.Context(), "carols", first))
	require.NoError(t, admin.SetGroupOffsets(t.Context(), "others", []client.GroupOffset{{Topic: "orders", Offset: 2}, {Topic: "secrets"}}))
	groups, err = carol.ListGroups(t.Context())
	require.NoError(t, err)
	require.Equal(t, []client.GroupInfo{
		{Group: "bobs", State: "Stable", ProtocolType: "consumer", Size: 1}, {Group: "carols", State: "Empty"},
	}, groups)
	d, err = carol.DescribeGroup(t.Context(), "bobs")
	require.NoError(t, err)
	require.Empty(t, d.Members[0].Principal)
	for what, err := range map[string]error{
		"reset bob's": carol.SetGroupOffsets(t.Context(), "bobs", first),
		"delete":      carol.DeleteGroup(t.Context(), "bobs"),
		"evict":       second(carol.EvictMembers(t.Context(), "bobs", "")),
		"describe":    second(carol.DescribeGroup(t.Context(), "others")),
		"lag":         second(carol.GroupLag(t.Context(), "others")),
		"a topic":     carol.SetGroupOffsets(t.Context(), "carols", []client.GroupOffset{{Topic: "secrets"}}),
		"see a topic": second(carol.GroupOffsets(t.Context(), "carols", "secrets")),
	} {
		require.ErrorIs(t, err, client.ErrPermissionDenied, what)
	}
	require.NoError(t, admin.Access().AddGrants(t.Context(), client.Grant{Principal: "user/carol", Object: "group/others", Rights: []string{"observe"}}))
	require.Eventually(t, func() bool {
		offsets, err := carol.GroupOffsets(t.Context(), "others")
		return err == nil && len(offsets) == 1 && offsets[0].Topic == "orders"
	}, time.Minute, time.Millisecond, "what it has committed of secrets is not hers to see")
	groups, err = admin.ListGroups(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"bobs of user/bob", "carols of user/carol", "others of user/alice"}, names(groups))

	// An administrator takes the member away, which comes back, until it has no rights.
	evicted, err := admin.EvictMembers(t.Context(), "bobs", d.Members[0].ID)
	require.NoError(t, err)
	require.Equal(t, 1, evicted)
	_, err = admin.EvictMembers(t.Context(), "bobs", d.Members[0].ID)
	require.ErrorIs(t, err, client.ErrPrecondition)
	bob.Close()
	require.Eventually(t, func() bool {
		_, err := admin.EvictMembers(t.Context(), "bobs", "")
		require.NoError(t, err)
		return admin.SetGroupOffsets(t.Context(), "bobs", []client.GroupOffset{{Topic: "orders", Offset: 3}}) == nil
	}, time.Minute, time.Millisecond)
	again := member("bob", "bobs")
	fetched := again.PollFetches(t.Context())
	require.NoError(t, fetched.Err())
	require.Equal(t, int64(3), fetched.Records()[0].Offset, "it goes on where it was reset to")
	again.Close()
	require.NoError(t, as("bob").DeleteGroup(t.Context(), "bobs"))
	_, err = admin.DescribeGroup(t.Context(), "bobs")
	require.ErrorIs(t, err, client.ErrPrecondition)

	var audited strings.Builder
	for i := range options {
		b, err := os.ReadFile(options[i].AuditLog)
		require.NoError(t, err)
		audited.Write(b)
	}
	for _, line := range []string{
		`"principal":"user/carol".*"verb":"set-group-offsets","object":"group/carols","outcome":"done"`,
		`"principal":"user/bob".*"verb":"set-group-offsets","object":"group/bobs","outcome":"failed"`,
		`"principal":"user/carol".*"verb":"evict-members","object":"group/bobs","outcome":"refused"`,
		`"principal":"user/alice".*"verb":"evict-members","object":"group/bobs","outcome":"done"`,
		`"principal":"user/bob".*"verb":"delete-group","object":"group/bobs","outcome":"done"`,
	} {
		require.Regexp(t, line, audited.String())
	}
}

func second[T any](_ T, err error) error { return err }

func names(groups []client.GroupInfo) (all []string) {
	for _, g := range groups {
		all = append(all, g.Group+" of "+g.Principal)
	}
	return all
}
