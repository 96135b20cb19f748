package repair

import (
	"errors"
	"fmt"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// Finish writes new segments from the entries that are here and those that were given, and
// replaces the damaged segments with them. The damaged files are kept aside. Then the Repairer is
// closed, and Open opens the log. Finish returns an error while entries are missing.
//
// After a crash the log is as it was before, or the next Open or Begin completes the replacement.
// After an error, open the log again, for repair or for use.
func (m *Repairer) Finish() (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return Outcome{}, m.done
	}
	if wants := m.log.inventory.wants(1); len(wants) > 0 {
		return Outcome{}, fmt.Errorf("finish the repair: entries %d to %d are still missing", wants[0].First, wants[0].Last)
	}
	n := &rebuild{Repairer: m}
	r, err := m.finish(n)
	m.done = segment.ErrClosed
	err = errors.Join(err, m.stock.close())
	if err != nil {
		err = errors.Join(err, n.removeUnfinished(m.given.source.path))
		return r, fmt.Errorf("finish the repair of the log in %s: %w", m.dir.Path, err)
	}
	return r, nil
}

func (m *Repairer) finish(n *rebuild) (Outcome, error) {
	r := Outcome{Entries: m.given.entries, Bytes: m.given.bytes}
	names, err := n.remake()
	if err != nil {
		return r, err
	}
	r.Segments = len(names)
	if m.live != nil {
		return r, m.live.Exchange(n.made)
	}
	d := m.dir
	before, err := d.List()
	if err != nil {
		return r, err
	}
	for _, name := range names {
		if err := d.FS.Rename(name+vfs.TemporarySuffix, name); err != nil {
			return r, err
		}
	}
	found, err := d.List()
	if err != nil {
		return r, err
	}
	if len(names) > 0 {
		if err := found.SwapRepairs(); err != nil {
			return r, err
		}
	}
	for _, index := range m.log.spoiled {
		if err := d.SetAside(d.SnapshotPath(index)); err != nil {
			return r, err
		}
	}
	if err := d.SetForeignAside(m.log.foreign); err != nil {
		return r, err
	}
	if m.skips != nil {
		if err := d.Begin.Move(m.log.parts[0].ordinal, m.log.inventory.first); err != nil {
			return r, err
		}
	}
	if err := d.SyncDir(); err != nil {
		return r, err
	}
	if n.end != nil {
		mark := m.log.watermark
		if err := errors.Join(mark.Write(*n.end), mark.Close()); err != nil {
			return r, err
		}
	}
	after, err := d.List()
	if err != nil {
		return r, err
	}
	r.Aside = after.Aside[len(before.Aside):]
	return r, nil
}
