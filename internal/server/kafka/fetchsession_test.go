package kafkaserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// sessionRequest is a Fetch of a session: what it has is added to it.
func (d *testServer) sessionRequest(version int16, session, epoch int32, from int64, topics ...string) *kmsg.FetchRequest {
	d.Helper()
	q := fetchRequest(version, 0, 1, 1<<20, from, topics...)
	if version >= 13 {
		d.withIDs(q)
	}
	q.SessionID, q.SessionEpoch = session, epoch
	return q
}

// fetched returns the topics in an answer with the values of their records.
func fetched(d *testServer, r *kmsg.FetchResponse) map[string]int {
	d.Helper()
	all := map[string]int{}
	for _, t := range r.Topics {
		name := t.Topic
		for _, one := range []string{"one", "two", "three"} {
			if r.Version >= 13 && d.idOf(one) == t.TopicID {
				name = one
			}
		}
		require.Zero(d, t.Partitions[0].ErrorCode)
		all[name] = countRecords(d.TB.(*testing.T), t.Partitions[0].RecordBatches)
	}
	return all
}

func TestASessionAnswersOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for _, topic := range []string{"one", "two", "three"} {
		d.create(topic, 1)
	}
	for version := int16(7); version <= apis[fetchKey].max; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			c := d.raw()
			end := map[string]int64{}
			for _, topic := range []string{"one", "two", "three"} {
				end[topic] = int64(d.appendDirectly(topic, batchOf(t, record.None, "before"))) + 1
			}
			begin := d.sessionRequest(version, 0, 0, end["one"], "one", "two")
			begin.Topics[1].Partitions[0].FetchOffset = end["two"]
			r := c.fetch(begin)
			session := r.SessionID
			require.NotZero(t, session)
			require.Equal(t, map[string]int{"one": 0, "two": 0}, fetched(d, r), "the first answer has all")

			r = c.fetch(d.sessionRequest(version, session, 1, 0))
			require.Equal(t, session, r.SessionID)
			require.Empty(t, r.Topics, "nothing is new")

			d.appendDirectly("two", batchOf(t, record.None, "x", "y"))
			r = c.fetch(d.sessionRequest(version, session, 2, 0))
			require.Equal(t, map[string]int{"two": 2}, fetched(d, r))

			r = c.fetch(d.sessionRequest(version, session, 3, end["three"], "three")) // added
			require.Equal(t, map[string]int{"two": 2, "three": 0}, fetched(d, r), "the position of two is as it was")

			q := d.sessionRequest(version, session, 4, 0)
			forgotten := kmsg.NewFetchRequestForgottenTopic()
			forgotten.Topic, forgotten.TopicID, forgotten.Partitions = "two", d.idOf("two"), []int32{0}
			q.ForgottenTopics = append(q.ForgottenTopics, forgotten)
			d.appendDirectly("one", batchOf(t, record.None, "z"))
			require.Equal(t, map[string]int{"one": 1}, fetched(d, c.fetch(q)))

			require.Equal(t, kerr.InvalidFetchSessionEpoch.Code, c.fetch(d.sessionRequest(version, session, 7, 0)).ErrorCode)
			require.Equal(t, kerr.FetchSessionIDNotFound.Code, c.fetch(d.sessionRequest(version, session+1, 5, 0)).ErrorCode)
			require.Equal(t, kerr.FetchSessionIDNotFound.Code, d.raw().fetch(d.sessionRequest(version, session, 5, 0)).ErrorCode,
				"a session belongs to its connection")
			require.Zero(t, c.fetch(d.sessionRequest(version, session, 5, 0)).ErrorCode, "it is still there")

			require.Zero(t, c.fetch(d.sessionRequest(version, session, -1, 0)).SessionID, "the client ends it")
			require.Equal(t, kerr.FetchSessionIDNotFound.Code, c.fetch(d.sessionRequest(version, session, 6, 0)).ErrorCode)
		})
	}
	require.Zero(t, d.server.options.Memory.FetchSessions.Used(), "its memory is given back")
}

func TestAnErrorIsInEachAnswerOfASessionAndItsEndToo(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	r := c.fetch(d.sessionRequest(12, 0, 0, 0, "late"))
	for epoch := int32(1); epoch < 3; epoch++ {
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, r.Topics[0].Partitions[0].ErrorCode)
		r = c.fetch(d.sessionRequest(12, r.SessionID, epoch, 0))
	}
	d.create("late", 1)
	r = c.fetch(d.sessionRequest(12, r.SessionID, 3, 0))
	require.Zero(t, r.Topics[0].Partitions[0].ErrorCode)
	require.Empty(t, c.fetch(d.sessionRequest(12, r.SessionID, 4, 0)).Topics)
}

func TestASessionNamesTopicsInOneWay(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("one", 1)
	c := d.raw()
	r := c.fetch(d.sessionRequest(12, 0, 0, 0, "one"))
	require.Equal(t, kerr.FetchSessionTopicIDError.Code, c.fetch(d.sessionRequest(13, r.SessionID, 1, 0)).ErrorCode)
	require.Zero(t, c.fetch(d.sessionRequest(12, r.SessionID, 1, 0)).ErrorCode)
}

// In a session, a topic whose records fill each answer keeps no other waiting.
func TestInASessionPartitionsTakeTurns(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("three", 1)
	for _, topic := range []string{"one", "two"} {
		d.create(topic, 1)
		for range 3 {
			d.appendDirectly(topic, batchOf(t, record.None, "record"))
		}
	}
	c := d.raw()
	q := d.sessionRequest(18, 0, 0, 0, "one", "two")
	q.MaxBytes = 1 // one batch
	r := c.fetch(q)
	require.Equal(t, map[string]int{"one": 1, "two": 0}, fetched(d, r))
	q = d.sessionRequest(18, r.SessionID, 1, 1, "one")
	q.MaxBytes = 1
	require.Equal(t, map[string]int{"two": 1}, fetched(d, c.fetch(q)))
	q = d.sessionRequest(18, r.SessionID, 2, 1, "two")
	q.MaxBytes = 1
	require.Equal(t, map[string]int{"one": 1}, fetched(d, c.fetch(q)))
}

// Where there is no memory for a session a client gets none, and fetches as before.
func TestWithoutMemoryForASessionAClientListsAllEachTime(t *testing.T) {
	t.Parallel()
	memory := budget.New(DefaultMemory)
	memory.FetchSessions = budget.NewShares(3 << 10)
	d := open(t, t.TempDir(), Options{Memory: memory})
	for _, topic := range []string{"one", "two", "three"} {
		d.create(topic, 1)
	}
	first, second := d.raw(), d.raw()
	one := first.fetch(d.sessionRequest(18, 0, 0, 0, "one"))
	require.NotZero(t, one.SessionID)
	r := second.fetch(d.sessionRequest(18, 0, 0, 0, "one", "two"))
	require.Zero(t, r.SessionID)
	require.Equal(t, map[string]int{"one": 0, "two": 0}, fetched(d, r))

	require.Equal(t, kerr.FetchSessionIDNotFound.Code, first.fetch(d.sessionRequest(18, one.SessionID, 1, 0, "two", "three")).ErrorCode,
		"it has no room to grow, and ends")
	require.Zero(t, memory.FetchSessions.Used())
	require.NotZero(t, second.fetch(d.sessionRequest(18, 0, 0, 0, "one")).SessionID)
	require.NotZero(t, memory.FetchSessions.Used())
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return memory.FetchSessions.Used() == 0 }, time.Minute, time.Millisecond, "it ends with its connection")
}

func TestAConnectionKeepsNothingOfASessionThatCannotGrow(t *testing.T) {
	t.Parallel()
	memory := budget.New(DefaultMemory)
	memory.FetchSessions = budget.NewShares(3 << 10)
	d := open(t, t.TempDir(), Options{Memory: memory})
	c := &connection{server: d.server, from: "somewhere"}
	begin := func(q *kmsg.FetchRequest) int16 {
		code, err := (&fetch{call: &call{connection: c, version: q.Version}, request: q}).begin()
		require.NoError(t, err)
		return code
	}
	require.Zero(t, begin(d.sessionRequest(12, 0, 0, 0, "one")))
	s := c.fetchSession
	require.Len(t, s.Entries(), 1)
	require.Equal(t, kerr.FetchSessionIDNotFound.Code, begin(d.sessionRequest(12, s.ID, 1, 0, "two", "three", "four", "five")))
	require.Nil(t, c.fetchSession)
	require.Empty(t, s.Entries())
}

func TestASessionHasAsManyPartitionsAsAFetch(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	list := func(session, epoch, from, n int32) *kmsg.FetchRequest {
		q := d.sessionRequest(12, session, epoch, 0, "one")
		p := q.Topics[0].Partitions[0]
		q.Topics[0].Partitions = nil
		for i := range n {
			p.Partition = from + i
			q.Topics[0].Partitions = append(q.Topics[0].Partitions, p)
		}
		return q
	}
	c := d.raw()
	r := c.fetch(list(0, 0, 0, maxFetchPartitions))
	require.Len(t, r.Topics[0].Partitions, maxFetchPartitions)
	require.NotZero(t, r.SessionID)
	c.send(list(r.SessionID, 1, maxFetchPartitions, 1))
	c.closed()
}
