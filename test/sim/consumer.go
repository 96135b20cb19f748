package sim

import (
	"bytes"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/test/disk/faultdisk"
)

// consumer is a client of Kafka that is slow. It is handed stored batches as places in a file, as
// a socket is; what it reads is what lies there when it gets to it, and that may be long after
// the replica has released the file, trimmed it, begun another segment in it, repaired it, or
// ended. It begins where the log begins, where trims come next.
type consumer struct {
	world *world
	next  record.Offset
}

func startConsumer(w *world) {
	c := &consumer{world: w}
	c.loop()
}

func (c *consumer) loop() {
	w := c.world
	if w.faults.over {
		return
	}
	n := w.nodes[w.random.IntN(len(w.nodes))]
	n.act(n.life, func() { c.fetch(n) })
	w.later(w.between(10*millisecond, 200*millisecond), c.loop)
}

// fetchBytes are read at once.
const fetchBytes = 16 << 10

// fetch takes some batches as places in files.
func (c *consumer) fetch(n *node) {
	w := c.world
	if !n.serves() || n.replica.Status().Short {
		return
	}
	start, end, err := n.replica.Tail().Bounds()
	if err != nil || start == end {
		return
	}
	if c.next < start || c.next >= end || w.chance(2) {
		c.next = start
	}
	if !c.verify(n, end) {
		return
	}
	reader := n.replica.NewReader(c.next)
	defer reader.Close()
	for range 6 {
		run, _, ok := reader.NextStored(end, fetchBytes)
		if ok {
			c.next = run.Batches[len(run.Batches)-1].End
			c.receive(n, run)
			continue
		}
		chunk, err := reader.Next(c.next+1, 1)
		if err != nil || len(chunk.Entries) == 0 {
			return
		}
		last := &chunk.Entries[len(chunk.Entries)-1]
		c.next = last.First + record.Offset(last.Count)
	}
}

// verify reads as an earlier consumer did, which is why what is stored counts as whole. It reports
// false for what is in memory, to which nobody refers.
func (c *consumer) verify(n *node, end record.Offset) bool {
	reader := n.replica.NewReader(c.next)
	defer reader.Close()
	for i := range 3 {
		chunk, err := reader.Next(end, fetchBytes)
		if err != nil || !chunk.Stored() {
			return i > 0
		}
	}
	return true
}

// receive is what a socket does with stored batches. The node releases the file when it has handed
// all over, and the consumer looks at them some time after.
func (c *consumer) receive(n *node, run segment.Stored) {
	w, life, cuts := c.world, n.life, n.cuts
	pages := faultdisk.PagesOf(run.File)
	before := pages.Changed()
	var given [][]byte
	for _, b := range run.Batches {
		given = append(given, pages.Read(b.Position, b.Size))
	}
	w.counts.StoredRuns++
	w.after(w.between(0, second/2), func() {
		if n.life == life {
			run.Release()
		}
	})
	look := func() {
		if n.cuts != cuts || pages.Changed() != before {
			return // the machine has no power, or somebody has damaged the file
		}
		w.counts.LateLooks++
		for i, b := range run.Batches {
			if !bytes.Equal(pages.Read(b.Position, b.Size), given[i]) {
				w.fail("a consumer that is slow was handed %d bytes of the log that end at offset %d by node %d, and reads others", b.Size, b.End, n.id)
			}
		}
	}
	for range 3 {
		w.after(w.between(0, 6*second), look)
	}
}
