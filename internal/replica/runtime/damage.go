package runtime

import (
	"errors"
	"fmt"
	"io/fs"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

// RenewSnapshot saves a snapshot soon, see core.
func (r *Replica) RenewSnapshot() {
	r.post(input{do: func(c *core.Core) { c.Applier.RenewSnapshot() }})
}

// damagedBy is like damaged for the output of a round of the core.
func (l *loop) damagedBy(c *core.Core, err error) {
	if err != nil && c.Lifecycle.Failed() != nil {
		err = fmt.Errorf("%w: %w", core.ErrEnded, err)
	}
	l.damaged(err)
}

// damaged reports damage of the stored log through Options.Damaged.
func (l *loop) damaged(err error) {
	if err == nil {
		return
	}
	var corrupt *segment.CorruptError
	// A missing file of the log is damage, too: files that the log removed are not opened.
	known := errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, core.ErrEndMissing) || errors.Is(err, core.ErrStartMissing) || errors.Is(err, core.ErrSpliced)
	if known && l.options.Damaged != nil {
		l.options.Damaged(err)
	}
}
