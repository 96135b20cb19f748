package node

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
)

// handOverTime is how long another replica has to take over before one with
// damaged files is closed all the same, or before a node without a catalog tries
// again.
const handOverTime = 5 * time.Second

// shutTime is how long a log with damaged files may take to answer what is in
// flight.
const shutTime = 2 * time.Second

// damageOf is what an error of opening or reading the files of a replica says of
// them. shared: other nodes hold the log too.
func damageOf(cause error, shared bool) cluster.Damage {
	_, full := damagedSegmentOf(cause)
	return cluster.Damage{
		Lost:    errors.Is(cause, errLost) || errors.Is(cause, core.ErrForgot),
		Corrupt: errors.As(cause, new(*segment.CorruptError)) || full,
		Full:    full && !errors.Is(cause, core.ErrEnded),
		Shared:  shared,
	}
}

// foundDamage is called when stored bytes of a log that runs here are not what
// was written. It may be called from anywhere, and does not block.
func (n *Node) foundDamage(h *hosted, cause error) {
	if errors.Is(cause, core.ErrForgot) {
		h.forgetful.Store(true) // which counts for more than what was found before
	}
	d := damageOf(cause, n.othersHold(h))
	d.Full = d.Full && !h.leaving.Load()
	switch d.RunningRemedy() {
	case cluster.RepairSegment:
		file, _ := damagedSegmentOf(cause)
		n.repairSoon(h, damagedSegment{file, cause})
	case cluster.TakeOut:
		n.takeOut(h, cause)
	default:
		n.reportDamage(h, cause)
	}
}

// othersHold reports whether there are other nodes to ask for entries of a log.
func (n *Node) othersHold(h *hosted) bool {
	if h.id == catalogID {
		return len(n.catalogHolders()) > 0
	}
	_, shared := n.sharedLog(h)
	return shared
}

// reportDamage logs damage once for each time that a log is opened.
func (n *Node) reportDamage(h *hosted, cause error) {
	if !h.reported.Swap(true) {
		n.logger.Error("the files of a log are damaged", "log", h.name, "replica", h.replicaID, "error", cause)
	}
}

// takeOut takes a replica with damaged files, which others hold too, out of service.
func (n *Node) takeOut(h *hosted, cause error) {
	n.reportDamage(h, cause)
	if h.leaving.Swap(true) {
		return
	}
	n.keeper.run(func(ctx context.Context) {
		if h.id == catalogID {
			n.attendCatalog(ctx, h, cause)
		} else if l, shared := n.sharedLog(h); shared {
			n.attend(ctx, h, l, cause)
		} else {
			h.leaving.Store(false) // the others have left it meanwhile
		}
	})
}

// attend takes a replica whose files are damaged out of service: it hands over
// if it leads, and comes back once its files are whole, or under another id.
func (n *Node) attend(ctx context.Context, h *hosted, l catalogLog, cause error) {
	n.rememberForgetful(h, cause)
	n.awaitShown()
	n.stepDown(ctx, h)
	n.changing.Lock()
	defer n.changing.Unlock()
	if (*n.logs.Load())[h.name] != h || n.closed {
		return
	}
	after := newHosted(l, h.replicaID)
	if !n.shut(h) {
		after.stand(record.Refuse(record.StorageFailed,
			"log %q has stopped on this node, whose disk does not answer: start the node again when it does. It is damaged: %v", h.name, cause))
		n.addLog(after)
		return
	}
	if h.forgetful.Load() {
		n.rememberForgetful(h, cause)
		n.lose(after, cause)
	} else {
		n.mend(after, l, cause)
	}
	n.addLog(after)
}

// rememberForgetful marks a replica that has forgotten what it promised. Its files
// look sound: without the mark, the next life of this node would believe them.
func (n *Node) rememberForgetful(h *hosted, cause error) {
	if !h.forgetful.Load() {
		return
	}
	if err := n.markLost(h.id, h.replicaID, cause.Error()); err != nil {
		n.logger.Error("a replica that has forgotten could not be marked", "log", h.name, "replica", h.replicaID, "error", err)
	}
}

// awaitShown returns when a log that is being opened, which may prove damaged
// while it is, has been shown to others.
func (n *Node) awaitShown() {
	n.changing.Lock()
	defer n.changing.Unlock()
}

// stepDown lets another replica lead, if this one does and there is one.
func (n *Node) stepDown(ctx context.Context, h *hosted) {
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	for h.replica.Status().Leading && ctx.Err() == nil {
		if h.replica.HandOver(ctx, 0) != nil {
			pause(ctx, changePause)
		}
	}
}

// shut closes a log whose files are damaged. It reports false if the disk hangs:
// then the files are still in use, and nobody else may touch them.
func (n *Node) shut(h *hosted) bool {
	closing, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	err := h.close(closing)
	if err != nil {
		n.logger.Warn("a log with damaged files did not close cleanly", "log", h.name, "error", err)
	}
	return !errors.Is(err, runtime.ErrStalled)
}

// sharedLog tells whether other nodes hold a log too.
func (n *Node) sharedLog(h *hosted) (l catalogLog, shared bool) {
	c := n.catalog.Load()
	if c == nil {
		return l, false
	}
	l, ok := c.shown.Load().Logs[h.name]
	return l, ok && l.ID == h.id && len(l.Replicas)+len(l.Leaving) > 1
}

// refuseStorage is the answer to who asked for something that cannot be read.
// Damage is mended where other nodes can help, and they can answer meanwhile.
func (h *hosted) refuseStorage(err error) error {
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) {
		return record.Refuse(record.StorageFailed, "%v", err)
	}
	h.found(err)
	return h.refuseDamaged(record.Refuse(record.Corrupt, "%v", err))
}

// refuseDamaged turns a refusal for damage that is about to be mended into one
// that sends the caller elsewhere.
func (h *hosted) refuseDamaged(err error) error {
	switch {
	case !errors.Is(err, &record.Refusal{Reason: record.Corrupt}):
		return err
	case h.repairs.underway() && !h.leaving.Load():
		return h.refuseRepairing(err)
	case !h.leaving.Load():
		return err
	}
	return record.Refuse(record.NotLeader, "log %q is about to be mended on this node: %v", h.name, err)
}
