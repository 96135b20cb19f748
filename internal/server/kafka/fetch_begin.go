package kafkaserver

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/kafka/fetchsession"
)

// Epochs of a Fetch that continues no session.
const (
	epochBegins = 0  // it begins one
	epochNone   = -1 // it lists all that it wants, as the next one does
)

// begin finds the partitions that are wanted: those of the request, or those of the session that
// the request continues. The code is one of the whole request; err ends the connection.
//
// A session belongs to a connection, which has one at most: a client with a new connection begins
// another session.
func (f *fetch) begin() (code int16, err error) {
	c, q := f.call.connection, f.request
	s, wanted := c.server.fetchSessions, partitionsOf(q)
	if len(wanted) > maxFetchPartitions {
		return 0, tooManyPartitions(len(wanted))
	}
	now := time.Now()
	switch {
	case q.SessionEpoch == epochBegins && q.Version >= 7:
		c.endFetchSession()
		c.fetchSession = s.Begin(1+rand.Int32N(1<<31-2), f.byID(), wanted, c.holderName(), now)
		f.session, f.all = c.fetchSession, true
	case q.SessionEpoch == epochNone || q.Version < 7:
		if c.fetchSession != nil && c.fetchSession.ID == q.SessionID {
			c.endFetchSession()
		}
	case c.fetchSession == nil || c.fetchSession.ID != q.SessionID || !s.Use(c.fetchSession):
		return kerr.FetchSessionIDNotFound.Code, nil
	default:
		x := c.fetchSession
		if code, err := f.resume(x, wanted, now); code != 0 || err != nil {
			s.Leave(x, now)
			return code, err
		}
		f.session = x
	}
	if f.session == nil { // the client wants none, or there is no room for it
		f.parts = make([]fetchPart, len(wanted))
		for i := range wanted {
			f.parts[i].asked = wanted[i]
		}
		return 0, nil
	}
	entries := f.session.Entries()
	f.parts = make([]fetchPart, len(entries))
	for i, e := range entries {
		f.parts[i].asked, f.parts[i].entry = e.Partition, e
	}
	return 0, nil
}

// resume applies a request to the session of its connection.
func (f *fetch) resume(x *fetchsession.Session, wanted []fetchsession.Partition, now time.Time) (code int16, err error) {
	switch n := x.Count(wanted); {
	case x.ByID != f.byID():
		return kerr.FetchSessionTopicIDError.Code, nil
	case n > maxFetchPartitions:
		return 0, tooManyPartitions(n)
	case !x.Next(f.request.SessionEpoch):
		return kerr.InvalidFetchSessionEpoch.Code, nil
	case !f.call.connection.server.fetchSessions.Apply(x, wanted, forgottenOf(f.request), now):
		f.call.connection.fetchSession = nil
		return kerr.FetchSessionIDNotFound.Code, nil // the client lists all again
	}
	return 0, nil
}

func (c *connection) endFetchSession() {
	if c.fetchSession != nil {
		c.server.fetchSessions.End(c.fetchSession)
		c.fetchSession = nil
	}
}

func tooManyPartitions(n int) error {
	return fmt.Errorf("a Fetch request has %d partitions, the limit is %d", n, maxFetchPartitions)
}

func partitionsOf(q *kmsg.FetchRequest) []fetchsession.Partition {
	n := 0
	for i := range q.Topics {
		n += len(q.Topics[i].Partitions)
	}
	all := make([]fetchsession.Partition, 0, n)
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			all = append(all, fetchsession.Partition{
				Key:   fetchsession.Key{Topic: t.Topic, ID: t.TopicID, Number: p.Partition},
				Epoch: p.CurrentLeaderEpoch, Offset: p.FetchOffset, MaxBytes: p.PartitionMaxBytes,
			})
		}
	}
	return all
}

func forgottenOf(q *kmsg.FetchRequest) (all []fetchsession.Key) {
	for i := range q.ForgottenTopics {
		t := &q.ForgottenTopics[i]
		for _, n := range t.Partitions {
			all = append(all, fetchsession.Key{Topic: t.Topic, ID: t.TopicID, Number: n})
		}
	}
	return all
}
