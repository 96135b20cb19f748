package segment_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/repair"
)

// What was given before the crash is asked for again.
func TestARepairThatWasInterruptedBeginsAgain(t *testing.T) {
	c := newCopies(t, 1, 60)
	for _, name := range c.disks[0].Names() {
		if strings.HasSuffix(name, ".seg") {
			c.disks[0].Lose(name)
			break
		}
	}
	m, err := repair.Begin(context.Background(), c.disks[0], dir, options(c.disks[0]))
	require.NoError(t, err)
	first := m.Wants(1)[0].First
	giver := c.giver(t)
	frames, err := giver.Entries(first, first+2, 1<<20)
	require.NoError(t, err)
	_, err = m.Give(frames, c.commit)
	require.NoError(t, err)
	c.disks[0].Restart()
	_, err = repairFiles(c.disks[0], giver, c.commit, 4<<10)
	require.NoError(t, err)
	c.requireWhole(t)
}
