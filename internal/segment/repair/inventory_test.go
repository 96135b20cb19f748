package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/format"
)

// A leader replaces an entry by one of an older term, that of the entry in front. The frame of the first one stays between
// the two, so they are not read as one span: the replaced entry would be taken for the other.
func TestWhatFollowsAReplacedEntryIsReadBehindIt(t *testing.T) {
	file := &source{path: "a.seg"}
	p := inventory{first: 1}
	at := func(index, term uint64, position int64) {
		p.entry(&format.FrameHeader{Index: index, Term: term}, whole, 1, file, position)
	}
	at(1, 3, 100)
	at(2, 3, 200)
	at(3, 4, 300)
	at(3, 3, 400) // in its place
	at(4, 3, 500)
	require.Len(t, p.spans, 2)
	require.Equal(t, []int64{100, 400}, []int64{p.spans[0].begin, p.spans[1].begin})
	require.Equal(t, [4]uint64{1, 2, 3, 4}, [4]uint64{p.spans[0].first, p.spans[0].last, p.spans[1].first, p.spans[1].last})
}
