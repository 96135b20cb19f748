package statemachine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"strandline.dev/client"
	"strandline.dev/statemachine/internal/rules"
)

// maxBoots bounds how often a boot begins again because the snapshot that it had found was deleted, or
// the records behind it trimmed: each time there is a later one.
const maxBoots = 10

// boot makes the machine the state at the offset of the newest snapshot that can be read, or leaves it as
// it is if that reaches what is left of the log. It returns the confirmed end of the log.
//
// It sets the hold of protected before, if there is one. replacing is set, or no other goroutine knows
// the replica.
func (r *Replica[R]) boot(ctx context.Context, protected *snapshots[R]) (end int64, err error) {
	for range maxBoots {
		info, err := r.client.Admin().Info(ctx, r.log)
		if err != nil {
			return 0, err
		}
		if r.logID == 0 {
			r.logID = info.ID
		}
		if info.ID != r.logID {
			return 0, fmt.Errorf("state of log %q: the log has id %d, but the state is of the log with id %d: %w", r.log, info.ID, r.logID, client.ErrLogReplaced)
		}
		if protected != nil {
			if err := protected.protect(ctx, info); errors.Is(err, client.ErrOffsetTrimmed) || errors.Is(err, errHoldMoved) {
				continue // the hold has been moved meanwhile
			} else if err != nil {
				return 0, err
			}
		}
		again, err := r.bootFrom(ctx, info)
		if err != nil {
			return 0, err
		}
		if !again {
			return info.End, nil
		}
	}
	return 0, fmt.Errorf("state of log %q: %w: snapshots were deleted faster than they could be read", r.log, ErrNoSnapshot)
}

// bootFrom boots with what is known of the log. again is set if snapshots have been deleted meanwhile.
func (r *Replica[R]) bootFrom(ctx context.Context, info client.LogInfo) (again bool, err error) {
	var stored []int64
	if d := r.options.directory; d != nil {
		if stored, err = listSnapshots(ctx, d, r.logID); err != nil {
			return false, fmt.Errorf("list snapshots of log %q: %w", r.log, err)
		}
	}
	if err := r.refuseAhead(ctx, info.End, stored); err != nil {
		return false, err
	}
	from, found := rules.BootFrom(r.next, info.Start, stored)
	if !found {
		return false, r.noSnapshot(info, nil)
	}
	if len(from.Snapshots) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.applied(from.Offset)
		return false, nil
	}
	var failed error
	unread := false
	for _, offset := range from.Snapshots {
		err := r.restore(ctx, offset, info.End)
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, fs.ErrNotExist):
			return true, nil
		case ctx.Err() != nil, errors.Is(err, ErrDiverged):
			return false, err
		}
		r.trouble(err)
		unread = unread || errors.Is(err, errUnread)
		failed = errors.Join(failed, err)
	}
	if unread {
		return false, fmt.Errorf("state of log %q: no snapshot could be read: %w", r.log, failed)
	}
	return false, r.noSnapshot(info, failed)
}

// refuseAhead returns ErrAhead if the state, or a snapshot, contains more than the log, whose end was at an offset
// before the snapshots were listed.
func (r *Replica[R]) refuseAhead(ctx context.Context, end int64, stored []int64) error {
	at, what := r.next, "the state of the machine is"
	for _, offset := range stored {
		if offset > at {
			at, what = offset, "snapshot "+snapshotName(r.logID, offset)+" is"
		}
	}
	if at <= end {
		return nil
	}
	end, err := r.client.End(ctx, r.log) // another replica may have stored a snapshot meanwhile
	if err != nil || at <= end {
		return err
	}
	return r.ahead(what, at, end)
}

func (r *Replica[R]) ahead(what string, at, end int64) error {
	return fmt.Errorf("state of log %q: %s at offset %d, but the log ends at %d: %w; remove the states and snapshots above the offset at which the log ended when the cluster was recovered, and boot from an earlier one or from an empty machine",
		r.log, what, at, end, ErrAhead)
}

func (r *Replica[R]) noSnapshot(info client.LogInfo, cause error) error {
	text := fmt.Sprintf("state of log %q: records below offset %d are trimmed", r.log, info.Start)
	if info.Start == 0 {
		text = fmt.Sprintf("state of log %q: the log is whole, but a part of a damaged snapshot is in the machine; remove the damaged snapshots, and begin with an empty machine", r.log)
	}
	if r.options.directory == nil {
		text += ", and the replica has no directory of snapshots"
	}
	if cause != nil {
		return fmt.Errorf("%s: %w: %w", text, ErrNoSnapshot, cause)
	}
	return fmt.Errorf("%s: %w", text, ErrNoSnapshot)
}

// restore replaces the state by a snapshot.
func (r *Replica[R]) restore(ctx context.Context, offset, end int64) error {
	name := snapshotName(r.logID, offset)
	content, size, err := r.options.directory.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("open snapshot %s: %w", name, err)
	}
	defer content.Close()
	done := &progress{Progress: Progress{SnapshotSize: size, From: offset, Applied: offset, End: end}, hook: r.options.hooks.Progress}
	counted := &counted{Reader: content, done: done}
	digest, err := readSnapshot(counted, size, r.logID, offset, func(state io.Reader) error {
		r.mu.Lock()
		r.next = rules.Spoiled // until the snapshot is known to be whole
		r.mu.Unlock()
		return r.machine.Restore(state)
	})
	if counted.err != nil {
		return fmt.Errorf("%w %s: %w", errUnread, name, counted.err)
	}
	if err != nil {
		return fmt.Errorf("restore snapshot %s: %w", name, err)
	}
	if digester, has := r.machine.(Digester); has && len(digest) > 0 {
		if own := digester.Digest(); !bytes.Equal(own, digest) {
			return fmt.Errorf("restore snapshot %s: the digest of the state is %x, but was %x when the snapshot was taken: %w", name, own, digest, ErrDiverged)
		}
	}
	if r.snapshots != nil {
		r.snapshots.found(offset)
	}
	r.digests.Forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied(offset)
	return nil
}

// counted reports how much of a snapshot has been read.
type counted struct {
	io.Reader
	done *progress
	err  error // of the directory
}

// errUnread means that the directory failed: later it may give the snapshot.
var errUnread = errors.New("read snapshot")

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err != nil && err != io.EOF && c.err == nil {
		c.err = err
	}
	c.done.SnapshotBytes += int64(n)
	if c.done.SnapshotBytes < c.done.SnapshotSize {
		c.done.report()
	}
	return n, err
}

// listSnapshots returns the offsets of the snapshots of a log in a directory.
func listSnapshots(ctx context.Context, d Directory, log uint64) (offsets []int64, err error) {
	names, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if offset, ok := parseSnapshotName(log, name); ok {
			offsets = append(offsets, offset)
		}
	}
	return offsets, nil
}

// trouble reports an error that does not end the replica, or nil.
func (r *Replica[R]) trouble(err error) {
	if r.options.hooks.Trouble != nil {
		r.troubling.Lock()
		defer r.troubling.Unlock()
		r.options.hooks.Trouble(err)
	}
}
