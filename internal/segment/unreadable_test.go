package segment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
)

// A disk that has lost a sector says so, again and again. What was there is
// damaged like what it gives back wrongly, and is repaired from others.
func TestASectorThatCannotBeReadIsRepaired(t *testing.T) {
	places := map[string]func(t *testing.T, c *copies, name string) (from, size int64){
		"in a payload": func(t *testing.T, c *copies, name string) (int64, int64) {
			f := frameIn(t, c.disks[0], name, "entry", 2)
			return f.Position + f.Size - 1, 1
		},
		"a frame's header": func(t *testing.T, c *copies, name string) (int64, int64) {
			return frameIn(t, c.disks[0], name, "entry", 1).Position, 1
		},
		"the footer, and what shares its sector": func(t *testing.T, c *copies, name string) (int64, int64) {
			f := frameIn(t, c.disks[0], name, "footer", -1)
			return f.Position, f.Size
		},
		"the segment's header": func(*testing.T, *copies, string) (int64, int64) { return 0, 1 },
		"all of it": func(t *testing.T, c *copies, name string) (int64, int64) {
			return 0, int64(len(c.disks[0].Content(name)))
		},
	}
	for what, place := range places {
		t.Run(what, func(t *testing.T) {
			c := newCopies(t, 7, 60)
			segments := segmentsOn(c.disks[0])
			name := segments[len(segments)-3]
			from, size := place(t, c, name)
			c.disks[0].Unreadable(name, from, size)

			var corrupt *segment.CorruptError
			require.ErrorAs(t, readAll(c), &corrupt)
			require.Equal(t, name, corrupt.File)
			c.disks[0].Restart()
			_, err := repairFiles(c.disks[0], c.giver(t), c.commit, 1<<20)
			require.NoError(t, err)
			c.requireWhole(t)
		})
	}
}

// Where nothing vouches for what follows, unreadable bytes are not taken for the
// end of the log.
func TestANewestSegmentThatCannotBeReadIsNotCut(t *testing.T) {
	c := newCopies(t, 7, 60)
	segments := segmentsOn(c.disks[0])
	name := segments[len(segments)-1]
	f := frameIn(t, c.disks[0], name, "entry", -1)
	c.disks[0].Unreadable(name, f.Position, f.Size)
	before := contents(c.disks[0])
	_, err := repair.Open(c.disks[0], dir, options(c.disks[0]))
	require.ErrorContains(t, err, "input/output error")
	c.disks[0].Restart()
	require.Equal(t, before, contents(c.disks[0]))
}

// readAll opens the first copy and reads every entry.
func readAll(c *copies) error {
	s, err := repair.Open(c.disks[0], dir, options(c.disks[0]))
	if err != nil {
		return err
	}
	defer s.Close()
	for i := s.FirstIndex(); i <= s.LastIndex(); {
		frames, err := s.Entries(i, s.LastIndex()+1, 1<<20)
		if err != nil {
			return err
		}
		i += uint64(len(frames))
	}
	return nil
}
