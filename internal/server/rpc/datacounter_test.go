package rpc

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"strandline.dev/internal/transport/lean"
)

func TestOnlyWhatBelongsToMessagesIsCounted(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&sent, nil)
	require.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 300), EndHeaders: true}))
	require.NoError(t, framer.WriteData(1, false, make([]byte, 10_000)))
	require.NoError(t, framer.WriteSettingsAck())
	require.NoError(t, framer.WriteData(1, true, make([]byte, 70)))
	require.NoError(t, framer.WritePing(false, [8]byte{}))
	for _, size := range []int{1, 2, 7, 64, 1000, sent.Len()} {
		var c dataCounter
		counted, frames := 0, 0
		for rest := sent.Bytes(); len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			n, begun := c.count(piece)
			counted, frames, rest = counted+n, frames+begun, rest[len(piece):]
		}
		require.Equal(t, 10_070, counted, size)
		require.Equal(t, 2, frames, size)
	}

	other := append([]byte("PRI"), lean.Magic...)
	var c dataCounter
	for _, piece := range []struct {
		bytes   []byte
		counted int
	}{
		{other[:2], 0}, // it may become HTTP/2
		{other[2:], len(other)},
		{other[:5], 5},
	} {
		counted, frames := c.count(piece.bytes)
		require.Equal(t, piece.counted, counted)
		require.Zero(t, frames)
	}
}
