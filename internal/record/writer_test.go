package record

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheBytesOfAWriterAreForEver(t *testing.T) {
	w := Writer{Name: "indexer-3", Payload: []byte("10.0.0.3:80")}
	data := AppendWriter(nil, w)
	require.Equal(t, "0900"+"0b00"+hex.EncodeToString([]byte("indexer-310.0.0.3:80")), hex.EncodeToString(data))
	got, err := ParseWriter(data)
	require.NoError(t, err)
	require.Equal(t, w, got)
}

func TestAWriterOfAnyOtherBytesIsAnError(t *testing.T) {
	whole := AppendWriter(nil, Writer{Name: "a", Payload: []byte("b")})
	for length := range whole {
		_, err := ParseWriter(whole[:length])
		require.ErrorIs(t, err, ErrEntry, "%d bytes", length)
	}
	for name, data := range map[string][]byte{
		"bytes behind it": append(whole, 0),
		"no name":         AppendWriter(nil, Writer{Payload: []byte("b")}),
		"no text":         AppendWriter(nil, Writer{Name: "\xff"}),
		"a long name":     AppendWriter(nil, Writer{Name: strings.Repeat("a", MaxWriterName+1)}),
		"a long payload":  AppendWriter(nil, Writer{Name: "a", Payload: make([]byte, MaxWriterPayload+1)}),
	} {
		_, err := ParseWriter(data)
		require.ErrorIs(t, err, ErrEntry, name)
	}
	largest := Writer{Name: strings.Repeat("a", MaxWriterName), Payload: make([]byte, MaxWriterPayload)}
	require.Len(t, AppendWriter(nil, largest), MaxWriterBytes)
	_, err := ParseWriter(AppendWriter(nil, largest))
	require.NoError(t, err)
}
