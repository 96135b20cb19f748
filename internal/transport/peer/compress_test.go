package peer

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Large messages and small ones, that compress and that do not, arrive as they were and in order, and
// in fewer bytes.
func TestCompressedMessagesArriveAsTheyWere(t *testing.T) {
	noise := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	messages := []net.Buffers{
		{[]byte("small")},
		{bytes.Repeat([]byte("abcd"), 5<<20/8), []byte("end")},
		{noise},
		{nil},
		{bytes.Repeat([]byte{7}, compressAbove)},
	}
	q, b := newQueue(unbounded{}), newBatch()
	b.compressor = newCompressor()
	bytesSent := 0
	for i, m := range messages {
		require.True(t, q.put(header{kind: messageFrame, log: uint64(i)}, m))
		bytesSent += size(m)
	}
	require.True(t, q.put(header{kind: messageFrame, lane: urgent, log: 99}, net.Buffers{[]byte("now")}))
	var wire bytes.Buffer
	for q.bytes() > 0 {
		q.take(b)
		b.compressor.flush(b)
		_, err := b.writeTo(&wire)
		require.NoError(t, err)
	}
	require.Less(t, wire.Len(), bytesSent-2<<20)
	r := newFrameReader(bufio.NewReader(&wire))
	h, payload, err := r.next()
	require.NoError(t, err)
	require.EqualValues(t, 99, h.log)
	require.Equal(t, "now", string(payload))
	for i, m := range messages {
		h, payload, err := r.next()
		require.NoError(t, err)
		require.EqualValues(t, i, h.log)
		require.True(t, bytes.Equal(bytes.Join(m, nil), payload), "message %d", i)
	}
}

// What claims to be compressed is not believed.
func TestACompressedFrameThatIsNoneEndsTheConnection(t *testing.T) {
	bomb := newCompressor().encoder.EncodeAll(make([]byte, 64<<20), nil)
	require.Less(t, len(bomb), maxPart)
	for _, payload := range [][]byte{[]byte("no zstd at all"), bomb} {
		wire := header{kind: messageFrame, compressed: true, length: uint32(len(payload))}.append(nil)
		r := newFrameReader(bufio.NewReader(bytes.NewReader(append(wire, payload...))))
		_, _, err := r.next()
		require.ErrorIs(t, err, errBadFrame)
	}
	wire := header{kind: pingFrame, compressed: true}.append(nil)
	r := newFrameReader(bufio.NewReader(bytes.NewReader(wire)))
	_, _, err := r.next()
	require.ErrorIs(t, err, errBadFrame)
}

// One side compresses, the other need not.
func TestALinkIsCompressedWhereThatWasAskedFor(t *testing.T) {
	a := newMember(t, 1, func(o *Options) { o.Compress = func(to NodeID) bool { return to == 2 } })
	b := newMember(t, 2)
	join(a, b)
	next(t, a.changes)
	next(t, b.changes)
	value := bytes.Repeat([]byte("strandline "), 1<<14)
	for _, way := range []struct {
		from, to *member
		least    uint64
		most     uint64
	}{{a, b, 0, uint64(len(value) / 10)}, {b, a, uint64(len(value)), 1 << 40}} {
		before := way.from.Stats()[0].Sent
		require.True(t, way.from.Send(way.to.node.ID, 1, 1, false, net.Buffers{value}))
		got := <-way.to.delivered
		require.True(t, bytes.Equal(value, got.message))
		sent := func() uint64 { return way.from.Stats()[0].Sent - before } // counted a moment later
		require.Eventually(t, func() bool { return sent() > 0 && sent() >= way.least }, patience, time.Millisecond)
		require.LessOrEqual(t, sent(), way.most)
	}
}
