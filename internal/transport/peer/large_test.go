package peer

import (
	"bufio"
	"bytes"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// takeAll returns what a queue has to send, as it goes on the wire.
func takeAll(t *testing.T, q *queue, compressed bool) *bytes.Buffer {
	t.Helper()
	b, wire := newBatch(), new(bytes.Buffer)
	if compressed {
		b.compressor = newCompressor()
	}
	for q.bytes() > 0 {
		takeBatch(t, q, b, wire)
	}
	return wire
}

func takeBatch(t *testing.T, q *queue, b *batch, wire *bytes.Buffer) {
	t.Helper()
	q.take(b)
	if b.compressor != nil {
		b.compressor.flush(b)
	}
	_, err := b.writeTo(wire)
	require.NoError(t, err)
}

func TestAMessageAboveTheUsualSizeArrivesBesideTheOthers(t *testing.T) {
	a, b := pair(t)
	snapshot := bytes.Repeat([]byte("0123456789abcde\n"), MaxMessage/16+1)
	require.True(t, a.Send(2, 7, 9, false, net.Buffers{snapshot[:5], snapshot[5:]}))
	for i := range byte(8) {
		require.True(t, a.Send(2, 8, 1, false, net.Buffers{{i}}))
	}
	others := byte(0)
	for range 9 {
		switch got := next(t, b.delivered); got.log {
		case 7:
			require.EqualValues(t, 9, got.replica)
			require.True(t, bytes.Equal(snapshot, got.message))
		default:
			require.Equal(t, delivery{1, 8, 1, []byte{others}}, got)
			others++
		}
	}
	require.EqualValues(t, 8, others)
}

func TestALargeMessageTakesTheLesserPartOfABusyLink(t *testing.T) {
	q, b := newQueue(unbounded{}), newBatch()
	require.True(t, q.putLarge(header{kind: messageFrame, log: 1}, net.Buffers{make([]byte, 8<<20)}))
	for range 32 {
		require.True(t, q.put(header{kind: messageFrame, log: 2}, net.Buffers{make([]byte, 1<<20)}))
	}
	sent := map[uint64]int{}
	for sent[2] < 32 {
		logs, _ := nextFrames(t, q, b)
		for _, l := range logs {
			sent[l]++
		}
	}
	require.Equal(t, 32, sent[1], "one part with each batch of the others, and each part is a quarter")
}

// A snapshot that is sent again because it has not arrived yet does not begin anew each time, nor does another one
// that is newer by then take the place of what is under way: none would ever arrive.
func TestALargeMessageThatIsUnderWayArrives(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		q, b, wire := newQueue(unbounded{}), newBatch(), new(bytes.Buffer)
		if compressed {
			b.compressor = newCompressor()
		}
		state := func(name string, bytesOf int) net.Buffers {
			return net.Buffers{[]byte(name), bytes.Repeat([]byte(name), bytesOf/len(name))}
		}
		put := func(log uint64, m net.Buffers) {
			require.True(t, q.putLarge(header{kind: messageFrame, log: log, replica: 3}, m))
		}
		older, other, newer, newest := state("old.", 4<<20), state("other", 1<<20), state("new.", 2<<20), state("newest", 2<<20)
		put(1, older)
		put(2, other)
		takeBatch(t, q, b, wire)
		for range 3 { // each time read anew from the disk
			before := q.bytes()
			put(1, state("old.", 4<<20))
			require.Equal(t, before, q.bytes(), "the one that is under way continues")
		}
		put(1, newer)
		before := q.bytes()
		put(1, newer)
		put(1, state("new.", 2<<20))
		put(1, older)
		require.Equal(t, before, q.bytes())
		put(1, newest)
		require.Equal(t, before+int64(size(newest)-size(newer)), q.bytes(), "one under way, and one that waits")
		_, err := wire.ReadFrom(takeAll(t, q, compressed))
		require.NoError(t, err)

		r := newFrameReader(bufio.NewReader(wire))
		for _, want := range []struct {
			log     uint64
			message net.Buffers
		}{{1, older}, {2, other}, {1, newest}} {
			h, payload, err := r.next()
			require.NoError(t, err)
			require.Equal(t, want.log, h.log)
			require.True(t, bytes.Equal(slices.Concat(want.message...), payload))
		}
		require.Zero(t, wire.Len())
		require.Zero(t, q.bytes())
	}
}

// The loop of a replica sends its snapshot again and again while it does not arrive, and may not read it all each
// time. A byte that changes while it waits shows when it is read: callers never do that.
func TestALargeMessageIsReadByTheWriterAndNotByWhoSendsIt(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		for _, pieces := range []int{MaxMessage, largePart - 2, 1000} { // the CRC lies in one part, or in two
			q := newQueue(unbounded{})
			message := bytes.Repeat([]byte("snap"), (8*largePart-2)/4)
			parts := append(net.Buffers{message[:20]}, slices.Collect(slices.Chunk(message[20:], pieces))...)
			require.True(t, q.putLarge(header{kind: messageFrame, log: 1}, parts))
			b := newBatch()
			if compressed {
				b.compressor = newCompressor()
			}
			wire := new(bytes.Buffer)
			takeBatch(t, q, b, wire)
			message[len(message)-1]++
			again := slices.Clone(message) // which is not the same memory, nor is it divided alike
			again[len(again)/2]++
			require.True(t, q.putLarge(header{kind: messageFrame, log: 1}, net.Buffers{again[:20], again[20:]}))
			_, err := wire.ReadFrom(takeAll(t, q, compressed))
			require.NoError(t, err)
			r := newFrameReader(bufio.NewReader(wire))
			_, payload, err := r.next()
			require.NoError(t, err)
			require.True(t, bytes.Equal(message, payload))
			require.Zero(t, wire.Len(), "it is the same one by its first part")
		}
	}
}

func TestALargeMessageThatArrivesDamagedEndsTheConnection(t *testing.T) {
	whole := func() *bytes.Buffer {
		q := newQueue(unbounded{})
		require.True(t, q.putLarge(header{kind: messageFrame}, net.Buffers{make([]byte, 3*largePart)}))
		return takeAll(t, q, false)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"a bit that flipped": func(b []byte) []byte { b[headerSize+largePart/2] ^= 1; return b },
		"no beginning":       func(b []byte) []byte { return b[headerSize+largePart:] },
		"a call":             func([]byte) []byte { return header{kind: callFrame, lane: large, first: true}.append(nil) },
		"of another lane":    func([]byte) []byte { return header{kind: messageFrame, first: true}.append(nil) },
		"without a CRC":      func([]byte) []byte { return header{kind: messageFrame, lane: large, first: true}.append(nil) },
		"above the limit": func([]byte) []byte {
			return header{kind: messageFrame, lane: large, first: true, length: 1, rest: MaxLargeMessage + sumSize}.append(nil)
		},
	} {
		r := newFrameReader(bufio.NewReader(bytes.NewReader(damage(whole().Bytes()))))
		_, _, err := r.next()
		require.ErrorIs(t, err, errBadFrame, name)
	}
}

// written is what links log while a test reads it.
type written struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// Anybody may ask: what is refused in the end is not to take a gigabyte until then.
func TestAConnectionForCallsOnlyReadsNothingOfAMessage(t *testing.T) {
	wire := bytes.NewReader(header{kind: messageFrame, lane: large, first: true, length: 1, rest: 1<<30 - 1}.append(nil))
	r := newFrameReader(bufio.NewReader(wire))
	r.callsOnly = true
	_, _, err := r.next()
	require.ErrorIs(t, err, errBadFrame)
	require.ErrorContains(t, err, "only calls are allowed")

	wire = bytes.NewReader(header{kind: callFrame, log: 7}.append(nil))
	r = frameReader{from: bufio.NewReader(wire), callsOnly: true}
	h, _, err := r.next()
	require.NoError(t, err)
	require.EqualValues(t, 7, h.log)
}

// A node of an earlier release would end the connection over a lane that it does not know.
func TestAMessageThatTheOtherNodeDoesNotTakeIsReportedAndCounted(t *testing.T) {
	var logged written
	var counted atomic.Int32
	a := newMember(t, 1, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
		o.TooLarge = func() { counted.Add(1) }
	})
	b := newMember(t, 2, func(o *Options) { o.noLarge = true })
	join(a, b)
	next(t, a.changes)
	next(t, b.changes)
	message := make([]byte, MaxMessage+1)
	for range 3 {
		require.False(t, a.Send(2, 7, 9, false, net.Buffers{message}))
	}
	require.False(t, a.Send(2, 8, 9, true, net.Buffers{message}), "there is no lane for it")
	require.EqualValues(t, 4, counted.Load())
	said := logged.String()
	require.Equal(t, 1, strings.Count(said, "upgrade it"), said)
	require.Equal(t, 2, strings.Count(said, "too large"), "once for each log: %s", said)
	require.True(t, a.Send(2, 7, 9, false, net.Buffers{message[1:]}))
	require.Len(t, next(t, b.delivered).message, MaxMessage)
}
