package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// kmsg takes any other value than -1 for a struct that is there.
func TestAStructIsNullForMinusOneAlone(t *testing.T) {
	l := ParseLayout("{s} i")
	rest := []byte{0, 0, 0, 7, 0} // with the tags of all
	for first, named := range map[byte][]byte{0xff: nil, 1: {2, 'x', 0}, 0xfe: {2, 'x', 0}, 0: {2, 'x', 0}} {
		data := append(append([]byte{first}, named...), rest...)
		left, _, err := l.Check(data, 0, true)
		require.NoError(t, err, first)
		require.Empty(t, left, first)
		_, _, err = l.Check(data[:len(data)-1], 0, true)
		require.Error(t, err, first)
	}
	_, _, err := l.Check(nil, 0, true)
	require.Error(t, err)
}
