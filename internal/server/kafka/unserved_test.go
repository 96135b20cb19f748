package kafkaserver

import (
	"crypto/tls"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that does not ask which versions there are would see its connection end.
func TestWhatIsNotServedIsRefusedWithAnErrorWhereTheAnswerHasAPlaceForOne(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	versions := ask[*kmsg.ApiVersionsResponse](d, kmsg.NewPtrApiVersionsRequest())
	i := slices.IndexFunc(versions.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == kmsg.SASLHandshake.Int16() })
	require.Zero(t, versions.ApiKeys[i].MinVersion, "librdkafka before 2.9 has no SASL without it")
	txn := kmsg.NewPtrAddOffsetsToTxnRequest()
	txn.Version = 3
	c.send(txn)
	r, _ := c.receive(txn)
	require.Equal(t, kerr.UnsupportedVersion.Code, r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)

	// Nothing can be said where the version is not known, or has no such field.
	for _, version := range []int16{3, 99} {
		c := d.raw()
		_, err := c.Write(framed(header(fetchKey, version)))
		require.NoError(t, err)
		c.closed()
	}
	require.EqualValues(t, 1, d.receivedUnserved())
}

// Where the newer group protocol is announced and refused, clients that could go back to the
// classic one die.
func TestTheNewerGroupProtocolIsNotAnnounced(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	versions := ask[*kmsg.ApiVersionsResponse](d, kmsg.NewPtrApiVersionsRequest())
	require.NotEmpty(t, versions.ApiKeys)
	for _, k := range versions.ApiKeys {
		require.NotEqual(t, kmsg.ConsumerGroupHeartbeat.Int16(), k.ApiKey)
	}
	// A client that does not look at the versions gets an error.
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group = 1, "billing"
	require.Equal(t, kerr.UnsupportedVersion.Code, ask[*kmsg.ConsumerGroupHeartbeatResponse](d, q).ErrorCode)
}

func TestAClientThatSpeaksTLSGetsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	_, err := tls.Dial("tcp", d.address, &tls.Config{InsecureSkipVerify: true})
	require.ErrorContains(t, err, "protocol version")
}
