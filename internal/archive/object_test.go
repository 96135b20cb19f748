package archive_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// built is the object of the entries of a log from the n-th on.
func built(t *testing.T, l *fakeLog, n int) (archive.Object, []byte) {
	tree, err := l.Digest(t.Context(), l.entries[n].First)
	require.NoError(t, err)
	if n == 0 {
		tree = digest.Tree{Begun: true}
	}
	b, err := archive.NewBuilder("c1", 7, "orders", tree)
	require.NoError(t, err)
	for i := n; i < len(l.entries); i++ {
		require.NoError(t, b.Add(&l.entries[i]))
	}
	o, data, err := b.Finish()
	require.NoError(t, err)
	return o, data
}

func TestAnObjectIsReadAsItWasBuiltAndHasTheDigestOfTheLog(t *testing.T) {
	l := newLog(t, 9)
	for n := range l.entries {
		o, data := built(t, l, n)
		var got []segment.Entry
		read, err := archive.ReadObject(data, func(e *segment.Entry) error {
			got = append(got, *e)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, o, read)
		require.Equal(t, l.root(never), read.Tree.Root().String())
		require.Equal(t, []record.Offset{l.entries[n].First, l.end()}, []record.Offset{o.First, o.End})
		require.Len(t, got, len(l.entries)-n)
		for i := range got {
			want := l.entries[n+i]
			require.Equal(t, want.Payload, got[i].Payload)
			require.Equal(t, []uint64{want.Index, want.Term, uint64(want.CRC)}, []uint64{got[i].Index, got[i].Term, uint64(got[i].CRC)})
		}
	}
}

func TestAnyChangedOrMissingByteOfAnObjectIsFound(t *testing.T) {
	_, data := built(t, newLog(t, 3), 0)
	for at := range data {
		changed := bytes.Clone(data)
		changed[at] ^= 1 << (at % 8)
		_, err := archive.ReadObject(changed, nil)
		require.ErrorIs(t, err, archive.ErrObject, "byte %d", at)
		_, err = archive.ReadObject(data[:at], nil)
		require.ErrorIs(t, err, archive.ErrObject, "the first %d bytes", at)
	}
	_, err := archive.ReadObject(append(bytes.Clone(data), 0), nil)
	require.ErrorIs(t, err, archive.ErrObject)
}

func TestAnObjectTakesNoEntryThatDoesNotFollow(t *testing.T) {
	l := newLog(t, 4)
	b, err := archive.NewBuilder("c1", 7, "orders", digest.Tree{Begun: true})
	require.NoError(t, err)
	require.ErrorContains(t, b.Add(&l.entries[1]), "does not follow offset 0")
	require.NoError(t, b.Add(&l.entries[0]))
	require.ErrorContains(t, b.Add(&l.entries[0]), "does not follow")
	damaged := l.entries[1]
	damaged.CRC++
	require.ErrorContains(t, b.Add(&damaged), "checksum")
}

func FuzzReadObject(f *testing.F) {
	l := &fakeLog{t: new(testing.T)}
	l.append(1, 2)
	l.append(3)
	tree := digest.Tree{Begun: true}
	b, _ := archive.NewBuilder("c1", 7, "orders", tree)
	for i := range l.entries {
		_ = b.Add(&l.entries[i])
	}
	_, data, _ := b.Finish()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := archive.ReadObject(data, nil); err == nil && o.Entries == 0 {
			t.Fatal("an object without entries was accepted")
		}
	})
}

// What an archive costs the leader of a log: three checksums and a hash of each byte.
func BenchmarkAnObject(b *testing.B) {
	l := &fakeLog{t: new(testing.T), padding: 2000}
	for range 64 {
		l.append(50)
	}
	size := int64(0)
	for i := range l.entries {
		size += int64(len(l.entries[i].Payload))
	}
	b.SetBytes(size)
	for b.Loop() {
		builder, err := archive.NewBuilder("c1", 7, "orders", digest.Tree{Begun: true})
		require.NoError(b, err)
		builder.Grow(size)
		for i := range l.entries {
			require.NoError(b, builder.Add(&l.entries[i]))
		}
		_, _, err = builder.Finish()
		require.NoError(b, err)
	}
}
