package statemachine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"strandline.dev/client"
	"strandline.dev/statemachine/internal/rules"
)

// step is a step of what is done with a snapshot, in this order.
type step string

const (
	stepSnapshot step = "snapshot"
	stepPut      step = "put"
	stepHold     step = "hold"
	stepTrim     step = "trim"
	stepDelete   step = "delete"
	stepDone     step = "done"
)

// errKilled is the error of a step at which a test kills the replica.
var errKilled = errors.New("killed at a step")

// maxMoves bounds how often the hold is moved after one snapshot, while other replicas move it back.
const maxMoves = 10

// snapshots takes the snapshots of a replica, and gives up what they make superfluous.
type snapshots[R any] struct {
	replica  *Replica[R]
	schedule rules.Schedule
	due      chan struct{} // records have been applied
	hold     *client.Hold  // nil: not set here

	// seen are the offsets of the snapshots that the directory has, or had until a short time ago.
	seen map[int64]bool
	// pending is set if what follows a snapshot has failed, and is to be tried again.
	pending bool
	// foreign is the last pointer of the hold to no snapshot of the directory.
	foreign []byte
}

func newSnapshots[R any](r *Replica[R]) *snapshots[R] {
	// Replicas that apply the same record at one time do not all take a snapshot then.
	return &snapshots[R]{replica: r, schedule: r.options.schedule.Delayed(rand.Float64()), due: make(chan struct{}, 1), seen: map[int64]bool{}}
}

// protect sets the hold, before anything rests on the records that the log has. A hold that exists stays
// where it is, and must be that of the directory.
func (s *snapshots[R]) protect(ctx context.Context, info client.LogInfo) error {
	o := &s.replica.options
	if s.hold != nil || o.schedule == (rules.Schedule{}) {
		return nil
	}
	wanted := o.hold
	wanted.Offset, wanted.Pointer = client.HoldFromStart, nil
	if found := holdOf(info, wanted.Name); found != nil {
		stored, err := s.list(ctx)
		if err != nil {
			return err
		}
		// One of two replicas that share the directory may have moved the hold back to a snapshot that the
		// other one had deleted. A replica that has a later one does no harm while it boots.
		if len(stored) == 0 || slices.Max(stored) <= found.Offset {
			if err := s.refuseForeign(found); err != nil {
				return err
			}
		}
		if wanted.Lease == 0 && found.Lease == 0 {
			return nil // nothing has to be renewed
		}
		wanted.Offset, wanted.Pointer = found.Offset, found.Pointer
	}
	return s.setHold(ctx, wanted)
}

// list lists the snapshots of the log.
func (s *snapshots[R]) list(ctx context.Context) ([]int64, error) {
	stored, err := listSnapshots(ctx, s.replica.options.directory, s.replica.logID)
	if err != nil {
		return nil, fmt.Errorf("list snapshots of log %q: %w", s.replica.log, err)
	}
	for _, offset := range stored {
		s.seen[offset] = true
	}
	return stored, nil
}

// errHoldMoved means that the hold may have been moved since it was looked at.
var errHoldMoved = errors.New("the hold may have been moved")

// refuseForeign returns an error if a hold that was found before the snapshots were listed points to no snapshot
// of the directory: to move it would take away records that the replicas of another directory need. The first time
// that is errHoldMoved, since the snapshot may have been deleted in between, after a move.
func (s *snapshots[R]) refuseForeign(found *client.HoldInfo) error {
	r := s.replica
	own := r.options.directory.Location(snapshotName(r.logID, found.Offset))
	if len(found.Pointer) == 0 || string(found.Pointer) == own && s.seen[found.Offset] {
		s.foreign = nil
		return nil
	}
	if !bytes.Equal(found.Pointer, s.foreign) {
		s.foreign = bytes.Clone(found.Pointer)
		return errHoldMoved
	}
	return fmt.Errorf("hold %q of log %q is at offset %d with the pointer %q, which is not a snapshot of this directory: %w; give each directory a hold with a name of its own (WithHold), or release the hold if that directory is no longer used",
		found.Name, r.log, found.Offset, found.Pointer, ErrHoldOfAnother)
}

func holdOf(info client.LogInfo, name string) *client.HoldInfo {
	for i := range info.Holds {
		if info.Holds[i].Name == name {
			return &info.Holds[i]
		}
	}
	return nil
}

// setHold sets the hold, and renews its lease from then on if it has one.
func (s *snapshots[R]) setHold(ctx context.Context, wanted client.HoldInfo) error {
	s.leaveHold()
	hold, err := s.replica.client.Hold(ctx, s.replica.log, wanted)
	if err != nil {
		return err
	}
	s.hold = hold
	return nil
}

// leaveHold renews the lease of the hold no longer.
func (s *snapshots[R]) leaveHold() {
	if s.hold != nil {
		s.hold.Close()
		s.hold = nil
	}
}

// found notes a snapshot of this replica or another one.
func (s *snapshots[R]) found(offset int64) {
	r := s.replica
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset > r.counts.snapshot {
		r.counts.snapshot, r.counts.snapshotAt = offset, time.Now()
	}
}

// nudge is called when records have been applied.
func (s *snapshots[R]) nudge() {
	if !s.isDue() {
		return
	}
	select {
	case s.due <- struct{}{}:
	default:
	}
}

func (s *snapshots[R]) isDue() bool {
	r := s.replica
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.schedule.Due(r.next, max(0, r.counts.snapshot), time.Since(r.counts.snapshotAt))
}

// run takes snapshots until the replica ends.
func (s *snapshots[R]) run() {
	r := s.replica
	defer s.leaveHold()
	tick := time.NewTicker(s.tick())
	defer tick.Stop()
	for {
		if !s.pending {
			select {
			case <-r.life.Done():
				return
			case <-s.due:
			case <-tick.C:
			}
			if !s.isDue() {
				continue
			}
		}
		result := s.take(r.life)
		if errors.Is(result.Err, errKilled) {
			r.halt(result.Err)
			return
		}
		if r.life.Err() != nil {
			return
		}
		s.count(result)
		if result.Err != nil && !pause(r.life, pauseAgain) {
			return
		}
	}
}

// tick is how often the age of the last snapshot is looked at.
func (s *snapshots[R]) tick() time.Duration {
	if s.schedule.Interval == 0 {
		return time.Hour
	}
	return max(s.schedule.Interval/10, 10*time.Millisecond)
}

func (s *snapshots[R]) count(result SnapshotResult) {
	r := s.replica
	r.mu.Lock()
	if result.Err != nil {
		r.counts.snapshotFailures++
	} else if result.Bytes > 0 {
		r.counts.snapshots++
	}
	r.mu.Unlock()
	if hook := r.options.hooks.Snapshot; hook != nil && (result.Err != nil || result.Bytes > 0) {
		hook(result)
	}
}

// take takes a snapshot, unless another replica has a new one, and then gives up what is older.
func (s *snapshots[R]) take(ctx context.Context) (result SnapshotResult) {
	began := time.Now()
	result.Err = s.store(ctx, &result)
	if result.Err == nil {
		result.Err = s.retire(ctx)
		s.pending = result.Err != nil && !errors.Is(result.Err, ErrHoldOfAnother)
	}
	result.Took = time.Since(began)
	return result
}

// store stores a snapshot of the state as of now.
func (s *snapshots[R]) store(ctx context.Context, result *SnapshotResult) error {
	r := s.replica
	stored, err := s.list(ctx)
	if err != nil {
		return err
	}
	for _, offset := range stored {
		s.found(offset)
	}
	if !s.isDue() {
		return nil
	}
	if err := r.options.step(stepSnapshot); err != nil {
		return err
	}
	taken, err := s.view()
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	result.Offset = taken.offset
	if err := r.options.step(stepPut); err != nil {
		return err
	}
	sized := &measured{snapshot: taken}
	if err := r.options.directory.Put(ctx, taken.name(), sized); err != nil {
		return fmt.Errorf("store the snapshot at offset %d: %w", taken.offset, err)
	}
	result.Bytes = sized.bytes
	s.found(taken.offset)
	return nil
}

// view returns the state as of now.
func (s *snapshots[R]) view() (taken *snapshot, err error) {
	if stopped := s.replica.look(s.replica.life, func() { taken, err = s.viewLocked() }); stopped != nil {
		return nil, stopped
	}
	return taken, err
}

func (s *snapshots[R]) viewLocked() (*snapshot, error) {
	r := s.replica
	if r.digests.Disputed() {
		return nil, errors.New("another replica has a different digest, and it is not known which one is right")
	}
	state, err := r.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	taken := &snapshot{log: r.logID, offset: r.Offset(), state: state}
	if digester, has := r.machine.(Digester); has {
		if taken.digest = digester.Digest(); len(taken.digest) > maxDigestBytes {
			return nil, fmt.Errorf("a digest has %d bytes, the limit is %d", len(taken.digest), maxDigestBytes)
		}
	}
	return taken, nil
}

// retire moves the hold to the oldest snapshot that is kept, and gives up what is older: see
// rules.Retirement for the order. When another replica has done the same at the same time, the hold may
// have been moved back, so it looks again.
func (s *snapshots[R]) retire(ctx context.Context) error {
	r := s.replica
	for range maxMoves {
		info, err := r.client.Admin().Info(ctx, r.log)
		if err != nil {
			return err
		}
		stored, err := s.list(ctx)
		if err != nil {
			return err
		}
		held := int64(rules.NoHold)
		if found := holdOf(info, r.options.hold.Name); found != nil {
			if err := s.refuseForeign(found); errors.Is(err, errHoldMoved) {
				continue
			} else if err != nil {
				return err
			}
			held = found.Offset
		}
		due := rules.Retire(stored, r.options.keep, held)
		if due.Move {
			if err := r.options.step(stepHold); err != nil {
				return err
			}
			if err := s.move(ctx, due.Keep); err != nil {
				return fmt.Errorf("move the hold to the snapshot at offset %d: %w", due.Keep, err)
			}
			continue
		}
		if r.options.trim && due.Keep > info.Start {
			if err := r.options.step(stepTrim); err != nil {
				return err
			}
			if err := s.trim(ctx, due.Keep, info.Start); err != nil {
				return fmt.Errorf("trim the log to the hold: %w", err)
			}
		}
		for _, offset := range due.Delete {
			if err := r.options.step(stepDelete); err != nil {
				return err
			}
			if err := r.options.directory.Delete(ctx, snapshotName(r.logID, offset)); err != nil {
				return fmt.Errorf("delete the snapshot at offset %d: %w", offset, err)
			}
		}
		clear(s.seen)
		for _, offset := range stored {
			s.seen[offset] = true
		}
		return r.options.step(stepDone)
	}
	return errors.New("the hold is moved back repeatedly: give each directory a hold with its own name (WithHold)")
}

// move moves the hold to a snapshot that is stored, with its location as the pointer.
func (s *snapshots[R]) move(ctx context.Context, offset int64) error {
	o := &s.replica.options
	pointer := []byte(o.directory.Location(snapshotName(s.replica.logID, offset)))
	if s.hold != nil {
		select {
		case <-s.hold.Done():
		default:
			return s.hold.Move(ctx, offset, pointer)
		}
	}
	wanted := o.hold
	wanted.Offset, wanted.Pointer = offset, pointer
	return s.setHold(ctx, wanted)
}

// trim trims the log, as far as the holds of others permit.
func (s *snapshots[R]) trim(ctx context.Context, before, start int64) error {
	admin, log := s.replica.client.Admin(), s.replica.log
	_, _, err := admin.Trim(ctx, log, before, false)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Is(client.ErrHeld) && refused.Hold != nil {
		if refused.Hold.Offset <= start {
			return nil
		}
		_, _, err = admin.Trim(ctx, log, refused.Hold.Offset, false)
		if errors.Is(err, client.ErrHeld) {
			return nil // one more was set
		}
	}
	return err
}

// measured counts the bytes of a snapshot.
type measured struct {
	*snapshot
	bytes int64
}

func (m *measured) WriteTo(w io.Writer) (n int64, err error) {
	m.bytes, err = m.snapshot.WriteTo(w)
	return m.bytes, err
}
