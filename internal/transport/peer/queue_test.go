package peer

import (
	"bufio"
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/test/corpus"
)

// nextFrames takes one batch and returns the logs of its frames.
func nextFrames(t *testing.T, q *queue, b *batch) (logs []uint64, wire []byte) {
	t.Helper()
	q.take(b)
	var out bytes.Buffer
	_, err := b.writeTo(&out)
	require.NoError(t, err)
	wire = out.Bytes()
	for rest := wire; len(rest) > 0; {
		h, err := parseHeader(rest)
		require.NoError(t, err)
		logs = append(logs, h.log)
		rest = rest[headerSize+int(h.length):]
	}
	return logs, wire
}

func TestAnUrgentMessageGetsInBetweenThePartsOfALargeOne(t *testing.T) {
	q, b := newQueue(unbounded{}), newBatch()
	large := bytes.Repeat([]byte("abcd"), 5<<20/8)
	require.True(t, q.put(header{kind: messageFrame, log: 1}, net.Buffers{large}))
	logs, wire := nextFrames(t, q, b)
	require.Equal(t, []uint64{1}, logs)
	require.True(t, q.put(header{kind: messageFrame, lane: urgent, log: 2}, net.Buffers{[]byte("now")}))
	logs, more := nextFrames(t, q, b)
	require.Equal(t, []uint64{2, 1}, logs)
	wire = append(wire, more...)
	_, more = nextFrames(t, q, b)
	wire = append(wire, more...)

	r := newFrameReader(bufio.NewReader(bytes.NewReader(wire)))
	h, payload, err := r.next()
	require.NoError(t, err)
	require.Equal(t, uint64(2), h.log)
	require.Equal(t, "now", string(payload))
	_, payload, err = r.next()
	require.NoError(t, err)
	require.True(t, bytes.Equal(large, payload))
	require.Zero(t, q.bytes())
}

func TestAFloodOfUrgentMessagesDoesNotStarveTheOthers(t *testing.T) {
	q, b := newQueue(unbounded{}), newBatch()
	require.True(t, q.put(header{kind: messageFrame, log: 1}, net.Buffers{make([]byte, 100)}))
	for range 20000 {
		require.True(t, q.put(header{kind: messageFrame, lane: urgent, log: 2}, net.Buffers{make([]byte, 100)}))
	}
	logs, _ := nextFrames(t, q, b)
	require.Contains(t, logs, uint64(1))
}

func TestAFullLaneDropsWhatComesAndTheOtherLaneGoesOn(t *testing.T) {
	q, b := newQueue(unbounded{}), newBatch()
	large := net.Buffers{make([]byte, 8<<20-headerSize)}
	for range bulkQueueBytes / (8 << 20) {
		require.True(t, q.put(header{kind: messageFrame}, large))
	}
	require.False(t, q.put(header{kind: messageFrame}, nil))
	require.True(t, q.put(header{kind: messageFrame, lane: urgent}, nil))
	nextFrames(t, q, b)
	require.True(t, q.put(header{kind: messageFrame}, nil))
	q.close()
	require.False(t, q.put(header{kind: messageFrame}, nil))
	require.False(t, q.putWhenRoom(header{kind: messageFrame}, nil))
}

// A node that takes nothing leaves the others their share.
func TestQueuesShareTheMemory(t *testing.T) {
	const size = 8 << 20
	all := budget.NewShares(size)
	slow, other, b := newQueue(all), newQueue(all), newBatch()
	message := net.Buffers{make([]byte, 1<<20-headerSize)}
	for slow.put(header{kind: messageFrame}, message) {
	}
	require.EqualValues(t, size, slow.bytes(), "there is nobody else")
	for range 4 {
		require.True(t, other.put(header{kind: messageFrame}, message))
	}
	require.False(t, other.put(header{kind: messageFrame}, message), "half is its share")
	require.False(t, slow.put(header{kind: messageFrame}, message))
	for other.bytes() > 0 {
		nextFrames(t, other, b)
	}
	require.EqualValues(t, size, all.Used())
	require.True(t, other.put(header{kind: messageFrame}, net.Buffers{make([]byte, 2*size)}), "one message always")
	slow.close()
	other.close()
	require.Zero(t, all.Used())
}

func FuzzFrames(f *testing.F) {
	corpus.Add(f)
	whole := append(header{kind: messageFrame, length: 3}.append(nil), "abc"...)
	f.Add(whole)
	f.Add(append(header{kind: messageFrame, length: 1, rest: 3}.append(nil), append([]byte("z"), whole...)...))
	f.Add(header{kind: messageFrame, length: maxPart, rest: MaxMessage - maxPart}.append(nil))
	f.Add(append(verdict{refused, "no"}.encode(), opening{oldest: 1}.encode()...))
	f.Fuzz(func(t *testing.T, wire []byte) {
		_, _ = readOpening(bytes.NewReader(wire))
		_, _ = readVerdict(bytes.NewReader(wire))
		r := newFrameReader(bufio.NewReader(bytes.NewReader(wire)))
		for {
			_, payload, err := r.next()
			if err != nil {
				return
			}
			require.LessOrEqual(t, len(payload), len(wire))
			require.Equal(t, len(payload), cap(payload))
		}
	})
}
