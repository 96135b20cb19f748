// Command attacks runs programs that attack a node, each beside an honest client. An attack may at
// most double the p99 of that client's appends.
//
//	go run ./test/attacks [-tls] [-time 10s] [NAME ...]
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// target is a node that enforces rights, and mallory, who may append to log/mallory and use the groups
// mallory* and nothing else.
type target struct {
	Authority
	GRPC, HTTP, Kafka string
	Token, Password   string // of mallory
}

// attack is one of them. once does it one time, as the worker of a number, and reports whether it was let in
// where it should not have been.
type attack struct {
	name, what string
	workers    int
	once       func(ctx context.Context, t target, worker int) (letIn error)
	// asks is what an honest client asks beside it, besides appending; nil: nothing.
	asks func(h honest, ctx context.Context) error
	// fills: once ends when a part of the node's memory is used up, or the share of it that one client may have.
	fills bool
	// most is what the p99 of an honest client beside it may be, over that beside equal work.
	most float64
}

var errLetIn = errors.New("it was not refused")

var attacks = []attack{
	{"grpc-bombs", "batches that inflate to 15 MiB, over gRPC, from nobody", 8, func(ctx context.Context, t target, _ int) error { return bombs(ctx, t, "") }, nil, false, most},
	{"grpc-bombs-denied", "the same from a user without the right", 8, func(ctx context.Context, t target, _ int) error { return bombs(ctx, t, t.Token) }, nil, false, most},
	{"lean-bombs", "the same on streams without HTTP/2, from nobody", 8, leanBombs, nil, false, most},
	{"produce-bombs", "the same by Kafka's Produce, from nobody", 8, produceBombs, nil, false, most},
	{"produce-bombs-denied", "the same from a user without the right", 8, produceBombsDenied, nil, false, most},
	{"kafka-announced", "requests that are announced and never sent, to the Kafka port, from nobody", 100, announce(18, 16<<10-400), honest.joins, false, most},
	{"produce-announced", "a Produce of 64 MiB that is announced and never sent, from a user without the right to orders", 1, announceProduce, honest.appends, false, most},
	{"unfinished", "requests to append to a log of one's own that begin and do not end, on streams without HTTP/2", 100, unfinished, honest.appendsMuch, false, most},
	{"health-watched", "streams that watch the health, from nobody", 8, watchHealth, nil, false, most},
	{"idle-http", "connections to the HTTP port that ask for little and stay", 200, idleHTTP, honest.looks, false, most},
	{"full-http", "1,000 connections of one address to the HTTP port that begin to ask and stay", 1, fillHTTP, honest.looks, false, most},
	{"passwords", "guesses of a password", 8, guess, honest.joins, false, most},
	{"names", "refused calls that name ever other long names, for the audit log", 8, names, nil, false, most},
	{"kafka-names", "connections that name very many topics", 4, kafkaNames, honest.joins, false, most},
	{"half-open", "connections that begin and say nothing more", 200, halfOpen, honest.comes, false, most},
	{"as-nodes", "connections that begin as those between nodes do and say nothing more", 300, func(ctx context.Context, t target, _ int) error { return t.hold(ctx, t.GRPC, asNode) }, honest.meets, false, most},
	{"sessions", "sessions without end on a log of one's own", 4, sessions, honest.opens, true, most},
	{"groups", "members without end in groups of one's own", 4, groups, honest.joins, false, most},
	{"filters", "filters that take long, on a log of one's own", 16, filters, honest.selects, false, most},
	{"creates", "logs without end, of one's own", 4, creates, honest.creates, false, most},
	{"holds", "holds without end on a log of one's own", 8, holds, honest.holds, true, most},
	{"json", "bodies of JSON that are costly to decode, to calls and to streams, from nobody", 8, func(_ context.Context, t target, worker int) error { return texts(t, "", worker) }, honest.asksText, false, most},
	{"json-denied", "the same from a user without the right", 8, func(_ context.Context, t target, worker int) error { return texts(t, t.Token, worker) }, honest.asksText, false, most},
	{"lists", "lists of all topics and all groups, by who may see next to none", 8, func(ctx context.Context, t target, _ int) error { return lists(ctx, t, 20) }, honest.joins, false, most},
	{"lists-kept", "the same lists over connections that stay", 8, func(ctx context.Context, t target, _ int) error { return lists(ctx, t, math.MaxInt) }, honest.joins, false, most},
	{"above-quota", "appends to a log at ten times its quota of 4 MiB in a second", 10, aboveQuota, honest.appends, false, mostBesideQuota},
	// These leave what no filter reads in mallory's log.
	{"read-bombs", "reads of single records of batches that inflate to 3 MiB, on a log of one's own, of which nothing is taken", 8, readBombs, honest.readsRecords, false, most},
	{"lookup-bombs", "lookups by time among batches that inflate to 15 MiB, on a log of one's own", 8, lookUpBombs, honest.looksUp, false, most},
}

// run does an attack until ctx ends. It returns how often it was done, and the first time that it was let in.
func (a attack) run(ctx context.Context, t target) (times int64, letIn error) {
	var all sync.WaitGroup
	var done atomic.Int64
	var first atomic.Pointer[error]
	for worker := range a.workers {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := a.once(ctx, t, worker); err != nil && ctx.Err() == nil {
					first.CompareAndSwap(nil, &err)
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := first.Load(); err != nil {
		letIn = *err
	}
	return done.Load(), letIn
}

// bomb is a batch of few bytes that inflates to 15 MiB, and smallBomb one that inflates to 3 MiB: one of them is less
// than the part for reads of the smallest node.
var (
	bomb      = sync.OnceValue(func() record.Batch { return inflatesTo(15 << 20) })
	smallBomb = sync.OnceValue(func() record.Batch { return inflatesTo(3 << 20) })
)

func inflatesTo(bytes int) record.Batch {
	var b record.Builder
	if err := b.Add(record.Record{Value: make([]byte, bytes)}); err != nil {
		panic(err) // it always fits
	}
	batch, err := b.Finish(record.Zstd)
	if err != nil {
		panic(err)
	}
	return batch
}

func bombRequest() *strandlinev1.AppendRequest {
	return &strandlinev1.AppendRequest{Log: "orders", Batches: bytes.Repeat(bomb(), 100)}
}

// connected calls f with a connection of gRPC of its own.
func connected(t target, f func(*grpc.ClientConn) error) error {
	conn, err := grpc.NewClient(t.GRPC, grpc.WithTransportCredentials(t.credentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

func as(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func bombs(ctx context.Context, t target, token string) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		stream, err := strandlinev1.NewLogServiceClient(conn).Append(as(ctx, token))
		if err != nil {
			return nil
		}
		for range 10 {
			if stream.Send(bombRequest()) != nil {
				break
			}
		}
		answer, err := stream.Recv()
		if err == nil && answer.GetRefused() == nil {
			return errLetIn
		}
		return nil
	})
}

func leanBombs(_ context.Context, t target, _ int) error {
	message, err := proto.Marshal(bombRequest())
	if err != nil {
		return err
	}
	sent := begun("")
	for range 10 {
		sent = append(sent, frame(2, message)...)
	}
	sent = append(sent, frame(3, nil)...)
	answer := t.say(t.GRPC, sent)
	if len(answer) > 0 && !bytes.Contains(answer, []byte("UNAUTHENTICATED")) {
		return fmt.Errorf("%w: %.100q", errLetIn, answer)
	}
	return nil
}

// store appends a batch to the log mallory.
func store(ctx context.Context, t target, conn *grpc.ClientConn, batch record.Batch) error {
	stream, err := strandlinev1.NewLogServiceClient(conn).Append(as(ctx, t.Token))
	if err != nil {
		return err
	}
	if err := stream.Send(&strandlinev1.AppendRequest{Log: "mallory", Batches: batch}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err == nil && answer.GetAppended() == nil {
		err = errors.New(answer.String())
	}
	return err
}

// readBombs begins a hundred reads of single records, and waits until each has been inflated or refused. It takes none.
func readBombs(ctx context.Context, t target, _ int) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		if err := store(ctx, t, conn, smallBomb()); err != nil {
			return nil // the time is over
		}
		reading, enough := context.WithCancel(ctx)
		defer enough()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				stream, err := strandlinev1.NewLogServiceClient(conn).Read(as(reading, t.Token), &strandlinev1.ReadRequest{
					Log: "mallory", From: &strandlinev1.ReadRequest_Offset{Offset: filled},
				})
				if err == nil {
					_, _ = stream.Header()
				}
			})
		}
		all.Wait()
		return nil
	})
}

// lookUpBombs asks for the first record of a later time, of a log whose records claim to be of 1970, as often as fits
// into a request.
func lookUpBombs(ctx context.Context, t target, _ int) error {
	began := time.Now().UnixMilli() // the search begins at the bomb
	if err := connected(t, func(conn *grpc.ClientConn) error { return store(ctx, t, conn, bomb()) }); err != nil {
		return nil // the time is over
	}
	return t.kafka(t.Kafka, "mallory", t.Password, func(c *kgo.Client) error {
		q := lookups("mallory", began, 64)
		for range 10 {
			if _, err := c.SeedBrokers()[0].Request(ctx, q); err != nil {
				return nil
			}
		}
		return nil
	})
}

// lookups asks so many times for the first record of a time or later, in a log of one partition.
func lookups(topic string, unixMs int64, times int) *kmsg.ListOffsetsRequest {
	q := kmsg.NewPtrListOffsetsRequest()
	q.Version = 6
	in := kmsg.NewListOffsetsRequestTopic()
	in.Topic = topic
	for range times {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = unixMs, -1
		in.Partitions = append(in.Partitions, p)
	}
	q.Topics = append(q.Topics, in)
	return q
}

// frame is one of a stream without HTTP/2, and begun what begins one to append.
func frame(kind byte, payload []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), kind), payload...)
}

func begun(more string) []byte {
	return append([]byte("\xf5STREAM\n"), frame(1, []byte("/strandline.v1.LogService/Append"+more))...)
}

// unfinished begins a request of 32 MiB, sends as much of it as is taken but for the end, and stays.
func unfinished(ctx context.Context, t target, _ int) error {
	conn, err := t.dial(ctx, nil, t.GRPC)
	if err != nil {
		return nil
	}
	defer conn.Close()
	forget(conn) // what the node has not read is gone with the attacker
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	head := frame(2, []byte("\x0a\x07mallory\x12\x80\x80\x80\x08")) // log, and batches of 16 MiB
	binary.LittleEndian.PutUint32(head, 32<<20)
	_, err = conn.Write(append(begun("\nauthorization: Bearer "+t.Token), head...))
	for sent := 0; err == nil && sent < 16<<20; sent += len(zeros) {
		_, err = conn.Write(zeros[:])
	}
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

var zeros [64 << 10]byte

// say sends something and returns what comes until the connection ends.
func (t target) say(address string, sent []byte) []byte {
	conn, err := t.dial(context.Background(), nil, address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = conn.Write(sent) // it may be refused before all is sent
	answer, _ := io.ReadAll(conn)
	return answer
}

// bombsProduced is a Produce of them to a log that is not mallory's.
func bombsProduced() *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 9, -1, 1000
	for range 100 {
		q.Topics = append(q.Topics, kmsg.ProduceRequestTopic{Topic: "orders", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: bomb()}}})
	}
	return q
}

func produceBombs(_ context.Context, t target, _ int) error {
	if len(t.say(t.Kafka, kmsg.NewRequestFormatter().AppendRequest(nil, bombsProduced(), 1))) > 0 {
		return errLetIn
	}
	return nil
}

func produceBombsDenied(ctx context.Context, t target, _ int) error {
	return t.kafka(t.Kafka, "mallory", t.Password, func(c *kgo.Client) error {
		for range 10 {
			answer, err := c.SeedBrokers()[0].Request(ctx, bombsProduced())
			if err != nil {
				return nil // the connection has ended
			}
			for _, topic := range answer.(*kmsg.ProduceResponse).Topics {
				if topic.Partitions[0].ErrorCode == 0 {
					return errLetIn
				}
			}
		}
		return nil
	})
}

// slowFilter takes long to compile and to evaluate.
var slowFilter = "value == 0" + strings.Repeat(" || value.size() == 1", 400)

// filters reads all of a log by a filter that selects nothing.
func filters(ctx context.Context, t target, _ int) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		stream, err := strandlinev1.NewLogServiceClient(conn).Read(as(ctx, t.Token), &strandlinev1.ReadRequest{
			Log: "mallory", Filter: &strandlinev1.Filter{Where: slowFilter},
		})
		for err == nil {
			_, err = stream.Recv()
		}
		// The node compiles expressions of a caller at a rate, and may notice the end of the time that the attack was
		// given before this process does.
		if code := status.Code(err); errors.Is(err, io.EOF) || code == codes.ResourceExhausted || code == codes.DeadlineExceeded || code == codes.Canceled {
			return nil
		}
		return err
	})
}

// lists asks for everything that there is, so often on each connection.
func lists(ctx context.Context, t target, times int) error {
	return t.kafka(t.Kafka, "mallory", t.Password, func(c *kgo.Client) error {
		for range times {
			all := kmsg.NewPtrMetadataRequest()
			all.Topics = nil
			r, err := all.RequestWith(ctx, c)
			if err != nil {
				return nil
			}
			for _, topic := range r.Topics {
				if topic.Topic != nil && !topic.IsInternal && !strings.HasPrefix(*topic.Topic, "mallory") {
					return fmt.Errorf("%w: topic %q", errLetIn, *topic.Topic)
				}
			}
			groups, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, c)
			if err != nil {
				return nil
			}
			for _, group := range groups.Groups {
				if !strings.HasPrefix(group.Group, "mallory") {
					return fmt.Errorf("%w: group %q", errLetIn, group.Group)
				}
			}
		}
		return nil
	})
}

// announce begins requests of a kind that have so many bytes, and stays.
func announce(key uint16, bytes uint32) func(context.Context, target, int) error {
	head := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, bytes), key)
	return func(ctx context.Context, t target, _ int) error {
		return t.hold(ctx, t.Kafka, string(append(head, 0, 0, 0, 0, 0, 1)))
	}
}

// announceProduce logs in, begins a large Produce, and stays.
func announceProduce(ctx context.Context, t target, _ int) error {
	a := &announcing{of: t.Authority}
	c, err := kgo.NewClient(kgo.SeedBrokers(t.Kafka), kgo.SASL(scram.Auth{User: "mallory", Pass: t.Password}.AsSha256Mechanism()), kgo.RetryTimeout(time.Second), kgo.RequestRetries(0), kgo.Dialer(a.dial))
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
	if conn := a.kept.Load(); conn != nil {
		<-ctx.Done()
		_ = (*conn).Close()
	}
	return nil
}

// announcing makes connections that turn the first request behind a login into the head of a Produce of 64 MiB,
// and keeps the one that did.
type announcing struct {
	of   Authority
	kept atomic.Pointer[net.Conn]
}

func (a *announcing) dial(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := a.of.dial(ctx, nil, address)
	return &announcingConn{conn, a}, err
}

type announcingConn struct {
	net.Conn
	of *announcing
}

func (c *announcingConn) Write(b []byte) (int, error) {
	if len(b) < 8 || c.of.kept.Load() != nil {
		return len(b), nil
	}
	switch kmsg.Key(binary.BigEndian.Uint16(b[4:])) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return c.Conn.Write(b)
	}
	head := binary.BigEndian.AppendUint32(nil, 64<<20)
	if _, err := c.Conn.Write(append(head, 0, 0, 0, 9, 0, 0, 0, 1)); err != nil {
		return 0, err
	}
	c.of.kept.Store(&c.Conn)
	return len(b), nil
}

func (c *announcingConn) Close() error {
	if kept := c.of.kept.Load(); kept != nil && *kept == c.Conn {
		return nil
	}
	return c.Conn.Close()
}

func watchHealth(ctx context.Context, t target, _ int) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		for range 100 {
			stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				return nil
			}
			if _, err := stream.Recv(); err == nil {
				return errLetIn
			}
		}
		return nil
	})
}

// hold keeps a connection, on which something was sent, until it is closed or ctx ends.
func (a Authority) hold(ctx context.Context, address, sent string) error {
	conn, err := a.dial(ctx, nil, address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.WriteString(conn, sent)
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

// idleHTTP asks for what anybody may, begins to ask for more, and stays. It is let in where it may: the answer has
// to be the last one of its connection.
func idleHTTP(ctx context.Context, t target, _ int) error {
	conn, err := t.dial(ctx, nil, t.HTTP)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	if !answer.Close {
		return errLetIn
	}
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

// elsewhere is an address that is not the honest client's.
var elsewhere = &net.TCPAddr{IP: net.IPv4(127, 1, 0, 1)}

// fillHTTP opens as many connections of one address to the HTTP port as the port keeps of all, begins to ask on each, and
// stays for as long as the node waits for the rest.
func fillHTTP(ctx context.Context, t target, _ int) error {
	const all, patience = 1000, 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range all {
		conn, err := t.dial(ctx, elsewhere, t.HTTP)
		if err != nil {
			continue
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\n")
	}
	<-ctx.Done()
	return nil
}

// asNode is what a connection between nodes begins with.
const asNode = "\xf5STRAND\n"

// half is the beginning of what a stream without HTTP/2 begins with.
const half = "\xf5STR"

// halfOpen begins what may become a stream on the gRPC port, or TLS on Kafka's.
func halfOpen(ctx context.Context, t target, worker int) error {
	if worker%2 == 0 {
		return unencrypted.hold(ctx, t.Kafka, "\x16\x03\x01")
	}
	return t.hold(ctx, t.GRPC, half)
}

// kafka calls f with a client of Kafka's protocol that logs in. It names topics in all requests: one
// that has a name where the newest version has an id would be refused for that alone.
func (a Authority) kafka(address, user, password string, f func(*kgo.Client) error) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DialTLSConfig(a.config()), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), kgo.RetryTimeout(time.Second), kgo.RequestRetries(0), kgo.MaxVersions(kversion.V3_9_0()))
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

func guess(ctx context.Context, t target, _ int) error {
	return t.kafka(t.Kafka, "mallory", rand.Text(), func(c *kgo.Client) error {
		if c.Ping(ctx) == nil {
			return errLetIn
		}
		return nil
	})
}

func names(ctx context.Context, t target, _ int) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		for range 100 {
			name := strings.Repeat("\x01", 200) + rand.Text()
			_, err := strandlinev1.NewLogServiceClient(conn).GetInfo(as(ctx, t.Token), &strandlinev1.GetInfoRequest{Log: name})
			if code := status.Code(err); code == codes.OK || code == codes.NotFound {
				return errLetIn
			}
		}
		return nil
	})
}

func kafkaNames(ctx context.Context, t target, _ int) error {
	return t.kafka(t.Kafka, "mallory", t.Password, func(c *kgo.Client) error {
		for range 20 {
			q := kmsg.NewPtrMetadataRequest()
			for range 200 {
				topic := kmsg.NewMetadataRequestTopic()
				topic.Topic = kmsg.StringPtr(strings.Repeat("x", 200) + rand.Text())
				q.Topics = append(q.Topics, topic)
			}
			r, err := q.RequestWith(ctx, c)
			if err == nil && len(r.Topics) > 0 && r.Topics[0].ErrorCode == 0 {
				return errLetIn
			}
		}
		return nil
	})
}

// sessions opens sessions until there may be no more, so many at a time.
func sessions(ctx context.Context, t target, _ int) error {
	const atOnce = 200
	return connected(t, func(conn *grpc.ClientConn) error {
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() {
				for ctx.Err() == nil {
					_, err := strandlinev1.NewSessionServiceClient(conn).OpenSession(as(ctx, t.Token), &strandlinev1.OpenSessionRequest{Log: "mallory", Lease: durationpb.New(24 * time.Hour)})
					if status.Code(err) == codes.ResourceExhausted {
						return // it has had its share
					}
				}
			})
		}
		all.Wait()
		return nil
	})
}

// aboveQuota appends to the log mallory-noisy what its quota allows in a second, on a stream: as many workers together take as many
// times the quota. What is refused because it would wait for too long is not sent again.
func aboveQuota(ctx context.Context, t target, _ int) error {
	const atOnce = 64 << 10
	batch, err := batchOf(make([]byte, atOnce))
	if err != nil {
		return err
	}
	return connected(t, func(conn *grpc.ClientConn) error {
		stream, err := strandlinev1.NewLogServiceClient(conn).Append(as(ctx, t.Token))
		if err != nil {
			return nil
		}
		go func() {
			for err := error(nil); err == nil; {
				_, err = stream.Recv()
			}
		}()
		every := time.NewTicker(time.Second * atOnce / noisyQuota)
		defer every.Stop()
		for err == nil {
			err = stream.Send(&strandlinev1.AppendRequest{Log: "mallory-noisy", Batches: batch})
			select {
			case <-every.C:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
}

func batchOf(value []byte) (record.Batch, error) {
	var b record.Builder
	if err := b.Add(record.Record{Value: value}); err != nil {
		return nil, err
	}
	return b.Finish(record.None)
}

// creates creates logs in memory until there may be no more.
func creates(ctx context.Context, t target, worker int) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		for range 100 {
			_, err := strandlinev1.NewCatalogServiceClient(conn).CreateLog(as(ctx, t.Token), &strandlinev1.CreateLogRequest{
				Name: "mallory-" + rand.Text(), Config: &strandlinev1.LogConfig{Durability: strandlinev1.Durability_DURABILITY_MEMORY},
			})
			if err != nil {
				return nil // it has had its share
			}
		}
		return nil
	})
}

// holds sets holds until there may be no more, and one more.
func holds(ctx context.Context, t target, _ int) error {
	return connected(t, func(conn *grpc.ClientConn) error {
		for range 100 {
			_, err := strandlinev1.NewLogServiceClient(conn).SetHold(as(ctx, t.Token), &strandlinev1.SetHoldRequest{
				Log: "mallory", Hold: &strandlinev1.Hold{Name: rand.Text(), Owner: strings.Repeat("x", 100)},
			})
			if err != nil {
				return nil // it has had its share
			}
		}
		return errLetIn
	})
}

// texts sends 512 KiB of JSON about the log orders that would become much more, and what opens and does not end.
func texts(t target, token string, worker int) error {
	const size = 512 << 10
	path, text := "/strandline.v1.LogService/Append", `{"log":"orders","records":[`+strings.Repeat("{},", size/3)+"{}]}"
	switch worker % 3 {
	case 1:
		path, text = "/strandline.v1.AccessService/AddGrants", `{"grants":`+strings.Repeat("[", size)
	case 2:
		path, text = "/streams/orders", "["+strings.Repeat("0,", size/2)+"0]"
	}
	sent := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
	if token != "" {
		sent += "Authorization: Bearer " + token + "\r\n"
	}
	answer := string(t.say(t.HTTP, fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", sent, len(text), text)))
	status, rest, _ := strings.Cut(strings.TrimPrefix(answer, "HTTP/1.1 "), " ")
	// A stream of appends answers that each is refused.
	if status == "200" && !strings.Contains(rest, "DENIED") || strings.HasPrefix(status, "5") {
		return fmt.Errorf("%w: %.100q", errLetIn, answer)
	}
	return nil
}

func groups(ctx context.Context, t target, worker int) error {
	return t.kafka(t.Kafka, "mallory", t.Password, func(c *kgo.Client) error {
		for i := range 100 {
			if join(ctx, c, fmt.Sprintf("mallory-%d-%d", worker, i), 200<<10) != nil {
				return nil // it has had its share
			}
		}
		return nil
	})
}

// join makes a client a member of a group, with so many bytes about itself.
func join(ctx context.Context, c *kgo.Client, group string, bytes int) error {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Group, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = group, "consumer", 30_000, 100
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, bytes)}}
	r, err := q.RequestWith(ctx, c)
	if err == nil && r.ErrorCode == kerr.MemberIDRequired.Code {
		q.MemberID = r.MemberID
		r, err = q.RequestWith(ctx, c)
	}
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(r.ErrorCode)
}
