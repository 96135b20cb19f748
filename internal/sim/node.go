package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/testkit/faultdisk"
)

// node is a process with a replica of the log, and the disk that outlives it.
type node struct {
	world *world
	id    uint64
	disk  *faultdisk.Disk
	salts io.Reader // goes on after a restart, as salts must not come again

	life    int // of the process; whatever was to happen in an earlier one does not
	up      bool
	replica *replica.Stepped
	log     segment.Log
	begun   int64 // us: when the process began
	wall    int64 // ms by which its wall clock is wrong
	paused  int64 // us: nothing happens here before
	slow    int64 // us that the disk takes longer
	writing bool  // a write is under way
	feeding bool
	created bool
	doomed  bool // its power goes soon after the next write
}

// segmentBytes is small, so that a run has many segments.
const segmentBytes = 24 << 10

// epochMillis is the wall clock when a world begins.
const epochMillis = 1_700_000_000_000

func newNode(w *world, id uint64) *node {
	var key [32]byte
	for i := range key {
		key[i] = byte(w.random.Uint32())
	}
	return &node{world: w, id: id, disk: faultdisk.New(w.random.Uint64()), salts: rand.NewChaCha8(key)}
}

// start begins the process. A disk that fails ends it at once; it is tried
// again.
func (n *node) start() {
	n.life++
	n.up, n.writing, n.feeding, n.begun = true, false, false, n.world.now
	n.slow = 0
	if err := n.open(); err != nil {
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) || n.created && errors.Is(err, segment.ErrNoLog) {
			n.world.fail("node %d cannot open a log that no fault has touched: %v", n.id, err)
			return
		}
		n.die(n.disk.Stopped())
		return
	}
	n.tick(n.life)
	n.act(n.life, func() {})
}

func (n *node) open() error {
	options := segment.Options{SegmentBytes: segmentBytes, Manual: true, Rand: n.salts, Logger: slog.New(slog.DiscardHandler)}
	var voters []uint64
	for _, other := range n.world.nodes {
		voters = append(voters, other.id)
	}
	log, err := segment.Open(n.disk, "log", options)
	if !n.created && (errors.Is(err, segment.ErrNoLog) || errors.Is(err, fs.ErrNotExist)) {
		var b segment.Bootstrap
		if b, err = replica.Bootstrap(voters); err == nil {
			log, err = segment.Create(n.disk, "log", options, b)
		}
	}
	if err != nil {
		return err
	}
	n.created = true
	n.log = log
	if broken := n.world.flaws().log; broken != nil {
		n.log = broken(n, log)
	}
	n.replica, err = replica.OpenStepped(replica.Options{
		ID: n.id, Log: n.log, HardState: n.log.HardState(), Logger: slog.New(slog.DiscardHandler),
		Send: func(to uint64, _ bool, message net.Buffers) bool {
			n.world.send(n.id, to, bytes.Join(message, nil))
			return true
		},
		Address: func(id uint64) string { return strconv.FormatUint(id, 10) },
	})
	return err
}

// act does something in a life of the process, lets the replica work it off,
// and looks at what it wants.
func (n *node) act(life int, do func()) {
	if n.life != life || !n.up {
		return
	}
	if n.paused > n.world.now {
		n.world.after(n.paused-n.world.now, func() { n.act(life, do) })
		return
	}
	do()
	if n.life != life {
		return // it died of it
	}
	n.replica.Round(n.time())
	if n.replica.Status().Failed != nil {
		n.die(n.disk.Stopped() || n.world.chance(2)) // the operator restarts it
		return
	}
	if n.replica.Unwritten() && !n.writing {
		n.writing = true
		n.world.after(n.world.between(50, 1200)+n.slow, func() { n.act(life, func() { n.write() }) })
	}
	if n.replica.Unread() && !n.feeding {
		n.feeding = true
		n.world.after(n.world.between(100, 3000), func() { n.act(life, func() { n.feeding = false; n.replica.Feed() }) })
	}
}

// write lets the disk take what is queued. If the power goes meanwhile, nobody
// hears how it went.
func (n *node) write() {
	n.writing = false
	before := n.log.HardState()
	n.replica.Write()
	if n.disk.Stopped() {
		n.die(true)
		return
	}
	n.ambush(before, n.log.HardState())
}

// tick comes every 50 ms, as the process sees it, with what it does at leisure.
func (n *node) tick(life int) {
	n.act(life, func() {
		n.replica.Tick()
		switch {
		case n.writing:
		case n.world.chance(8):
			n.replica.Mark()
		case n.world.chance(4):
			_, _ = n.log.Prepare()
		}
		if n.disk.Stopped() {
			n.die(true)
		}
	})
	if n.life == life {
		n.world.after(replica.TickMillis*millisecond, func() { n.tick(life) })
	}
}

// die ends the process, with or without the power, and begins another later.
func (n *node) die(powerless bool) {
	w := n.world
	n.up = false
	n.life++
	if powerless {
		w.counts.PowerCuts++
		n.disk.PowerCut(faultdisk.Remains(w.random.IntN(3)))
	} else {
		w.counts.Kills++
		n.disk.Restart()
	}
	for _, other := range w.nodes {
		// The others may notice that its connections are gone.
		if other != n && !w.network.cut[way{n.id, other.id}] && w.chance(2) {
			life := other.life
			w.after(w.latency(), func() {
				other.act(life, func() { other.replica.PeerLost(n.id, !powerless) })
			})
		}
	}
	life := n.life
	w.after(w.between(20*millisecond, 3*second), func() {
		if n.life == life {
			n.start()
		}
	})
}

func (n *node) time() replica.Now {
	return replica.Now{Monotonic: (n.world.now - n.begun) / millisecond, Unix: epochMillis + n.world.now/millisecond + n.wall}
}

// read gives the records from an offset on, as a door would, up to limit of
// them and to the end that is known here.
func (n *node) read(from int64, limit int) (shown, *record.Refusal) {
	reader := n.replica.NewReader(record.Offset(from))
	defer reader.Close()
	chunk, err := reader.Next(record.Offset(from+int64(limit)), 1<<20)
	s := shown{first: from, start: int64(chunk.Start), end: int64(chunk.End)}
	if err != nil {
		var refusal *record.Refusal
		if !errors.As(err, &refusal) {
			refusal = record.Refuse(record.StorageFailed, "read: %v", err)
		}
		return s, refusal
	}
	for _, f := range chunk.Frames {
		entry, err := record.ParseEntry(f.Payload)
		if err != nil {
			return s, record.Refuse(record.Corrupt, "%v", err)
		}
		if err := s.add(entry.Body); err != nil {
			return s, record.Refuse(record.Corrupt, "%v", err)
		}
	}
	return s, nil
}

// shown is a frame of a read.
type shown struct {
	first      int64
	start, end int64
	values     [][]byte
}

// add takes the batches of an entry, without what lies before first.
func (s *shown) add(batches []byte) error {
	for len(batches) > 0 {
		batch, rest, err := record.Split(batches)
		if err != nil {
			return err
		}
		if err := batch.Verify(); err != nil {
			return err
		}
		batches = rest
		for one, err := range batch.Records {
			if err != nil {
				return err
			}
			if int64(one.Offset) < s.first {
				continue
			}
			if want := s.first + int64(len(s.values)); int64(one.Offset) != want {
				return fmt.Errorf("offset %d stands where %d should", one.Offset, want)
			}
			s.values = append(s.values, bytes.Clone(one.Value))
		}
	}
	return nil
}

// fail ends the run: something happened that no fault explains.
func (w *world) fail(format string, args ...any) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, args...)
	}
}

func (n *node) name() string { return strconv.FormatUint(n.id, 10) }
