package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// damage does something to one segment of a node that is stopped meanwhile.
func damage(do func(s *scene, file string)) func(*scene) func() {
	return func(s *scene) func() {
		n := s.node()
		if n == nil {
			return nil
		}
		segments := func() []string {
			found, err := filepath.Glob(filepath.Join(n.Data(), "logs", "*", "*", "*.seg"))
			require.NoError(s.t, err)
			slices.Sort(found)
			return found
		}
		// Copies of the segments as they are, for those who want an older one.
		s.older = s.t.TempDir()
		for _, file := range segments() {
			copyFile(s, file, s.copyOf(file))
		}
		time.Sleep(s.hold)
		n.Kill()
		do(s, s.pick(segments()))
		return func() {
			require.NoError(s.t, os.RemoveAll(s.older))
			s.start(n)
		}
	}
}

func flipBit(s *scene, file string) {
	content, err := os.ReadFile(file)
	require.NoError(s.t, err)
	at := s.dice.IntN(len(content))
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(s.t, err)
	_, err = f.WriteAt([]byte{content[at] ^ 1<<s.dice.IntN(8)}, int64(at))
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
	s.t.Logf("  a bit of byte %d of %s", at, file)
}

func removeFile(s *scene, file string) {
	require.NoError(s.t, os.Remove(file))
	s.t.Logf("  %s", file)
}

// staleFile: a segment that is new since the copies were made is left as it is.
func staleFile(s *scene, file string) {
	older := s.copyOf(file)
	if _, err := os.Stat(older); err != nil {
		s.without = "the segment is newer than the copies"
		return
	}
	copyFile(s, older, file)
	s.t.Logf("  %s", file)
}

// copyOf is where the older copy of a segment is.
func (s *scene) copyOf(file string) string {
	return filepath.Join(s.older, strings.ReplaceAll(file, string(filepath.Separator), "_"))
}

func copyFile(s *scene, from, to string) {
	content, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return // recycled meanwhile
	}
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(to, content, 0o644))
}
