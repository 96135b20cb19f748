package peer

import (
	"bufio"
	"bytes"
	"io"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// newFrameReader reads messages of any size, however many there are.
func newFrameReader(from *bufio.Reader) frameReader {
	return frameReader{from: from, receiving: receiving{room: unbounded{}, beyond: new(atomic.Bool)}}
}

// room is one that is used up at its size.
type room struct{ used, size int64 }

func (r *room) Changed(before, after int64) { r.used += after - before }
func (r *room) Share(most int64) int64      { return min(most, r.size-r.used) }
func (r *room) Used() int64                 { return r.used }
func (r *room) Size() int64                 { return r.size }

// wire writes frames.
type wire struct{ bytes.Buffer }

func (w *wire) part(k kind, l lane, log uint64, bytes, rest int, first bool) {
	w.Write(header{kind: k, lane: l, log: log, length: uint32(bytes), rest: uint32(rest), first: first}.append(nil))
	w.Write(make([]byte, bytes))
}

// What other nodes have begun to send takes memory until it is whole, and may never be: it counts by what it
// announces, and what has no room is read past, while everything around it arrives.
func TestAMessageForWhichThereIsNoRoomIsReadPast(t *testing.T) {
	memory := &room{size: 3 << 20}
	var w wire
	w.part(messageFrame, bulk, 1, maxPart, 3<<20, false) // alone: it has room however little there is
	w.part(messageFrame, urgent, 2, maxPart, maxPart, false)
	w.part(messageFrame, urgent, 2, maxPart, 0, false)
	w.part(messageFrame, urgent, 3, 7, 0, false)
	w.part(messageFrame, bulk, 1, maxPart, 2<<20, false)
	for rest := 1 << 20; rest >= 0; rest -= maxPart {
		w.part(messageFrame, bulk, 1, maxPart, rest, false)
	}
	w.part(messageFrame, urgent, 4, maxPart, 1, false)
	w.part(messageFrame, urgent, 4, 1, 0, false)
	w.part(messageFrame, bulk, 5, maxPart, maxPart, false) // and the connection ends
	c := newConnection(New(Options{Receiving: memory}), &timedReader{}, bufio.NewReader(&w), 2, "", false, false)
	var dropped []uint64
	c.frames.dropped = func(h header) error {
		dropped = append(dropped, h.log)
		return nil
	}
	arrived := map[uint64]int{}
	c.mesh.options.Deliver = func(_ NodeID, log, _ uint64, message []byte) {
		if arrived[log] = len(message); log == 3 {
			require.EqualValues(t, 4<<20, memory.used)
		}
	}
	require.ErrorIs(t, c.read(), io.EOF)
	require.Equal(t, map[uint64]int{1: 4 << 20, 3: 7, 4: maxPart + 1}, arrived)
	require.Equal(t, []uint64{2}, dropped)
	require.Zero(t, memory.used)
}

// However little memory there is, a follower gets its snapshot, and however many of them come at once, one has to fit.
func TestOneLargeMessageIsReceivedBeyondTheRoom(t *testing.T) {
	memory, beyond := &room{size: 10}, new(atomic.Bool)
	a, b := receiving{room: memory, beyond: beyond}, receiving{room: memory, beyond: beyond}
	require.True(t, a.begin(large, 500))
	require.False(t, b.begin(large, 500))
	require.True(t, b.begin(bulk, 500), "entries do not wait for it")
	require.False(t, b.begin(urgent, 1))
	a.close()
	require.EqualValues(t, 500, memory.used)
	require.True(t, b.begin(large, 500))
	b.end(large)
	b.end(large)
	require.False(t, beyond.Load())
	b.close()
	require.Zero(t, memory.used)
	require.True(t, a.begin(large, 5))
	require.True(t, b.begin(large, 5), "there is room")
	require.True(t, a.begin(bulk, 50), "entries of other logs do not wait for the end of a snapshot")
	require.False(t, a.begin(urgent, 1), "a second one needs room")
	a.end(bulk)
	require.True(t, a.begin(urgent, 50))
	a.close()
	b.close()
	require.Zero(t, memory.used)
}

func TestACallForWhichThereIsNoRoomFails(t *testing.T) {
	var w wire
	w.part(messageFrame, bulk, 1, maxPart, 3<<20, false)
	w.part(callFrame, urgent, 7, maxPart, 1, false)
	w.part(callFrame, urgent, 7, 1, 0, false)
	m := New(Options{Receiving: &room{size: 3 << 20}})
	c := newConnection(m, &timedReader{}, bufio.NewReader(&w), 2, "", false, false)
	require.ErrorIs(t, c.read(), io.EOF)
	r := newFrameReader(bufio.NewReader(takeAll(t, c.queue, false)))
	h, text, err := r.next()
	require.NoError(t, err)
	require.Equal(t, header{kind: failureFrame, lane: urgent, log: 7, length: uint32(len(text))}, h)
	require.Equal(t, errNoMemory.Error(), string(text))
	require.ErrorIs(t, &RemoteError{string(text)}, ErrBusy, "nothing was done")

	w.part(messageFrame, bulk, 1, maxPart, 3<<20, false)
	w.part(callFrame, urgent, 7, maxPart, 1, false)
	w.part(callFrame, urgent, 7, 1, 0, false)
	c = newConnection(m, &timedReader{}, bufio.NewReader(&w), 2, "", false, false)
	for range laneMessages {
		require.True(t, c.queue.put(header{kind: failureFrame, lane: urgent}, nil))
	}
	require.ErrorIs(t, c.read(), errNoMemory, "the caller learns by the end of the connection that nobody answers")

	w.Reset()
	w.part(messageFrame, bulk, 1, maxPart, 3<<20, false)
	w.part(answerFrame, urgent, 1, maxPart, 1, false)
	c = newConnection(m, &timedReader{}, bufio.NewReader(&w), 2, "", false, false)
	number, answered := c.calls.begin()
	require.EqualValues(t, 1, number)
	require.ErrorIs(t, c.read(), io.EOF)
	err = (<-answered).err
	require.ErrorIs(t, err, errNoMemory)
	require.NotErrorIs(t, err, ErrBusy, "it was answered")
}

// Anybody may ask: 256 of them at once, each with what it says before it is known who it is.
func TestANodeThatOnlyAsksIsBrief(t *testing.T) {
	var w wire
	w.part(callFrame, bulk, 7, 1, maxAsked, false)
	c := newConnection(New(Options{}), &timedReader{}, bufio.NewReader(&w), 0, "", true, true)
	require.ErrorContains(t, c.read(), "a connection for one call sends 65537 bytes, the limit is 65536")
	for number := range uint64(4) {
		require.NoError(t, c.answers.begin(number, maxAsked, func() {}))
	}
	require.ErrorIs(t, c.answers.begin(9, 1, func() {}), errTooMuch)

	a := newMember(t, 1)
	most := make([]byte, maxAsked-len("?who"))
	answer, err := a.Ask(t.Context(), a.node.Address, "who", most)
	require.NoError(t, err)
	require.Contains(t, string(answer), "who")
	_, err = a.Ask(t.Context(), a.node.Address, "who", append(most, 0))
	require.ErrorContains(t, err, "for one call is 65536")
}
