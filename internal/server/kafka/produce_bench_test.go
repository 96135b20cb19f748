package kafkaserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// BenchmarkProduce sends batches of one 2 KiB record over loopback, some of
// them in flight on each connection, to a log that answers from a goroutine of
// its own, as a replica does. The client knows no more of the protocol than
// lengths, so that nearly all that is measured is the server and the kernel.
func BenchmarkProduce(b *testing.B) {
	for _, connections := range []int{1, 128} {
		for _, inFlight := range []int{1, 5} {
			b.Run(fmt.Sprintf("connections=%d/inflight=%d", connections, inFlight), func(b *testing.B) {
				benchmarkProduce(b, connections, inFlight)
			})
		}
	}
}

// answeringNode is a node of which the benchmark uses no more than this.
type answeringNode struct {
	backend.Node
	answers chan func()
}

func (n answeringNode) Append(_ verbs.Caller, _ string, a *sequence.Append, _, done func(sequence.Answer)) {
	records := a.Records
	n.answers <- func() { done(sequence.Answer{First: sequence.Run{First: 7, Count: uint32(records)}}) }
}

func (n answeringNode) ConfigOf(string) *settings.Config { return nil }

func (n answeringNode) Bounds(verbs.Caller, string) (verbs.Bounds, error) { return verbs.Bounds{}, nil }

func (answeringNode) Connected(string, int, net.Addr, func()) (func(context.Context) error, func()) {
	return func(context.Context) error { return nil }, func() {}
}

func (n answeringNode) Identify(identity.Principal, net.Addr, string) (*guard.Holder, *record.Refusal) {
	return nil, nil
}

func (n answeringNode) Enforced() bool                          { return false }
func (answeringNode) SlowHolder(context.Context, *guard.Holder) {}
func (n answeringNode) Rules() *access.Rules                    { return nil }
func (n answeringNode) Believed(*guard.Holder) bool             { return true }

func benchmarkProduce(b *testing.B, connections, inFlight int) {
	n := answeringNode{answers: make(chan func(), 1024)}
	go func() {
		for answer := range n.answers {
			answer()
		}
	}()
	defer close(n.answers)
	s := New(n, Options{Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = s.Serve(l) }()
	defer s.Stop(context.Background())

	q := produceRequest("orders", acksAll, batchOf(b, record.None, strings.Repeat("x", 2048)))
	frame := (&raw{}).frame(q)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	b.ResetTimer()
	var clients sync.WaitGroup
	for i := range connections {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(b, err)
		clients.Go(func() {
			defer conn.Close()
			if err := exchange(conn, frame, b.N/connections+min(1, max(0, b.N%connections-i)), inFlight); err != nil {
				b.Error(err)
			}
		})
	}
	clients.Wait()
}

// exchange sends a frame so many times and receives as many answers.
func exchange(conn net.Conn, frame []byte, times, inFlight int) error {
	answer := make([]byte, 4<<10)
	for sent, received := 0, 0; received < times; received++ {
		for ; sent < times && sent < received+inFlight; sent++ {
			if _, err := conn.Write(frame); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(conn, answer[:4]); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, answer[:binary.BigEndian.Uint32(answer)]); err != nil {
			return err
		}
	}
	return nil
}
