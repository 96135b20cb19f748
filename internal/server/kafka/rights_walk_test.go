package kafkaserver

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	scramclient "github.com/xdg-go/scram"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// needs are all kinds of requests that are served, each with the right that it needs, and on
// what: a log, a group or the cluster. "any" is what everybody may ask who has proved who
// it is, since the answer has only what the client may see, and "anybody" comes before that.
var needs = map[kmsg.Key]string{
	kmsg.Produce: "append log", kmsg.Fetch: "read log", kmsg.ListOffsets: "observe log", kmsg.Metadata: "observe log",
	kmsg.OffsetForLeaderEpoch: "observe log", kmsg.DescribeTopicPartitions: "observe log", kmsg.DescribeProducers: "observe log", kmsg.DescribeConfigs: "observe log",
	kmsg.InitProducerID: "append log", kmsg.DeleteRecords: "trim log", kmsg.CreateTopics: "create log", kmsg.DeleteTopics: "delete log",
	kmsg.CreatePartitions: "configure log", kmsg.AlterConfigs: "configure log", kmsg.IncrementalAlterConfigs: "configure log",

	kmsg.FindCoordinator: "observe group", kmsg.DescribeGroups: "observe group",
	kmsg.JoinGroup: "read group", kmsg.SyncGroup: "read group", kmsg.Heartbeat: "read group", kmsg.LeaveGroup: "read group",
	kmsg.DeleteGroups: "delete group", kmsg.OffsetDelete: "delete group",
	kmsg.OffsetFetch: "observe both", kmsg.OffsetCommit: "read both",

	kmsg.DescribeQuorum: "observe cluster", kmsg.ListPartitionReassignments: "observe cluster", kmsg.DescribeLogDirs: "observe cluster", kmsg.ElectLeaders: "administer cluster",
	kmsg.DescribeACLs: "administer cluster", kmsg.CreateACLs: "administer cluster", kmsg.DeleteACLs: "administer cluster",
	kmsg.DescribeUserSCRAMCredentials: "administer cluster",
	kmsg.DescribeClientQuotas:         "administer cluster", kmsg.AlterClientQuotas: "administer cluster",

	kmsg.DescribeCluster: "any", kmsg.ListGroups: "any", kmsg.ListConfigResources: "any",
	kmsg.GetTelemetrySubscriptions: "any", kmsg.PushTelemetry: "any",
	kmsg.ApiVersions: "anybody", kmsg.SASLHandshake: "anybody", kmsg.SASLAuthenticate: "anybody",
}

// clients have one right each.
var clients = []string{
	"append log", "read log", "trim log", "configure log", "create log", "delete log", "observe log",
	"read group", "delete group", "observe group", "create cluster", "delete cluster", "observe cluster", "administer cluster",
}

func allows(client, need string) bool {
	right, on, _ := strings.Cut(client, " ")
	needed, object, _ := strings.Cut(need, " ")
	switch {
	case right == "administer" || object == "":
		return true
	case object == "both": // the log and the group
		return on == "cluster" && right == needed
	case needed == "observe" && object != "cluster":
		return on == object || client == "observe cluster" // whatever is granted on an object includes it
	}
	return right == needed && (on == object || on == "cluster")
}

// about is a request of a kind that names a topic and a group that there are not. Where a topic is named by its id,
// it is one that there is.
func about(t *testing.T, key kmsg.Key, newest int16, present [16]byte) kmsg.Request {
	const absent = "absent"
	q := kmsg.RequestForKey(key.Int16())
	q.SetVersion(newest)
	fillNames(reflect.ValueOf(q).Elem(), absent, present, 0)
	switch q := q.(type) {
	case *kmsg.ProduceRequest:
		var b record.Builder
		b.Reset(nil)
		require.NoError(t, b.Add(record.Record{Value: []byte("x")}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		q = produceRequest(absent, acksAll, batch)
		q.Version, q.Topics[0].TopicID = newest, present
		return q
	case *kmsg.FetchRequest:
		q = fetchRequest(newest, 0, 1, 1, 0, absent)
		q.Topics[0].TopicID = present
		return q
	case *kmsg.InitProducerIDRequest:
		q.TransactionalID = nil
	case *kmsg.OffsetCommitRequest:
		q.MemberID, q.InstanceID, q.Generation = "", nil, -1 // as a client commits that is no member
	case *kmsg.FindCoordinatorRequest:
		q.CoordinatorKeys = []string{absent}
	case *kmsg.CreateTopicsRequest:
		q.ValidateOnly = true
		q.Topics[0].NumPartitions, q.Topics[0].ReplicationFactor = 1, 1
		q.Topics[0].ReplicaAssignment, q.Topics[0].Configs = nil, nil
	case *kmsg.CreatePartitionsRequest:
		q.Topics[0].Count = 2
	case *kmsg.DeleteTopicsRequest:
		q.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: new(absent)}}
	case *kmsg.DescribeConfigsRequest:
		q.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.AlterConfigsRequest:
		q.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.IncrementalAlterConfigsRequest:
		q.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.CreateACLsRequest:
		q.Creations = []kmsg.CreateACLsRequestCreation{creation("User:x", kmsg.ACLResourceTypeTopic, absent, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationRead)}
	case *kmsg.JoinGroupRequest:
		q.MemberID, q.ProtocolType, q.SessionTimeoutMillis, q.InstanceID = "", "consumer", 10_000, nil
	case *kmsg.SASLHandshakeRequest:
		q.Mechanism = guard.ScramSHA256
	}
	return q
}

// fillNames gives every field that is a name or an id of a topic one, and every list an element.
func fillNames(v reflect.Value, name string, id [16]byte, depth int) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i).Name
		switch {
		case depth > 4 || !f.CanSet() || field == "UnknownTags":
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			if d, ok := f.Index(0).Addr().Interface().(interface{ Default() }); ok {
				d.Default()
			}
			fillNames(f.Index(0), name, id, depth+1)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String:
			f.Set(reflect.ValueOf([]string{name}).Convert(f.Type()))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Int32:
			f.Set(reflect.ValueOf([]int32{0}))
		case field == "TopicID":
			f.Set(reflect.ValueOf(id))
		case field == "Topic" && f.Kind() == reflect.Pointer:
			f.Set(reflect.ValueOf(&name))
		case f.Kind() == reflect.String:
			f.SetString(name)
		}
	}
}

// denied reports whether an answer has a code that says that the client has no right, or may not know a topic that
// there is.
func denied(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && denied(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if denied(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).Name == "ErrorCode" {
				switch int16(f.Int()) {
				case kerr.TopicAuthorizationFailed.Code, kerr.GroupAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code, kerr.UnknownTopicID.Code:
					return true
				}
			} else if denied(f) {
				return true
			}
		}
	}
	return false
}

// login proves a password by SCRAM.
func (c *raw) login(user, password string) {
	c.Helper()
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, guard.ScramSHA256
	c.send(handshake)
	r, _ := c.receive(handshake)
	require.Zero(c, r.(*kmsg.SASLHandshakeResponse).ErrorCode)
	client, err := scramclient.SHA256.NewClient(user, password, "")
	require.NoError(c, err)
	conversation, said := client.NewConversation(), ""
	for !conversation.Done() {
		text, err := conversation.Step(said)
		require.NoError(c, err)
		if conversation.Done() {
			break
		}
		q := kmsg.NewPtrSASLAuthenticateRequest()
		q.Version, q.SASLAuthBytes = 2, []byte(text)
		c.send(q)
		r, _ := c.receive(q)
		require.NoError(c, kerr.ErrorForCode(r.(*kmsg.SASLAuthenticateResponse).ErrorCode))
		said = string(r.(*kmsg.SASLAuthenticateResponse).SASLAuthBytes)
	}
}

// Every kind of request that is served, by a client of one right each, and by one that has
// not logged in: a kind that is not in the list above fails the test.
func TestEveryKafkaRequestNeedsTheRightThatIsWrittenHere(t *testing.T) {
	t.Parallel()
	require.Len(t, needs, len(apis))
	d := openNew(t)
	g := guard.New(d.node, guard.Options{})
	passwords := map[string]string{}
	for _, client := range clients {
		user := strings.ReplaceAll(client, " ", "-")
		right, on, _ := strings.Cut(client, " ")
		rights, err := access.ParseRights([]string{right})
		require.NoError(t, err)
		grant := access.Grant{Principal: access.OfUser(user), On: access.Object{Kind: access.Kind(on), Prefix: on != "cluster"}, Rights: rights}
		require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, []access.Grant{grant}))
		passwords[client], _, err = g.PutUser(t.Context(), verbs.Caller{}, user, "")
		require.NoError(t, err)
	}
	d.create("present", 1)
	present := d.idOf("present")
	d.raw().coordinated() // who may not do so does not create the log of the offsets
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, ""))

	for key, need := range needs {
		api := apis[key.Int16()]
		require.NotNil(t, api, "%s is not served", key.Name())
		q := about(t, key, api.max, present)
		nobody := d.raw()
		nobody.send(q)
		if need == "anybody" {
			nobody.receiveBytes()
		} else {
			nobody.closed()
		}
	}
	for _, client := range clients {
		c := d.raw()
		c.login(strings.ReplaceAll(client, " ", "-"), passwords[client])
		for key, need := range needs {
			if need == "anybody" {
				continue
			}
			q := about(t, key, apis[key.Int16()].max, present)
			c.send(q)
			r, _ := c.receive(q)
			require.Equal(t, !allows(client, need), denied(reflect.ValueOf(r)), "%s by who may %s: %+v", key.Name(), client, r)
		}
	}
}

// A batch that the client may not append is not inflated: that would wait for a turn here
// which never comes.
func TestABatchThatAClientMayNotAppendIsNotInflated(t *testing.T) {
	t.Parallel()
	memory := budget.New(DefaultMemory)
	d := open(t, t.TempDir(), Options{Memory: memory})
	d.create("orders", 1)
	g := guard.New(d.node, guard.Options{})
	require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, []access.Grant{{Principal: "user/bob", On: access.OfLog("orders"), Rights: access.Read}}))
	password, _, err := g.PutUser(t.Context(), verbs.Caller{}, "bob", "")
	require.NoError(t, err)
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	for memory.Inflate.Free() > 0 {
		require.NoError(t, memory.Inflate.Acquire(t.Context(), "somebody else"))
		t.Cleanup(memory.Inflate.Release)
	}
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: make([]byte, 1<<20)}))
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	c := d.raw()
	c.login("bob", password)
	q := produceRequest("orders", acksAll, batch)
	c.send(q)
	r, _ := c.receive(q)
	require.Equal(t, kerr.TopicAuthorizationFailed.Code, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// Who may not observe a group, or asks for all that there are, creates no log.
func TestTheLogOfOffsetsIsCreatedForThoseWhoMayUseIt(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	g := guard.New(d.node, guard.Options{})
	require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, []access.Grant{{Principal: "user/bob", On: access.Object{Kind: access.Group, Name: "billing"}, Rights: access.Observe}}))
	password, _, err := g.PutUser(t.Context(), verbs.Caller{}, "bob", "")
	require.NoError(t, err)
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	c := d.raw()
	c.login("bob", password)
	find := func(groups ...string) *kmsg.FindCoordinatorResponse {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.Version, q.CoordinatorKeys = 4, groups
		c.send(q)
		r, _ := c.receive(q)
		return r.(*kmsg.FindCoordinatorResponse)
	}
	require.Equal(t, kerr.GroupAuthorizationFailed.Code, find("payroll").Coordinators[0].ErrorCode)
	q := kmsg.NewPtrListGroupsRequest()
	q.Version = 4
	c.send(q)
	r, _ := c.receive(q)
	require.Zero(t, r.(*kmsg.ListGroupsResponse).ErrorCode)
	_, err = d.node.KnownInfo(backend.System, backend.OffsetsLog)
	require.Equal(t, record.LogNotFound, record.RefusalOf(err).Reason)

	both := find("payroll", "billing")
	require.Equal(t, kerr.GroupAuthorizationFailed.Code, both.Coordinators[0].ErrorCode)
	require.Zero(t, both.Coordinators[1].ErrorCode)
	_, err = d.node.KnownInfo(backend.System, backend.OffsetsLog)
	require.NoError(t, err)
}

// lines counts what is logged.
type lines struct {
	slog.Handler
	n atomic.Int64
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(context.Context, slog.Record) error {
	l.n.Add(1)
	return nil
}

func TestClientsThatProveNothingFillNoLog(t *testing.T) {
	t.Parallel()
	logged := &lines{Handler: slog.DiscardHandler}
	d := open(t, t.TempDir(), Options{Logger: slog.New(logged)})
	g := guard.New(d.node, guard.Options{})
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	began := time.Now()
	for range 20 {
		c := d.raw()
		c.send(kmsg.NewPtrMetadataRequest())
		c.closed()
	}
	most := 1 + int64(time.Since(began)/logUnprovedEvery)
	require.LessOrEqual(t, logged.n.Load(), most)
	require.Positive(t, logged.n.Load())
}

// A client that is refused again and again writes a line in a while, and not one for each connection.
func TestAppendsWithoutAcksThatAreRefusedFillNoLog(t *testing.T) {
	t.Parallel()
	logged := &lines{Handler: slog.DiscardHandler}
	d := open(t, t.TempDir(), Options{Logger: slog.New(logged)})
	batch := batchOf(t, record.None, "record")
	began := time.Now()
	for range 20 {
		c := d.raw()
		c.send(produceRequest("nothing", acksNone, batch))
		c.closed()
	}
	require.LessOrEqual(t, logged.n.Load(), 1+int64(time.Since(began)/logUnprovedEvery))
	require.Positive(t, logged.n.Load())
}

// unlisted is a node that does not know the rules, and lists nothing.
type unlisted struct{ backend.Node }

func (unlisted) Topics(context.Context, verbs.Caller) ([]verbs.Topic, error) {
	return nil, record.Refuse(record.Busy, "the rules are not known")
}

func TestTopicsThatAreNotListedFillNoLog(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	other := d.over(unlisted{guard.New(d.node, guard.Options{})})
	logged := &lines{Handler: slog.DiscardHandler}
	other.server.topics.Logger = slog.New(logged)
	c, began := other.raw(), time.Now()
	all := kmsg.NewPtrMetadataRequest()
	for range 20 {
		c.send(all)
		answer, _ := c.receive(all)
		require.Empty(t, answer.(*kmsg.MetadataResponse).Topics)
	}
	require.LessOrEqual(t, logged.n.Load(), 1+int64(time.Since(began)/logUnprovedEvery))
	require.Positive(t, logged.n.Load())
}

// A client that has to log in first has so many bytes for it, and its connection ends when
// it fails.
func TestAClientThatMustLogInGetsNothingElse(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	g := guard.New(d.node, guard.Options{})
	open := d.raw()
	open.send(kmsg.NewPtrMetadataRequest())
	open.receiveBytes()
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))

	open.send(kmsg.NewPtrMetadataRequest())
	open.closed()

	many := d.raw()
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	versions.ClientSoftwareName = strings.Repeat("x", 7_000)
	for range 2 {
		many.send(versions)
		many.receiveBytes()
	}
	many.send(versions)
	_, err := many.Read(make([]byte, 1))
	require.Error(t, err)

	wrong := d.raw()
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, guard.ScramSHA512
	wrong.send(handshake)
	wrong.receive(handshake)
	q := kmsg.NewPtrSASLAuthenticateRequest()
	q.Version, q.SASLAuthBytes = 2, []byte("n,,n=root,r=x")
	wrong.send(q)
	r, _ := wrong.receive(q)
	require.Zero(t, r.(*kmsg.SASLAuthenticateResponse).ErrorCode, "that there is no such user is not said")
	q.SASLAuthBytes = []byte("nonsense")
	wrong.send(q)
	r, _ = wrong.receive(q)
	require.Equal(t, kerr.SaslAuthenticationFailed.Code, r.(*kmsg.SASLAuthenticateResponse).ErrorCode)
	wrong.closed()
}
