package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
	"strandline.dev/test/disk/loopdisk"
)

// diskBytes is the size of a node's own disk.
const diskBytes = 6 << 30

// minFree is what a node keeps free of it.
const minFree = "256MiB"

// scene is a campaign under way: the cluster, what lies below and above it, and
// which nodes a fault has now. It belongs to the campaign's goroutine.
type scene struct {
	*choice

	t       *stage
	cluster *cluster.Cluster
	load    *load
	// disks by node; without a disk of its own a node is killed where its power
	// was to be cut.
	disks  map[string]*loopdisk.Disk
	kinds  []kind // those that a mix draws from
	joined int
	places map[string]string // datacenters of nodes that came later

	// Of the step that runs.
	dice    *rand.Rand
	hold    time.Duration
	ended   time.Time // when the fault ended and recovery began
	without string    // what of it could not be done as it says
	older   string    // where copies of segments are

	entries int // on disk, compared at the end
}

// choice is which nodes faults come upon.
type choice struct {
	*scene
	taken map[string]bool // by faults that still continue
}

// place makes the disk of a node, if nodes have disks of their own, and returns
// where its data goes.
func (s *scene) place(node string) string {
	dir := filepath.Join(s.t.dir, "disk-"+node)
	disk, err := loopdisk.New(dir, diskBytes)
	require.NoError(s.t, err)
	s.disks[node] = disk
	return filepath.Join(dir, "data")
}

// closeDisks removes the disks, or keeps the images of a campaign that has failed.
// No node runs any more.
func (s *scene) closeDisks() {
	for node, disk := range s.disks {
		end := disk.Close
		if s.t.Failed() {
			end = disk.Keep
		}
		if err := end(); err != nil {
			s.t.Errorf("disk of node %s: %v", node, err)
		}
	}
}

// node that no fault has, and that serves: every second time the leader of the
// busiest log. nil: there is none.
func (s *choice) node() *cluster.Node { return s.nodeOf(nil) }

// nodeOf is node out of some; nil: of all.
func (s *choice) nodeOf(among []string) *cluster.Node {
	lead, pick := s.dice.IntN(2) == 0, s.dice.IntN(1<<20)
	var free []*cluster.Node
	for _, n := range s.cluster.Nodes() {
		if !s.taken[n.Name()] && n.Running() && (among == nil || slices.Contains(among, n.Name())) {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return nil
	}
	if lead {
		leader := s.cluster.Leader(ordersLog)
		if i := slices.IndexFunc(free, func(n *cluster.Node) bool { return n.Name() == leader }); i >= 0 {
			return s.take(free[i])
		}
	}
	return s.take(free[pick%len(free)])
}

func (s *choice) take(n *cluster.Node) *cluster.Node {
	s.taken[n.Name()] = true
	return n
}

// release lets other faults come upon the nodes.
func (s *choice) release(nodes ...*cluster.Node) {
	for _, n := range nodes {
		delete(s.taken, n.Name())
	}
}

// addresses are those of the nodes that there are now.
func (s *scene) addresses() places {
	return places{s.cluster.Addresses(), s.cluster.KafkaAddresses()}
}

// over notes that a fault has ended and recovery begins.
func (s *scene) over() {
	s.ended = time.Now()
	s.load.pace.recover(s.ended)
}

// howMany nodes a fault comes upon, of so many.
type howMany func(nodes int) int

func one(int) int        { return 1 }
func minority(n int) int { return max(1, (n-1)/2) }
func majority(n int) int { return n/2 + 1 }
func all(n int) int      { return n }

// nodes takes as many as it finds of those wanted; nil: none.
func (s *choice) nodes(count howMany) []*cluster.Node {
	var taken []*cluster.Node
	for range count(len(s.cluster.Nodes())) {
		if n := s.node(); n != nil {
			taken = append(taken, n)
		}
	}
	return taken
}

// newName is one that no node of this cluster has had, for a node in the datacenter of another.
func (s *scene) newName(like *cluster.Node) string {
	s.joined++
	name := fmt.Sprintf("new%d", s.joined)
	s.places[name] = s.datacenter(like.Name())
	return name
}
