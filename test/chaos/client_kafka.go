package chaos

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/test/history"
)

const (
	// groupName is the group of those consumers that have one.
	groupName = "readers"
	// lateLife is how long a slow consumer lives. It asks for fetchBytes at once, and stops
	// receiving after up to lateBytes, again and again, for up to lateTime.
	lateLife   = 30 * time.Second
	fetchBytes = 3 << 20
	lateBytes  = 1 << 20
	lateTime   = 12 * time.Second
	// pollTime bounds one poll.
	pollTime = 500 * time.Millisecond
)

// kafka gives the life a Kafka client.
func (v *life) kafka(f func(*kgo.Client), options ...kgo.Opt) {
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(v.load.places.Load().kafka...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(pollTime), kgo.MetadataMinAge(100 * time.Millisecond), kgo.DialTimeout(2 * time.Second),
	}, options...)...)
	if err != nil {
		v.load.t.Errorf("client %s: %v", v.name, err)
		return
	}
	defer c.CloseAllowingRebalance()
	f(c)
}

// consume reads a log from where it begins, or near its end.
func consume(v *life) {
	log := logs[v.dice.IntN(len(logs))]
	from := int64(-2) // the start, as Kafka has it
	if v.dice.IntN(2) == 0 {
		from = v.somewhere(log)
	}
	v.consume(v.ctx, log, from)
}

// consumeLate reads the log of large records from its start, which trims move meanwhile. It
// leaves MBs in sockets, whose bytes nodes have sent from their files: those have been verified by
// another reader.
func consumeLate(v *life) {
	ctx, cancel := context.WithTimeout(v.load.ctx, 3*time.Second)
	v.consume(ctx, bulkyLog, -2)
	cancel()
	ctx, cancel = context.WithTimeout(v.load.ctx, lateLife)
	defer cancel()
	// Of its own: the client dials from goroutines of its own, several at a time.
	var dialling sync.Mutex
	dice := rand.New(rand.NewPCG(v.dice.Uint64(), 0))
	v.consume(ctx, bulkyLog, -2, kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes), kgo.RequestTimeoutOverhead(2*lateTime),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			// The socket takes a whole answer, of which the client receives nothing for now.
			c, err := (&net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) {
					_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4*fetchBytes)
				})
			}}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			dialling.Lock()
			defer dialling.Unlock()
			return &lateConn{Conn: c, after: int64(dice.IntN(lateBytes)), pause: time.Duration(dice.Int64N(int64(lateTime))), ctx: v.load.ctx}, nil
		}))
}

// lateConn stops receiving for a while after so many bytes.
type lateConn struct {
	net.Conn
	ctx   context.Context // ends the wait
	after int64
	pause time.Duration
	got   int64
}

func (c *lateConn) Read(b []byte) (int, error) {
	if c.got >= c.after {
		c.got = 0
		wait(c.ctx, c.pause)
	}
	n, err := c.Conn.Read(b[:min(len(b), 32<<10)])
	c.got += int64(n)
	return n, err
}

// consume reads a log alone until ctx ends.
func (v *life) consume(ctx context.Context, log string, from int64, options ...kgo.Opt) {
	start := kgo.NewOffset().At(from)
	v.kafka(func(c *kgo.Client) {
		next := from // where the next record is to be; below 0: at the start, wherever that is
		for ctx.Err() == nil {
			polling, cancel := context.WithTimeout(ctx, pollTime)
			fetches := c.PollRecords(polling, 2000)
			cancel()
			good := v.unexpected(fetches)
			fetches.EachPartition(func(p kgo.FetchTopicPartition) { next = v.took(p, next) })
			if !good {
				return
			}
		}
	}, append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{log: {0: start}}))...)
}

// took records what a poll has got of a log, whose next record was to be at an offset. It
// returns where the one after these is to be. A client skips what has been trimmed, and
// nothing else.
func (v *life) took(p kgo.FetchTopicPartition, next int64) int64 {
	if len(p.Records) == 0 {
		return next
	}
	first := p.Records[0].Offset
	read := history.Event{Client: v.name, Verb: history.Read, Log: p.Topic, Consistency: history.Any}
	if next >= 0 && next < first && first <= p.LogStartOffset {
		skipped := read
		skipped.From = &next
		v.load.recorder.Invoke(skipped).Return(history.Event{Outcome: history.Failed, Reason: "OFFSET_TRIMMED", Start: &p.LogStartOffset})
		v.load.did.count("gaps of Kafka consumers below a trimmed start")
		next = first
	}
	if next >= 0 {
		read.From = &next
	}
	hashes := make(history.Hashes, len(p.Records))
	for i, r := range p.Records {
		hashes[i] = history.Hash(r.Key, r.Value)
		if want := first + int64(i); r.Offset != want {
			v.load.t.Errorf("client %s got offset %d of log %s behind offset %d over Kafka", v.name, r.Offset, p.Topic, want-1)
			return r.Offset
		}
	}
	call := v.load.recorder.Invoke(read)
	call.Frame(history.Event{First: &first, Start: &p.LogStartOffset, End: &p.HighWatermark, Hashes: hashes})
	call.Return(history.Event{Outcome: history.OK})
	v.load.did.add("records that Kafka consumers got", len(hashes))
	return first + int64(len(hashes))
}

// unexpected fails the campaign for what no node may send, such as records whose CRC is
// wrong. It reports whether the client may continue.
func (v *life) unexpected(fetches kgo.Fetches) bool {
	good := true
	fetches.EachError(func(log string, _ int32, err error) {
		var refused *kerr.Error
		var broken net.Error
		var group *kgo.ErrGroupSession
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		case errors.As(err, &refused):
			v.load.errors.add(history.Event{Outcome: history.Failed, Reason: refused.Message})
			good = false
		case errors.As(err, &broken), errors.As(err, &group), errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			good = false
		default:
			v.load.t.Errorf("client %s got of log %s over Kafka what no node may send: %v", v.name, log, err)
			good = false
		}
	})
	return good
}

// member is one of a group, with what it was given to read.
type member struct {
	*life
	mu    sync.Mutex
	next  map[string]int64         // by log
	asked map[string]*history.Call // for where the group is
}

// consumeInGroup reads all logs together with the other members of a group, and commits
// what it has read. All is revoked before each rebalance: where a cooperative balancer keeps
// partitions, and the coordinator changes while the client joins, franz-go joins under another
// member id without a word, and commits what it read before as that.
func consumeInGroup(v *life) {
	m := &member{life: v, next: map[string]int64{}, asked: map[string]*history.Call{}}
	v.kafka(m.run, kgo.ConsumerGroup(groupName), kgo.ConsumeTopics(logs...), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(m.assigned), kgo.AdjustFetchOffsetsFn(m.begin), kgo.OnPartitionsRevoked(m.gone), kgo.OnPartitionsLost(m.gone))
	for _, call := range m.asked {
		call.Return(history.Event{Outcome: history.Unknown})
	}
}

func (m *member) run(c *kgo.Client) {
	for m.ctx.Err() == nil {
		polling, cancel := context.WithTimeout(m.ctx, pollTime)
		fetches := c.PollRecords(polling, 1000)
		cancel()
		good := m.unexpected(fetches)
		read := map[string]map[int32]kgo.EpochOffset{}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				read[p.Topic] = map[int32]kgo.EpochOffset{0: {Epoch: p.Records[len(p.Records)-1].LeaderEpoch, Offset: m.take(p)}}
			}
		})
		m.commit(c, read)
		c.AllowRebalance()
		if !good {
			return
		}
	}
}

func (m *member) take(p kgo.FetchTopicPartition) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, known := m.next[p.Topic]
	if !known {
		m.load.t.Errorf("client %s got records of log %s, which its group has not given to it", m.name, p.Topic)
		next = -1
	}
	m.next[p.Topic] = m.took(p, next)
	return m.next[p.Topic]
}

// commit commits for the group where this member has come to.
func (m *member) commit(c *kgo.Client, read map[string]map[int32]kgo.EpochOffset) {
	if len(read) == 0 {
		return
	}
	calls := map[string]*history.Call{}
	for log, at := range read {
		calls[log] = m.load.recorder.Invoke(history.Event{Client: m.name, Verb: history.CommitOffset, Log: log, Group: groupName, From: new(at[0].Offset)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	c.CommitOffsetsSync(ctx, read, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		for i := range answer.Topics {
			topic := &answer.Topics[i]
			if call := calls[topic.Topic]; call != nil && len(topic.Partitions) == 1 && topic.Partitions[0].ErrorCode == 0 {
				call.Return(history.Event{Outcome: history.OK})
				m.load.did.count("offsets committed")
				delete(calls, topic.Topic)
			}
		}
	})
	for _, call := range calls {
		answer := history.Event{Outcome: history.Unknown, Reason: "OFFSET_COMMIT"}
		call.Return(answer)
		m.load.errors.add(answer)
	}
}

// assigned comes before the client asks where the group is.
func (m *member) assigned(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for log := range given {
		m.next[log] = -1
		m.asked[log] = m.load.recorder.Invoke(history.Event{Client: m.name, Verb: history.GroupOffset, Log: log, Group: groupName})
	}
}

// begin comes with the answer.
func (m *member) begin(_ context.Context, found map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for log, partitions := range found {
		call, at := m.asked[log], partitions[0].EpochOffset().Offset
		if call == nil {
			continue
		}
		delete(m.asked, log)
		m.next[log] = at
		call.Return(groupOffset(at))
		m.load.did.count("offsets of groups looked up")
	}
	return found, nil
}

// groupOffset is the answer to who asks where a group is; below 0: nowhere yet.
func groupOffset(at int64) history.Event {
	if at < 0 {
		return history.Event{Outcome: history.OK}
	}
	return history.Event{Outcome: history.OK, First: &at}
}

func (m *member) gone(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for log := range taken {
		delete(m.next, log)
		if call := m.asked[log]; call != nil {
			delete(m.asked, log)
			call.Return(history.Event{Outcome: history.Unknown})
		}
	}
}

// watchGroup asks again and again where the group is.
func watchGroup(v *life) {
	v.kafka(func(c *kgo.Client) {
		for v.ctx.Err() == nil {
			v.askGroup(c)
			wait(v.ctx, time.Duration(v.dice.IntN(300))*time.Millisecond)
		}
	})
}

func (v *life) askGroup(c *kgo.Client) {
	ctx, cancel := context.WithTimeout(v.ctx, readTime)
	defer cancel()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = groupName
	calls := map[string]*history.Call{}
	for _, log := range logs {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = log, []int32{0}
		group.Topics = append(group.Topics, topic)
		calls[log] = v.load.recorder.Invoke(history.Event{Client: v.name, Verb: history.GroupOffset, Log: log, Group: groupName})
	}
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Groups = []kmsg.OffsetFetchRequestGroup{group}
	answer, err := request.RequestWith(ctx, c)
	if err == nil && len(answer.Groups) == 1 && answer.Groups[0].ErrorCode == 0 {
		for i := range answer.Groups[0].Topics {
			topic := &answer.Groups[0].Topics[i]
			if call := calls[topic.Topic]; call != nil && len(topic.Partitions) == 1 && topic.Partitions[0].ErrorCode == 0 {
				delete(calls, topic.Topic)
				call.Return(groupOffset(topic.Partitions[0].Offset))
				v.load.did.count("offsets of groups looked up")
			}
		}
	}
	for _, call := range calls {
		call.Return(history.Event{Outcome: history.Failed})
	}
}
