package statemachine

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASnapshotIsReadAsItWasWritten(t *testing.T) {
	for _, digest := range [][]byte{{}, bytes.Repeat([]byte{7}, maxDigestBytes)} {
		for _, size := range []int{0, 1, 300_000} {
			state := bytes.Repeat([]byte{1}, size)
			var stored bytes.Buffer
			n, err := (&snapshot{log: 3, offset: 5, digest: digest, state: bytes.NewBuffer(state)}).WriteTo(&stored)
			require.NoError(t, err)
			require.EqualValues(t, stored.Len(), n)
			var restored []byte
			found, err := readSnapshot(&stored, n, 3, 5, func(r io.Reader) (err error) { restored, err = io.ReadAll(r); return err })
			require.NoError(t, err)
			require.True(t, bytes.Equal(digest, found))
			require.True(t, bytes.Equal(state, restored))
		}
	}
}

func TestASnapshotHasTheNameOfItsLogAndOffset(t *testing.T) {
	for _, offset := range []int64{0, 7, 1 << 61} {
		found, ok := parseSnapshotName(3, snapshotName(3, offset))
		require.True(t, ok)
		require.Equal(t, offset, found)
		_, ok = parseSnapshotName(4, snapshotName(3, offset))
		require.False(t, ok)
	}
	require.Less(t, snapshotName(3, 9), snapshotName(3, 10))
	for _, name := range []string{"", "readme.txt", "0000000000000003-1", "0000000000000003--000000000000000001", "0000000000000003-000000000000000000x"} {
		_, ok := parseSnapshotName(3, name)
		require.False(t, ok, name)
	}
}

func whole(t testing.TB) []byte {
	var stored bytes.Buffer
	_, err := (&snapshot{log: 3, offset: 5, digest: []byte("digest"), state: bytes.NewBufferString("the state")}).WriteTo(&stored)
	require.NoError(t, err)
	return stored.Bytes()
}

func read(text []byte) error {
	_, err := readSnapshot(bytes.NewReader(text), int64(len(text)), 3, 5, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	return err
}

func TestNoChangeOfASnapshotGoesUnnoticed(t *testing.T) {
	text := whole(t)
	require.NoError(t, read(text))
	for i := range text {
		require.ErrorIs(t, read(text[:i]), errDamagedSnapshot)
		for bit := range 8 {
			changed := bytes.Clone(text)
			changed[i] ^= 1 << bit
			require.ErrorIs(t, read(changed), errDamagedSnapshot, "bit %d of byte %d", bit, i)
		}
	}
}

func FuzzSnapshots(f *testing.F) {
	f.Add(whole(f))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := read(text); err != nil {
			require.ErrorIs(t, err, errDamagedSnapshot)
		}
	})
}

func TestTheLargestDigestFitsIntoAReportAndASnapshot(t *testing.T) {
	largest := bytes.Repeat([]byte{0xff}, maxDigestBytes)
	text, err := json.Marshal(report{At: math.MaxInt64, Digest: largest, Replica: strings.Repeat("n", maxNameBytes)})
	require.NoError(t, err)
	require.Less(t, 2*len(text), maxReportBytes)
	var stored bytes.Buffer
	n, err := (&snapshot{log: 3, offset: 5, digest: largest, state: new(bytes.Buffer)}).WriteTo(&stored)
	require.NoError(t, err)
	found, err := readSnapshot(&stored, n, 3, 5, func(io.Reader) error { return nil })
	require.NoError(t, err)
	require.Equal(t, largest, found)
}
