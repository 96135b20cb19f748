package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func kafkaMessage(body ...any) []byte {
	var b bytes.Buffer
	for _, part := range body {
		if err := binary.Write(&b, binary.BigEndian, part); err != nil {
			panic(err)
		}
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(b.Len())), b.Bytes()...)
}

// cutUp feeds the bytes in pieces of every size in turn.
func cutUp(data []byte, feed func([]byte)) {
	for size := 1; len(data) > 0; size++ {
		n := min(size, len(data))
		feed(data[:n])
		data = data[n:]
	}
}

func TestProduceRequestsAreInFlightUntilTheirResponse(t *testing.T) {
	const metadata = 3
	c := NewCounter(Kafka)
	var up, down []byte
	for id := range uint32(7) {
		up = append(up, kafkaMessage(uint16(kafkaProduce), uint16(9), id, make([]byte, 100))...)
	}
	up = append(up, kafkaMessage(uint16(metadata), uint16(9), uint32(7))...)
	for _, id := range []uint32{0, 7, 1} {
		down = append(down, kafkaMessage(id, make([]byte, 30))...)
	}
	cutUp(up, func(b []byte) { c.Up(1, b) })
	cutUp(down, func(b []byte) { c.Down(1, b) })
	counts, err := c.Counts()
	require.NoError(t, err)
	require.Equal(t, Counts{Requests: 7, Answers: 2, InFlight: 5, Most: 7, Up: int64(len(up)), Down: int64(len(down))}, counts)
	require.EqualValues(t, 2, c.Latency().TotalCount())
}

func TestAnAnswerMakesRoomForOneRequest(t *testing.T) {
	c := NewCounter(Kafka)
	request := func(id uint32) { c.Up(1, kafkaMessage(uint16(kafkaProduce), uint16(9), id)) }
	request(1)
	request(2)
	c.Down(1, kafkaMessage(uint32(1)))
	c.Down(1, kafkaMessage(uint32(1))) // nobody asked
	request(3)
	request(4)
	counts, err := c.Counts()
	require.NoError(t, err)
	require.Equal(t, 3, counts.Most)
	require.Equal(t, 3, counts.InFlight)
}

func TestTheMostIsThatOfOneConnection(t *testing.T) {
	c := NewCounter(Kafka)
	for conn := range uint64(3) {
		c.Up(conn, kafkaMessage(uint16(kafkaProduce), uint16(9), uint32(1)))
	}
	counts, err := c.Counts()
	require.NoError(t, err)
	require.Equal(t, 3, counts.InFlight)
	require.Equal(t, 1, counts.Most)
}

func TestBytesThatAreNoProtocolEndTheCount(t *testing.T) {
	c := NewCounter(Kafka)
	c.Up(1, bytes.Repeat([]byte{0xff}, 64))
	_, err := c.Counts()
	require.ErrorContains(t, err, "with a length of")
}

func grpcMessage(size int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, size)...)
}

func TestAppendMessagesAreCountedAndOtherStreamsAreNot(t *testing.T) {
	var up, down, block bytes.Buffer
	up.WriteString(http2Preface)
	sending, answering := http2.NewFramer(&up, nil), http2.NewFramer(&down, nil)
	encoder := hpack.NewEncoder(&block)
	open := func(stream uint32, path string) {
		block.Reset()
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: ":path", Value: path}))
		half := block.Len() / 2
		require.NoError(t, sending.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: block.Bytes()[:half], PadLength: 3,
			Priority: http2.PriorityParam{Weight: 7},
		}))
		require.NoError(t, sending.WriteContinuation(stream, true, block.Bytes()[half:]))
	}
	require.NoError(t, sending.WriteSettings())
	open(1, appendPath)
	open(3, "/strandline.v1.LogService/Read")
	open(5, appendPath)

	three := append(append(grpcMessage(10), grpcMessage(0)...), grpcMessage(1000)...)
	require.NoError(t, sending.WriteData(1, false, three[:12]))
	require.NoError(t, sending.WriteDataPadded(1, false, three[12:], make([]byte, 9)))
	require.NoError(t, sending.WriteData(3, false, grpcMessage(1)))
	require.NoError(t, sending.WriteData(5, false, grpcMessage(5)))
	require.NoError(t, answering.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true}))
	require.NoError(t, answering.WriteData(1, false, append(grpcMessage(4), grpcMessage(4)...)))
	require.NoError(t, answering.WriteData(3, false, grpcMessage(4)))

	c := NewCounter(Strandline)
	cutUp(up.Bytes(), func(b []byte) { c.Up(1, b) })
	cutUp(down.Bytes(), func(b []byte) { c.Down(1, b) })
	counts, err := c.Counts()
	require.NoError(t, err)
	require.EqualValues(t, 4, counts.Requests)
	require.EqualValues(t, 2, counts.Answers)
	require.Equal(t, 2, counts.InFlight)
	require.Equal(t, 4, counts.Most)
}

func leanFrame(kind byte, payload string) []byte {
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), kind), payload...)
}

func TestAppendsOnStreamsOfTheirOwnAreCounted(t *testing.T) {
	const alive, accepted = 6, 4
	for path, appends := range map[string]int64{
		appendPath: 3, appendPath + "\nauthorization: bearer x": 3,
		"/strandline.v1.LogService/Read": 0, appendPath + "More": 0,
	} {
		up := append([]byte(leanMagic), leanFrame(leanCall, path)...)
		for _, size := range []int{0, 10, 1000} {
			up = append(append(up, leanFrame(leanMessage, string(make([]byte, size)))...), leanFrame(alive, "")...)
		}
		down := append(leanFrame(accepted, ""), leanFrame(leanMessage, "0123")...)
		c := NewCounter(Strandline)
		cutUp(up, func(b []byte) { c.Up(1, b) })
		cutUp(down, func(b []byte) { c.Down(1, b) })
		counts, err := c.Counts()
		require.NoError(t, err)
		require.Equal(t, appends, counts.Requests, path)
		require.Equal(t, min(appends, 1), counts.Answers, path)
		require.EqualValues(t, appends, counts.Most, path)
	}
}
