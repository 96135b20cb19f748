package kafkaserver

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	scramclient "github.com/xdg-go/scram"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
)

// openWithUsers is a server that enforces rights, with the passwords of alice and bob.
func openWithUsers(t *testing.T) (*testServer, map[string]string) {
	d := openNew(t)
	g := guard.New(d.node, guard.Options{})
	passwords := map[string]string{}
	for _, user := range []string{"alice", "bob"} {
		var err error
		passwords[user], _, err = g.PutUser(t.Context(), verbs.Caller{}, user, "")
		require.NoError(t, err)
	}
	require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, []access.Grant{{Principal: "user/alice", Rights: access.Administer, On: access.OfCluster}}))
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, ""))
	return d, passwords
}

// loginBare logs in by version 0, whose messages are lengths and bytes. It reports whether each had an answer.
func (c *raw) loginBare(user, password string) bool {
	c.Helper()
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = guard.ScramSHA256
	c.send(handshake)
	r, _ := c.receive(handshake)
	require.Zero(c, r.(*kmsg.SASLHandshakeResponse).ErrorCode)
	require.Equal(c, guard.Mechanisms, r.(*kmsg.SASLHandshakeResponse).SupportedMechanisms)
	client, err := scramclient.SHA256.NewClient(user, password, "")
	require.NoError(c, err)
	conversation, said := client.NewConversation(), ""
	for {
		text, err := conversation.Step(said)
		require.NoError(c, err)
		if conversation.Done() {
			return true
		}
		_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		require.NoError(c, err)
		var prefix [4]byte
		if n, _ := c.Read(prefix[:]); n != len(prefix) {
			return false
		}
		answer := make([]byte, binary.BigEndian.Uint32(prefix[:]))
		_, err = c.Read(answer)
		require.NoError(c, err)
		said = string(answer)
	}
}

func TestALoginByVersion0HasMessagesWithoutHeaders(t *testing.T) {
	t.Parallel()
	d, passwords := openWithUsers(t)
	c := d.raw()
	require.True(t, c.loginBare("alice", passwords["alice"]))
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	require.Len(t, answerTo[*kmsg.MetadataResponse](c, q).Brokers, 1, "requests have headers again")

	wrong := d.raw()
	require.False(t, wrong.loginBare("alice", "not her password"), "the connection ends")

	none := d.raw()
	unknown := kmsg.NewPtrSASLHandshakeRequest()
	unknown.Mechanism = "GSSAPI"
	require.Equal(t, kerr.UnsupportedSaslMechanism.Code, answerTo[*kmsg.SASLHandshakeResponse](none, unknown).ErrorCode)
	require.True(t, none.loginBare("alice", passwords["alice"]), "it may use another mechanism")

	for name, sent := range map[string][]byte{"a length beyond all limits": {0x7f, 0xff, 0xff, 0xff}, "a long message": {0, 1, 0, 0}, "a request": new(raw).frame(q)} {
		c := d.raw()
		handshake := kmsg.NewPtrSASLHandshakeRequest()
		handshake.Mechanism = guard.ScramSHA256
		require.Zero(t, answerTo[*kmsg.SASLHandshakeResponse](c, handshake).ErrorCode)
		_, err := c.Write(sent)
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err, name)
	}
}

func TestALoginMayBeRepeatedByTheSameUserAlone(t *testing.T) {
	t.Parallel()
	d, passwords := openWithUsers(t)
	c := d.raw()
	c.login("alice", passwords["alice"])
	c.login("alice", passwords["alice"])
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	require.Len(t, answerTo[*kmsg.MetadataResponse](c, q).Brokers, 1)
	require.False(t, c.loginBare("bob", passwords["bob"]), "another user needs another connection")
}

func TestUsersAreListedForAdministrators(t *testing.T) {
	t.Parallel()
	d, passwords := openWithUsers(t)
	c := d.raw()
	c.login("alice", passwords["alice"])
	describe := func(names ...string) *kmsg.DescribeUserSCRAMCredentialsResponse {
		q := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, name := range names {
			q.Users = append(q.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
		}
		return answerTo[*kmsg.DescribeUserSCRAMCredentialsResponse](c, q)
	}
	r := describe()
	require.Len(t, r.Results, 2)
	require.Equal(t, "alice", r.Results[0].User)
	require.Len(t, r.Results[0].CredentialInfos, 2)
	for i, mechanism := range []int8{1, 2} {
		require.Equal(t, mechanism, r.Results[0].CredentialInfos[i].Mechanism)
		require.EqualValues(t, 15_000, r.Results[0].CredentialInfos[i].Iterations)
	}
	r = describe("carol", "bob")
	require.Equal(t, "bob", r.Results[0].User)
	require.Zero(t, r.Results[0].ErrorCode)
	require.Equal(t, kerr.ResourceNotFound.Code, r.Results[1].ErrorCode)
	require.Equal(t, kerr.DuplicateResource.Code, describe("bob", "bob").ErrorCode)
}

func TestClientsAreAskedForNoMetrics(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	q := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	r := answerTo[*kmsg.GetTelemetrySubscriptionsResponse](c, q)
	require.Zero(t, r.ErrorCode)
	require.Empty(t, r.RequestedMetrics)
	require.NotZero(t, r.ClientInstanceID)
	q.ClientInstanceID = r.ClientInstanceID
	require.Equal(t, q.ClientInstanceID, answerTo[*kmsg.GetTelemetrySubscriptionsResponse](c, q).ClientInstanceID)

	push := kmsg.NewPtrPushTelemetryRequest()
	push.ClientInstanceID, push.SubscriptionID, push.Metrics = r.ClientInstanceID, r.SubscriptionID, make([]byte, 1000)
	require.Zero(t, answerTo[*kmsg.PushTelemetryResponse](c, push).ErrorCode)
	push.SubscriptionID++
	require.Equal(t, kerr.UnknownSubscriptionID.Code, answerTo[*kmsg.PushTelemetryResponse](c, push).ErrorCode)
	push.ClientInstanceID = [16]byte{}
	require.Equal(t, kerr.InvalidRequest.Code, answerTo[*kmsg.PushTelemetryResponse](c, push).ErrorCode)
}

func TestResourcesWithSettingsAreListed(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 2)
	c := d.raw()
	list := func(version int16, kinds ...int8) (all []string, code int16) {
		q := kmsg.NewPtrListConfigResourcesRequest()
		q.Version, q.ResourceTypes = version, kinds
		r := answerTo[*kmsg.ListConfigResourcesResponse](c, q)
		for _, one := range r.ConfigResources {
			all = append(all, kmsg.ConfigResourceType(one.Type).String()+" "+one.Name)
		}
		return all, r.ErrorCode
	}
	all, code := list(1)
	require.Zero(t, code)
	require.Equal(t, []string{"TOPIC orders", "BROKER 1", "BROKER_LOGGER 1"}, all)
	all, _ = list(1, int8(kmsg.ConfigResourceTypeTopic))
	require.Equal(t, []string{"TOPIC orders"}, all)
	all, code = list(1, int8(kmsg.ConfigResourceTypeClientMetrics))
	require.Zero(t, code)
	require.Empty(t, all)
	_, code = list(1, 99)
	require.Equal(t, kerr.UnsupportedVersion.Code, code)
	all, code = list(0)
	require.Zero(t, code)
	require.Empty(t, all, "there are no subscriptions to metrics of clients")
}

func TestAMessageOfALoginAllocatesNothingByItsLength(t *testing.T) {
	d, passwords := openWithUsers(t)
	c := d.raw()
	c.login("alice", passwords["alice"])
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = guard.ScramSHA256
	require.Zero(t, answerTo[*kmsg.SASLHandshakeResponse](c, handshake).ErrorCode)
	require.Less(t, allocated(func() {
		_, err := c.Write(binary.BigEndian.AppendUint32(nil, MaxProduceBytes))
		require.NoError(t, err)
		c.closed()
	}), int64(1<<20))
}
