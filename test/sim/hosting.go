package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
)

// segmentBytes is small, so that a run has many segments.
const segmentBytes = 24 << 10

// hashEvery bytes of batches are hashed together.
const hashEvery = 4 << 10

// stall is shorter than in a node, since runs are short.
const stall = time.Second

// hosting is the replica that a node hosts, if it does.
type hosting struct {
	*node
	replicaID     uint64           // that is hosted here; 0: none
	replica       *runtime.Stepped // nil: none, or it cannot be served
	log           segment.Log
	distrusted    error          // why the replica cannot be served
	lost          bool           // it must not speak again, and another is to come in its place
	found         error          // what proved to be damaged; acted on soon
	replicaRepair *replicaRepair // nil: it is not being repaired
	repairing     *repairing     // of a replica that runs; nil: nothing is
	baseless      uint64         // the replica whose oldest snapshot may lie behind the first records that it has
	suspect       bool           // it failed; what is stored is looked at when it opens
}

// rehost brings what this node hosts to what the catalog says, as known here.
func (n *hosting) rehost() {
	hosted := map[string]cluster.Hosted{}
	if n.replicaID != 0 {
		hosted[logName] = cluster.Hosted{Log: logID, Replica: n.replicaID}
	}
	for _, due := range cluster.HostingDue(&n.catalog().State, n.id, hosted, func(_, replica uint64) bool { return n.made[replica] }, n.current) {
		switch due.Step {
		case cluster.Replace: // see member.mind
		case cluster.Drop:
			if n.drop(); n.up {
				n.rehost()
			}
		default:
			n.host(due.Replica, due.Step == cluster.Make)
		}
	}
}

// host opens the replica that is to be here. A disk that fails ends the process,
// which tries again; files that are not what they were end the replica.
func (n *hosting) host(id uint64, fresh bool) {
	n.forget()
	err := n.open(id, fresh)
	n.world.trace("node %d: opens replica %d, new %v: %v", n.id, id, fresh, err)
	switch {
	case err == nil:
		n.replicaID = id
		if !n.remembers() && !n.world.silent {
			n.takeOut(errLost)
			return
		}
		if n.suspect || n.world.faults.over {
			n.suspect = false
			n.scrub()
		}
	default:
		if strings.Contains(err.Error(), "before what was known to be durable") {
			n.world.counts.Noticed++
		}
		n.replicaID = id
		if errors.Is(err, segment.ErrNoLog) || errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", errLost, err)
		}
		n.judge(err)
	}
}

// damageOf is what an error of opening or reading the files of the replica here says of
// them.
func (n *hosting) damageOf(cause error) cluster.Damage {
	_, full := store.DamagedSegment(cause)
	p := n.placed()
	return cluster.Damage{
		Lost:    errors.Is(cause, errLost) || errors.Is(cause, core.ErrEndMissing),
		Corrupt: damaged(cause) || errors.Is(cause, core.ErrStartMissing) || errors.Is(cause, core.ErrSpliced),
		Full:    full && !errors.Is(cause, core.ErrEnded),
		Shared:  len(p.All()) > 1,
	}
}

// damaged reports whether an error comes from what is in files, or from a missing
// file, and not from a disk.
func damaged(err error) bool {
	return errors.As(err, new(*segment.CorruptError)) || errors.Is(err, fs.ErrNotExist)
}

// foundDamage notes that stored bytes of the replica here are not what was
// written; it ends when it has done what it is doing.
func (n *hosting) foundDamage(why error) {
	if n.found == nil || errors.Is(why, core.ErrEnded) || errors.Is(why, core.ErrEndMissing) {
		n.found = why
	}
}

// distrust notes that stored bytes of the replica here, which runs, are not what was
// written. The replica continues if they can be repaired meanwhile.
func (n *hosting) distrust(why error) {
	if n.harm.kind == "" && n.world.flaw != nil {
		n.die(false) // what was broken on purpose is for the rules to notice
		return
	}
	d := n.damageOf(why)
	if _, whole := n.log.(*store.Store); !whole {
		d.Full = false // a log that is broken on purpose cannot be repaired by parts
	}
	switch d.RunningRemedy() {
	case cluster.RepairSegment:
		n.repairRunning(why)
	case cluster.TakeOut:
		n.takeOut(why)
	}
}

// takeOut ends the replica: it does not vote, lead or acknowledge any more, until
// it is repaired or another has come in its place.
func (n *hosting) takeOut(why error) {
	n.abandonWrite()
	n.replica = nil
	if n.repairing != nil && n.repairing.repairer != nil {
		_ = n.repairing.repairer.Close()
	}
	n.repairing = nil
	if n.log != nil {
		_ = n.log.Close()
		n.log = nil
	}
	n.judge(why)
}

// judge decides what becomes of a replica that could not be opened, was taken out, or
// could not be repaired.
func (n *hosting) judge(why error) {
	d := n.damageOf(why)
	n.world.trace("node %d: replica %d does not run: %v: %+v", n.id, n.replicaID, why, d)
	remedy := d.StoppedRemedy()
	if n.distrusted == nil && remedy != cluster.Retry {
		n.world.counts.Distrusted++
	}
	n.replica, n.replicaRepair, n.distrusted = nil, nil, why
	if remedy == cluster.Retry {
		n.die(n.disk.Stopped())
		return
	}
	if n.harm.kind == "" && !n.earlier[n.replicaID] && !strings.Contains(why.Error(), syscall.EIO.Error()) { // a read that failed once is repaired like damage
		n.world.fail("node %d: replica %d cannot be trusted, and no fault has touched its files: %v", n.id, n.replicaID, why)
	}
	switch remedy {
	case cluster.Repair:
		n.startRepair()
	case cluster.Renew:
		n.lost = true
	case cluster.Refuse:
		n.world.fail("node %d: replica %d has the only copy: %v", n.id, n.replicaID, why)
	}
}

// drop removes the replica that has left this node.
func (n *hosting) drop() {
	id := n.replicaID
	n.world.trace("node %d: drops replica %d", n.id, id)
	n.life++ // nothing of it happens any more
	n.forget()
	n.unharmed()
	if n.disk.RemoveAll(n.dir(id)) != nil {
		n.die(true)
		return
	}
	delete(n.made, id)
	delete(n.earlier, id)
	life := n.life
	n.world.after(core.TickMillis*millisecond, func() { n.tick(life) })
}

func (n *hosting) dir(replica uint64) string {
	return path.Join("log", strconv.FormatUint(replica, 10))
}

func (n *hosting) segmentOptions(replica uint64) store.Options {
	return store.Options{
		Owner:        segment.Owner{Cluster: "sim", Log: 1, Replica: replica},
		SegmentBytes: segmentBytes, WatermarkBytes: segmentBytes / 8, Manual: true, Rand: n.salts, Logger: slog.New(slog.DiscardHandler),
		LeastStored: n.world.leastStored(),
	}
}

func (n *hosting) open(id uint64, fresh bool) error {
	founders := n.placed().Founders
	openLog := n.openFiles
	if n.world.memory {
		openLog = n.openMemory
	}
	if err := openLog(id, fresh, founders); err != nil {
		return err
	}
	if broken := n.world.flaws().log; broken != nil {
		n.log = broken(n.node, n.log)
	}
	if n.world.raft != nil {
		n.log = &durable{n.log, id, n.world.raft}
	}
	far, elect := n.world.network.stretch > 0, uint64(0)
	if far && slices.Contains(founders[1:], id) {
		elect = founders[0]
	}
	var err error
	n.replica, err = runtime.OpenStepped(runtime.Options{
		ID: id, Log: n.log, HardState: n.log.HardState(), Logger: slog.New(slog.DiscardHandler),
		FirstLeader: founders[0] == id && n.log.LastIndex()+1 == n.log.FirstIndex(),
		AtOnce:      far,
		Elect:       elect,
		Stretch:     n.world.network.stretch,
		Send:        n.send,
		Stall:       stall,
		Damaged:     n.foundDamage,
		HashEvery:   hashEvery,
		TraceRaft:   n.world.raft,
		Memory:      n.world.processMemory(),
		Limits:      n.world.limits.ofCore(),
		Address: func(id uint64) string {
			if node := n.nodeOf(id); node != 0 {
				return strconv.FormatUint(node, 10)
			}
			return ""
		},
	})
	return err
}

// openFiles opens the files of a replica, made before where it begins.
func (n *hosting) openFiles(id uint64, fresh bool, founders []uint64) error {
	options, disk := n.segmentOptions(id), n.disk
	if fresh {
		if err := disk.RemoveAll(n.dir(id)); err != nil {
			return err
		}
		b, err := core.Bootstrap(founders)
		if err != nil {
			return err
		}
		store, err := store.Create(disk, n.dir(id), options, b)
		if err != nil {
			return err
		}
		if err := store.Close(); err != nil {
			return err
		}
		n.made[id] = true
		n.unharmed()
	}
	log, err := repair.Open(disk, n.dir(id), options)
	if err != nil {
		return err
	}
	n.log = log
	return nil
}

// send hands a message of the replica here to the node of another one.
func (n *hosting) send(to uint64, _ bool, message net.Buffers) bool {
	node := n.nodeOf(to)
	if node == 0 {
		return false
	}
	n.world.network.send(n.node, n.world.nodes[node-1], to, bytes.Join(message, nil))
	return true
}

// hear takes a message of a replica on another node.
func (n *hosting) hear(from, to uint64, message []byte) {
	if n.replica == nil || n.replicaID != to {
		return // dropped, or not known here yet: Raft tries again
	}
	err := n.replica.Step(message, func(sender uint64) bool {
		switch n.placed().SenderOf(sender, from, n.catalog().NextReplica) {
		case cluster.Placed:
			return true
		case cluster.Newer:
			n.newer[sender] = from
			return true
		}
		return false // it was removed, and does not know it
	})
	if err != nil && !errors.Is(err, runtime.ErrForged) {
		n.world.fail("node %d refused a message of node %d: %v", n.id, from, err)
	}
}
