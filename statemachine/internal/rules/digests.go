package rules

import "bytes"

// Digests compares the digests of the state of this replica with those that others have reported, at
// the offsets that are multiples of a number. All replicas apply the same records, so two different
// digests at one offset mean that the states of two replicas have diverged.
//
// The majority of the replicas that have reported is taken to be right. Without one, a replica that
// was up to date ends when the next digest is due: it cannot know whether it is wrong.
type Digests struct {
	every int64
	name  string
	taken []*comparison // of the newest offsets, oldest first
}

const (
	// maxDigests bounds the offsets at which digests are compared, the newest ones.
	maxDigests = 16
	// maxReports bounds the replicas whose reports at one offset count.
	maxReports = 1000
)

// comparison is what is known of the digest at one offset.
type comparison struct {
	at      int64
	own     []byte
	live    bool              // the replica was up to date
	reports map[string][]byte // by replica, without this one
}

// Divergence is a digest that differs from that of this replica.
type Divergence struct {
	At              int64
	Own, Other      []byte
	Replica         string // one that has reported Other
	Agree, Disagree int    // replicas with the digest of this replica, itself included, and with Other
}

// NewDigests returns a comparison at every multiple of every, for the replica with a name. 0: nowhere.
func NewDigests(every int64, name string) *Digests { return &Digests{every: every, name: name} }

// Due reports whether a digest is due of the state in which all records below next are applied.
func (d *Digests) Due(next int64) bool { return d.every > 0 && next > 0 && next%d.every == 0 }

// Take takes the digest of this replica at an offset. live is set if the replica is up to date, and
// not if it reads what happened earlier.
func (d *Digests) Take(at int64, own []byte, live bool) *Divergence {
	for _, c := range d.taken {
		if found := c.judge(); found != nil && c.live && found.Disagree >= found.Agree {
			return found
		}
	}
	d.taken = append(d.taken, &comparison{at: at, own: own, live: live, reports: map[string][]byte{}})
	if len(d.taken) > maxDigests {
		d.taken = d.taken[1:]
	}
	return nil
}

// Report takes the digest that a replica has reported. It returns the divergence of this replica if a
// majority disagrees with it. A report on an offset without a digest of this replica is ignored.
func (d *Digests) Report(at int64, replica string, digest []byte) *Divergence {
	for _, c := range d.taken {
		if c.at != at || replica == d.name {
			continue
		}
		if _, known := c.reports[replica]; known || len(c.reports) < maxReports {
			c.reports[replica] = bytes.Clone(digest)
		}
		if found := c.judge(); found != nil && found.Disagree > found.Agree {
			return found
		}
	}
	return nil
}

// Disputed reports whether a replica has reported another digest than this one at the newest offset:
// until it is known which one is right, the state is not worth a snapshot.
func (d *Digests) Disputed() bool {
	return len(d.taken) > 0 && d.taken[len(d.taken)-1].judge() != nil
}

// Forget forgets all digests: the state has been replaced.
func (d *Digests) Forget() { d.taken = nil }

// judge returns the digest that most of the replicas that disagree have, or nil if none disagrees. Of
// several the one whose replica comes first by name, so that all replicas name the same.
func (c *comparison) judge() *Divergence {
	agree, others := 1, map[string]*Divergence{}
	for replica, digest := range c.reports {
		if bytes.Equal(digest, c.own) {
			agree++
			continue
		}
		other := others[string(digest)]
		if other == nil {
			other = &Divergence{At: c.at, Own: c.own, Other: digest, Replica: replica}
			others[string(digest)] = other
		}
		other.Disagree++
		other.Replica = min(other.Replica, replica)
	}
	var most *Divergence
	for _, other := range others {
		if most == nil || other.Disagree > most.Disagree || other.Disagree == most.Disagree && other.Replica < most.Replica {
			most = other
		}
	}
	if most != nil {
		most.Agree = agree
	}
	return most
}
