package kafkaserver

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// The answer to a client that takes more than its quota is sent at once and says for how long the client has to wait. Until
// then nothing more is received on its connection, unless the quota is removed.
func TestAProducerAboveItsQuotaGetsTheTimeToWaitAndIsHeldUp(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, access.Anybody, false, func(q *access.Quota) { q.AppendBytes = 100 }))
	c := d.raw()
	q := produceRequest("orders", acksAll, batchOf(t, record.None, string(bytes.Repeat([]byte{'a'}, 8<<10))))
	c.send(q)
	answer, _ := c.receive(q)
	r := answer.(*kmsg.ProduceResponse)
	require.Zero(t, r.Topics[0].Partitions[0].ErrorCode)
	require.EqualValues(t, maxThrottle.Milliseconds(), r.ThrottleMillis)
	c.send(q)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(3*lookMuted)))
	_, err := c.Read(make([]byte, 1))
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout(), "it is not answered: %v", err)

	other := d.raw() // it is not held up, but owes more than it may wait
	other.send(q)
	answer, _ = other.receive(q)
	require.Equal(t, kerr.NotEnoughReplicas.Code, answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	require.Positive(t, answer.(*kmsg.ProduceResponse).ThrottleMillis)

	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, access.Anybody, false, func(q *access.Quota) { q.AppendBytes = 0 }))
	answer, _ = c.receive(q)
	require.Zero(t, answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	require.Zero(t, answer.(*kmsg.ProduceResponse).ThrottleMillis)
}

func TestAConsumerAboveItsQuotaGetsNothingButTheTimeToWait(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.appendDirectly("orders", batchOf(t, record.None, string(bytes.Repeat([]byte{'a'}, 8<<10))))
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, access.Anybody, false, func(q *access.Quota) { q.ReadBytes = 100 }))
	first, second := d.raw(), d.raw()
	const version = 12 // with names of topics
	r := first.fetch(fetchRequest(version, 0, 1, 1<<20, 0, "orders"))
	require.EqualValues(t, maxThrottle.Milliseconds(), r.ThrottleMillis)
	require.NotEmpty(t, r.Topics[0].Partitions[0].RecordBatches)
	r = second.fetch(fetchRequest(version, 0, 1, 1<<20, 0, "orders"))
	require.EqualValues(t, maxThrottle.Milliseconds(), r.ThrottleMillis)
	require.Empty(t, r.Topics[0].Partitions[0].RecordBatches)
	require.Zero(t, r.Topics[0].Partitions[0].ErrorCode)
}

// Others may have used up the quota of a log: who reads other logs as well gets those, without a delay.
func TestAConsumerOfALogWhoseQuotaIsUsedUpGetsItsOtherLogsAtOnce(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.create("payments", 1)
	large := batchOf(t, record.None, string(bytes.Repeat([]byte{'a'}, 8<<10)))
	d.appendDirectly("orders", large)
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, "log/orders", false, func(q *access.Quota) { q.ReadBytes = 100 }))
	c := d.raw()
	const version = 12 // with names of topics
	r := c.fetch(fetchRequest(version, 0, 1, 1<<20, 0, "orders", "payments"))
	require.NotEmpty(t, r.Topics[0].Partitions[0].RecordBatches)
	require.Zero(t, r.ThrottleMillis, "the client would send nothing for this time")

	q := fetchRequest(version, int32(time.Hour.Milliseconds()), 1, 1<<20, 0, "orders", "payments")
	c.send(q)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.appendDirectly("payments", large)
	}()
	answer, _ := c.receive(q)
	<-ended
	r = answer.(*kmsg.FetchResponse)
	require.Empty(t, r.Topics[0].Partitions[0].RecordBatches)
	require.NotEmpty(t, r.Topics[1].Partitions[0].RecordBatches)
	require.Zero(t, r.ThrottleMillis)

	q = fetchRequest(version, int32(time.Hour.Milliseconds()), 1, 1<<20, 0, "orders")
	c.send(q)
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, "log/orders", false, func(q *access.Quota) { q.ReadBytes = 0 }))
	answer, _ = c.receive(q)
	require.NotEmpty(t, answer.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches, "it is awaited, too")
}

func TestARequestOfSeveralPartitionsIsNotRefusedForWhatItsFirstPartsOwe(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.create("payments", 1)
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, access.Anybody, false, func(q *access.Quota) { q.AppendBytes = 100 }))
	large := batchOf(t, record.None, string(bytes.Repeat([]byte{'a'}, 8<<10)))
	q := produceRequest("orders", acksAll, large)
	q.Topics = append(q.Topics, produceRequest("payments", acksAll, large).Topics...)
	c := d.raw()
	c.send(q)
	answer, _ := c.receive(q)
	for _, topic := range answer.(*kmsg.ProduceResponse).Topics {
		require.Zero(t, topic.Partitions[0].ErrorCode, topic.Topic)
	}
}

// changing is a node on which each quota is another one at the first look.
type changing struct {
	backend.Node
	looked []time.Duration
	then   func()
}

func (n *changing) Holds(t guard.Throttle) bool {
	if n.looked = append(n.looked, t.Wait); len(n.looked) == 1 {
		n.then()
	}
	return false
}

func TestAConnectionWaitsForALongerMuteThatIsSetWhileItWaits(t *testing.T) {
	t.Parallel()
	n := &changing{}
	c := &connection{server: &Server{node: n}, ctx: t.Context()}
	n.then = func() { (&call{connection: c}).owes(guard.Throttle{Wait: 2 * time.Second}) }
	(&call{connection: c}).owes(guard.Throttle{Wait: time.Second})
	require.NoError(t, c.unmuted())
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, n.looked)
	require.Nil(t, c.muted.Load())
}

func TestEveryAnswerSaysWhenTheRequestsOfAClientAreTooMany(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, access.Anybody, false, func(q *access.Quota) { q.Requests = 1 }))
	var throttle int32
	for range 10 { // each on a connection of its own, which is not held up
		q := kmsg.NewPtrMetadataRequest()
		q.Version = 8
		c := d.raw()
		c.send(q)
		r, _ := c.receive(q)
		throttle = max(throttle, r.(*kmsg.MetadataResponse).ThrottleMillis)
	}
	require.Greater(t, throttle, int32(1000))
}

// A session names its partitions once, but each of its requests looks at all of them.
func TestAFetchOfManyPartitionsIsChargedAsSeveralRequests(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	q := d.sessionRequest(12, 0, 0, 0, "one")
	p := q.Topics[0].Partitions[0]
	for n := int32(1); n < 10*partitionsOfRequest; n++ {
		p.Partition = n
		q.Topics[0].Partitions = append(q.Topics[0].Partitions, p)
	}
	r := c.fetch(q)
	require.NotZero(t, r.SessionID)
	require.NoError(t, d.server.node.ChangeQuota(t.Context(), verbs.Caller{}, access.Anybody, false, func(q *access.Quota) { q.Requests = 1 }))
	require.Positive(t, c.fetch(d.sessionRequest(12, r.SessionID, 1, 0)).ThrottleMillis, "ten requests; one is free")
}

func TestClientQuotasAreTheQuotasOfUsers(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.client()
	entity := func(kind string, name *string) []kmsg.AlterClientQuotasRequestEntryEntity {
		return []kmsg.AlterClientQuotasRequestEntryEntity{{Type: kind, Name: name}}
	}
	op := func(key string, value float64, remove bool) kmsg.AlterClientQuotasRequestEntryOp {
		return kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: value, Remove: remove}
	}
	alter := func(validateOnly bool, entity []kmsg.AlterClientQuotasRequestEntryEntity, ops ...kmsg.AlterClientQuotasRequestEntryOp) error {
		q := kmsg.NewPtrAlterClientQuotasRequest()
		q.ValidateOnly = validateOnly
		q.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: entity, Ops: ops}}
		return kerr.ErrorForCode(request[*kmsg.AlterClientQuotasResponse](d, c, q).Entries[0].ErrorCode)
	}
	quotas := func() []access.Quota {
		all, _, _, err := d.server.node.Quotas(t.Context(), verbs.Caller{})
		require.NoError(t, err)
		return all
	}
	alice := entity("user", new("alice"))
	require.NoError(t, alter(true, alice, op("producer_byte_rate", 1000, false)))
	require.Empty(t, quotas())
	require.NoError(t, alter(false, alice, op("producer_byte_rate", 1000, false), op("consumer_byte_rate", 2000.5, false)))
	require.NoError(t, alter(false, entity("user", nil), op("consumer_byte_rate", 3000, false)))
	require.Equal(t, []access.Quota{{Subject: "*", ReadBytes: 3000}, {Subject: "user/alice", AppendBytes: 1000, ReadBytes: 2000}}, quotas())
	for _, wrong := range []error{
		alter(false, entity("client-id", new("alice")), op("producer_byte_rate", 1000, false)),
		alter(false, append(entity("user", new("alice")), entity("client-id", nil)...), op("producer_byte_rate", 1000, false)),
		alter(false, alice, op("request_percentage", 10, false)),
		alter(false, alice, op("producer_byte_rate", 0, false)),
		alter(false, entity("user", new("no name")), op("producer_byte_rate", 1, false)),
	} {
		require.ErrorIs(t, wrong, kerr.InvalidRequest)
	}

	describe := func(match kmsg.QuotasMatchType, name *string) (shown map[string]map[string]float64) {
		q := kmsg.NewPtrDescribeClientQuotasRequest()
		q.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: match, Match: name}}
		r := request[*kmsg.DescribeClientQuotasResponse](d, c, q)
		require.NoError(t, kerr.ErrorForCode(r.ErrorCode))
		shown = map[string]map[string]float64{}
		for _, e := range r.Entries {
			name := "default"
			if e.Entity[0].Name != nil {
				name = *e.Entity[0].Name
			}
			shown[name] = map[string]float64{}
			for _, v := range e.Values {
				shown[name][v.Key] = v.Value
			}
		}
		return shown
	}
	ofAlice := map[string]float64{"producer_byte_rate": 1000, "consumer_byte_rate": 2000}
	require.Equal(t, map[string]map[string]float64{"alice": ofAlice}, describe(kmsg.QuotasMatchTypeExact, new("alice")))
	require.Equal(t, map[string]map[string]float64{"default": {"consumer_byte_rate": 3000}}, describe(kmsg.QuotasMatchTypeDefault, nil))
	require.Equal(t, map[string]map[string]float64{"alice": ofAlice, "default": {"consumer_byte_rate": 3000}}, describe(kmsg.QuotasMatchTypeAny, nil))
	require.NoError(t, alter(false, alice, op("producer_byte_rate", 0, true), op("consumer_byte_rate", 0, true)))
	require.Equal(t, []access.Quota{{Subject: "*", ReadBytes: 3000}}, quotas())
}
