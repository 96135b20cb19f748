package archive_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
)

// threeObjects is an archive of three objects.
func threeObjects(t *testing.T) (*memory, *archive.Manifest) {
	l, b := newLog(t, 0), newMemory()
	u := l.uploader(b)
	for range 3 {
		l.append(2, 1)
		l.append(1)
		upload(t, u)
	}
	return b, manifest(t, b)
}

func TestVerifySaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct {
		name    string
		damage  func(b *memory, m *archive.Manifest)
		problem string
	}{
		{"a changed bit", func(b *memory, m *archive.Manifest) { b.objects[objectName+m.Objects[1].Name][300] ^= 4 }, "does not match its checksum"},
		{"a cut object", func(b *memory, m *archive.Manifest) {
			name := objectName + m.Objects[1].Name
			b.objects[name] = b.objects[name][:len(b.objects[name])-30]
		}, "cut short"},
		{"a missing object", func(b *memory, m *archive.Manifest) { delete(b.objects, objectName+m.Objects[1].Name) }, "no such object"},
		{"another object", func(b *memory, m *archive.Manifest) {
			b.objects[objectName+m.Objects[1].Name] = b.objects[objectName+m.Objects[2].Name]
		}, "the manifest names"},
		{"another digest", func(_ *memory, m *archive.Manifest) { m.Objects[1].Digest = m.Objects[0].Digest }, "its digest as of offset 8 is"},
		{"another log", func(b *memory, m *archive.Manifest) {
			name := objectName + m.Objects[1].Name
			l := &fakeLog{t: t}
			l.append(4)
			l.append(2, 1)
			l.append(1)
			_, b.objects[name] = built(t, l, 1)
		}, "it does not continue the digest of the object before"},
	} {
		b, m := threeObjects(t)
		c.damage(b, m)
		v, err := archive.Archive{Bucket: b}.Verify(t.Context(), m, nil)
		require.NoError(t, err, c.name)
		require.NotEmpty(t, v.Problems, c.name)
		require.Contains(t, v.Problems[0].String()+v.Problems[len(v.Problems)-1].String(), c.problem, c.name)
		require.Equal(t, m.Objects[1].Name, v.Problems[0].Object, c.name)
		require.Equal(t, m.Objects[1].First, v.Problems[0].First, c.name)
	}
	b, m := threeObjects(t)
	b.fault = func(op, _ string) string { return "before" }
	_, err := archive.Archive{Bucket: b}.Verify(t.Context(), m, nil)
	require.ErrorIs(t, err, errBucket, "an archive that cannot be read is not called damaged")
}

func TestAManifestThatCannotBeIsRefused(t *testing.T) {
	for name, change := range map[string]func(m *archive.Manifest){
		"a format to come":    func(m *archive.Manifest) { m.Format++ },
		"a part is missing":   func(m *archive.Manifest) { m.Objects = append(m.Objects[:1:1], m.Objects[2]) },
		"parts overlap":       func(m *archive.Manifest) { m.Objects[1].First-- },
		"no parts":            func(m *archive.Manifest) { m.Objects = nil },
		"no tree":             func(m *archive.Manifest) { m.Tree = m.Tree[:20] },
		"a negative offset":   func(m *archive.Manifest) { m.Objects[0].First = -1 },
		"a name elsewhere":    func(m *archive.Manifest) { m.Objects[0].Name = "../../x" },
		"a first one cut off": func(m *archive.Manifest) { m.Objects = m.Objects[1:] },
	} {
		_, m := threeObjects(t)
		change(m)
		data, err := json.Marshal(m)
		require.NoError(t, err)
		_, err = archive.ParseManifest(data)
		require.ErrorIs(t, err, archive.ErrManifest, name)
	}
	_, err := archive.ParseManifest(bytes.Repeat([]byte("["), 1<<16))
	require.ErrorIs(t, err, archive.ErrManifest)
}

func TestAListShowsEachLogAndWhatCannotBeRead(t *testing.T) {
	b, m := threeObjects(t)
	b.objects["clusters/c2/logs/9/manifest.json"] = []byte("{}")
	all, err := archive.Archive{Bucket: b}.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.ErrorIs(t, all[0].Err, archive.ErrManifest)
	require.Equal(t, m, all[1].Manifest)

	// A listing that trails shows fewer logs, and one that shows an object that is gone says so.
	b.listed = []string{"clusters/c1/logs/8/manifest.json"}
	all, err = archive.Archive{Bucket: b}.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.ErrorIs(t, all[0].Err, archive.ErrNotFound)
}
