package server

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"golang.org/x/net/http2"

	"strandline.dev/client"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/transport/secure"
)

// asNode is a client with the certificate of a node.
func (a *authority) asNode(t *testing.T, name string, addresses ...string) *client.Client {
	t.Helper()
	f := a.node(name)
	c, err := client.Dial(addresses, client.WithCertificates(f.Authority, f.Certificate, f.Key), client.WithRetryTime(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestTheCertificateOfARemovedNodeMayDoNothing(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	options := secured(t, a, t.TempDir(), "a", "b")
	for i := range options {
		options[i].Kafka = listen(t)
	}
	cluster, err := StartCluster(t.Context(), options)
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	stays, goes := cluster.Nodes[0], cluster.Nodes[1]
	alice := a.dial(t, stays.GRPC())
	defer alice.Close()
	admin := enforced(t, alice, client.Grant{Principal: "*", Object: "log/*", Rights: []string{"read"}})
	heard(t, stays)
	_, err = admin.CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 1})
	require.NoError(t, err)
	info, err := admin.Info(t.Context(), "orders")
	require.NoError(t, err)
	if info.Leader != stays.GRPC() {
		stays, goes = goes, stays
	}
	alice = a.dial(t, stays.GRPC())
	defer alice.Close()
	admin = alice.Admin()

	former := a.asNode(t, goes.Name(), stays.GRPC())
	_, err = former.Admin().ClusterStatus(t.Context())
	require.NoError(t, err, "as long as it is a member")
	reader, err := former.Reader(t.Context(), "orders", client.WithStartOffset(0), client.WithFollow())
	require.NoError(t, err)
	defer reader.Close()
	p, err := alice.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("one"))
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	_, err = reader.Next(t.Context())
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := reader.Next(t.Context())
		ended <- err
	}()
	files := a.node(goes.Name())
	credentials, err := secure.OpenClient(files)
	require.NoError(t, err)
	kafka, err := kgo.NewClient(kgo.SeedBrokers(stays.Kafka()), kgo.DialTLSConfig(credentials.Client("127.0.0.1")), kgo.RequestRetries(0))
	require.NoError(t, err)
	defer kafka.Close()
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), kafka)
	require.NoError(t, err)
	held, err := tls.Dial("tcp", stays.Kafka(), credentials.Client("127.0.0.1"))
	require.NoError(t, err)
	defer held.Close()
	answered, _ := askKafka(t, held, kmsg.NewPtrApiVersionsRequest())
	require.True(t, answered)
	idle, err := tls.Dial("tcp", stays.GRPC(), credentials.Client("127.0.0.1"))
	require.NoError(t, err)
	defer idle.Close()
	_, err = io.WriteString(idle, http2.ClientPreface)
	require.NoError(t, err)
	require.NoError(t, http2.NewFramer(idle, nil).WriteSettings())
	looked, err := tls.Dial("tcp", stays.HTTP(), credentials.Client("127.0.0.1"))
	require.NoError(t, err)
	defer looked.Close()
	_, err = io.WriteString(looked, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	shown, err := http.ReadResponse(bufio.NewReader(looked), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, shown.StatusCode)
	_, err = io.Copy(io.Discard, shown.Body)
	require.NoError(t, err)

	status, err := admin.ClusterStatus(t.Context())
	require.NoError(t, err)
	var id uint64
	for _, n := range status.Nodes {
		if n.Name == goes.Name() {
			id = n.ID
		}
	}
	ask, err := json.Marshal("orders")
	require.NoError(t, err)
	answers := stays.node.Answers
	_, err = answers.Answer(t.Context(), id, peers.AskStatus, ask)
	require.NoError(t, err)
	entries := []byte(`{"log":0}`)
	reply, err := answers.Answer(t.Context(), id, peers.AskEntries, entries)
	if err == nil {
		err = peers.Unwrap(reply, nil)
	}
	require.NotContains(t, fmt.Sprint(err), "removed")

	require.NoError(t, admin.RemoveNode(t.Context(), goes.Name()))
	require.Eventually(t, func() bool {
		s, err := admin.ClusterStatus(t.Context())
		return err == nil && len(s.Nodes) == 1
	}, time.Minute, 10*time.Millisecond)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, client.ErrUnauthenticated)
	case <-time.After(time.Minute):
		require.Fail(t, "a stream that is open does not end")
	}
	_, err = former.Admin().ClusterStatus(t.Context())
	require.ErrorIs(t, err, client.ErrUnauthenticated)
	require.ErrorIs(t, former.Admin().Access().EnforceRights(t.Context(), false, ""), client.ErrUnauthenticated)
	_, err = former.Admin().CreateLog(t.Context(), "more", client.LogConfig{})
	require.ErrorIs(t, err, client.ErrUnauthenticated)
	code, _, err := a.get(t, stays.HTTP(), "/metrics", files)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, code)
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "more", 1, 1
	create.Topics = append(create.Topics, topic)
	_, err = create.RequestWith(t.Context(), kafka)
	require.Error(t, err, "a connection ends at once")
	_, err = held.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "one that was open ends")
	for port, conn := range map[string]net.Conn{"gRPC": idle, "HTTP": looked} {
		require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
		_, err = io.Copy(io.Discard, conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "an idle one of %s ends", port)
	}
	reply, err = answers.Answer(t.Context(), id, peers.AskEntries, entries)
	require.NoError(t, err)
	require.ErrorContains(t, peers.Unwrap(reply, nil), "was removed from the cluster", "it reads no more entries")
	reply, err = answers.Answer(t.Context(), id, peers.AskStatus, ask)
	require.NoError(t, err)
	require.ErrorContains(t, peers.Unwrap(reply, nil), "was removed from the cluster", "a connection between nodes that is still open")
}

func TestAnOldPasswordEndsTheConnectionsThatProvedIt(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials, o.Kafka = "a", a.credentials("a"), listen(t)
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	may := client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append"}}
	admin := enforced(t, alice, may)
	rules, _ := n.node.Rules()
	require.NotEmpty(t, rules.List().Secret, "all nodes say the same of users that there are not")
	files, err := secure.OpenClient(secure.Files{Authority: filepath.Join(a.dir, "ca.crt")})
	require.NoError(t, err)
	removeAndAdd := func() {
		require.NoError(t, admin.Access().RemoveUser(t.Context(), "bob"))
		_, _, err := admin.Access().PutUser(t.Context(), "bob", "another password")
		require.NoError(t, err)
		require.NoError(t, admin.Access().AddGrants(t.Context(), may))
	}
	change := func() {
		_, existed, err := admin.Access().PutUser(t.Context(), "bob", "another password")
		require.NoError(t, err)
		require.True(t, existed)
	}
	for name, evict := range map[string]func(){"removed and added": removeAndAdd, "another password": change} {
		password, _, err := admin.Access().PutUser(t.Context(), "bob", "")
		require.NoError(t, err)
		for _, mechanism := range []sasl.Mechanism{scram.Auth{User: "bob", Pass: password}.AsSha512Mechanism(), plain.Auth{User: "bob", Pass: password}.AsMechanism()} {
			c, err := kgo.NewClient(kgo.SeedBrokers(n.Kafka()), kgo.SASL(mechanism), kgo.DialTLSConfig(files.Client("127.0.0.1")), kgo.RetryTimeout(time.Second))
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
			evict()
			began := time.Now()
			require.Eventually(t, func() bool { // it connects again, and cannot prove the new one
				return errors.Is(c.Ping(t.Context()), kerr.SaslAuthenticationFailed)
			}, time.Minute, time.Millisecond, name)
			t.Logf("%s: evicted after %v", name, time.Since(began))
			_, _, err = admin.Access().PutUser(t.Context(), "bob", password)
			require.NoError(t, err)
		}
	}
}
