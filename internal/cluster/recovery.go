package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"strandline.dev/internal/record"
)

// When a majority is lost for good, an operator has what is left continue as a new cluster:
// the nodes that survive say what they have (Remains), PlanRecovery decides what becomes of each log, and each
// node carries out its part while it is stopped. The plan is a function of the remains alone,
// so that nodes which have no file in common come to the same one.

// Remains are what a node that is stopped has on its disk.
type Remains struct {
	Cluster string `json:"cluster"`
	Node    uint64 `json:"node"`
	Name    string `json:"name"`
	// Taken is when, in unix ms, and Nonce is random: no two recoveries make the same cluster.
	Taken    int64              `json:"taken_ms"`
	Nonce    string             `json:"nonce"`
	Replicas []RemainingReplica `json:"replicas"` // by log and id; those on disk
	// Catalog is what the node's replica of the catalog adds up to, all its entries counted;
	// nil if that cannot be read.
	Catalog *State `json:"catalog,omitempty"`
}

// RemainingReplica is what is left of one replica. All entries on the disk count, committed or not.
type RemainingReplica struct {
	Log      uint64        `json:"log"`
	ID       uint64        `json:"replica"`
	Term     uint64        `json:"term"` // the newest that it has heard of
	Last     uint64        `json:"last_index"`
	LastTerm uint64        `json:"last_term"`
	Start    record.Offset `json:"start"`
	End      record.Offset `json:"end"`
	// Committed is the offset up to which it knows that records are committed.
	Committed record.Offset `json:"committed"`
	Voters    []uint64      `json:"voters"`
	Outgoing  []uint64      `json:"outgoing,omitempty"` // of a joint configuration
	Learners  []uint64      `json:"learners,omitempty"`
	// InForce are the voters that it counts votes of when it is started, and OutgoingInForce those of a
	// joint configuration: the newest change of the configuration may not be known to be committed.
	InForce         []uint64 `json:"in_force,omitempty"`
	OutgoingInForce []uint64 `json:"outgoing_in_force,omitempty"`
	Problem         string   `json:"problem,omitempty"` // why it cannot be used; empty: it can
}

// Same reports whether a node still has what it had when the other remains were taken.
func (s Remains) Same(other Remains) bool {
	a, errA := json.Marshal(s.alone())
	b, errB := json.Marshal(other.alone())
	return errA == nil && errB == nil && string(a) == string(b)
}

// alone are remains without when they were taken, and without the words of errors, in which the
// directory may have another name.
func (s Remains) alone() Remains {
	s.Taken, s.Nonce, s.Replicas = 0, "", slices.Clone(s.Replicas)
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Problem != "" {
			r.Problem = "some"
		}
	}
	return s
}

// RecoveryPlan is what becomes of a cluster of which some nodes are lost.
type RecoveryPlan struct {
	Was     string    `json:"was"`     // the id of the cluster
	Cluster string    `json:"cluster"` // from now on
	Unix    int64     `json:"unix_ms"` // of what is written
	Remains []Remains `json:"remains"` // it was made of, by node
	Lost    []Node    `json:"lost"`    // the nodes that are members no more, by id
	// Logs are those on disk and in memory, the catalog first, then by name.
	Logs []LogRecovery `json:"logs"`
	// Unused are replicas that no log continues with: damaged, or of no log that is known.
	Unused []UnusedReplica `json:"unused,omitempty"`
	State  State           `json:"state"` // of the catalog from now on
}

// LogRecovery is what becomes of one log.
type LogRecovery struct {
	Log  uint64 `json:"log"`
	Name string `json:"name"`
	// Memory: the log is in memory, and begins anew without its records at offset End.
	Memory bool `json:"memory,omitempty"`
	// Survivors are the replicas that can be used, the most complete first: the log
	// continues with that. Without any nothing of the log is left.
	Survivors []Survivor `json:"survivors"`
	// Damaged are the ids of replicas that are there and cannot be used: one may have records that no survivor
	// has, and be repaired by what others have once its node is started.
	Damaged []uint64 `json:"damaged,omitempty"`
	// Term is that of the entries which take the lost replicas away; 0: a majority is left, which
	// elects a leader and takes them away as it would any. It cannot where it does not know yet that
	// the change of the configuration has committed by which it is one.
	Term uint64 `json:"term,omitempty"`
	// Voters is how many had a vote, and LostVoters how many of these are lost. Majority: those
	// that are left have all that was acknowledged.
	Voters     int  `json:"voters"`
	LostVoters int  `json:"lost_voters"`
	Majority   bool `json:"majority"`
	// Records up to Committed are proven to be committed; those up to End are kept, unless Term is 0 and
	// nobody was told of them.
	Committed record.Offset `json:"committed"`
	End       record.Offset `json:"end"`
}

// Survivor is a replica that can be used.
type Survivor struct {
	Node uint64 `json:"node"`
	Name string `json:"name"`
	RemainingReplica
}

// UnusedReplica is a replica that is set aside.
type UnusedReplica struct {
	Node    uint64 `json:"node"`
	Log     uint64 `json:"log"`
	ID      uint64 `json:"replica"`
	Problem string `json:"problem"`
}

// Keep are the members that a log has from now on.
func (l *LogRecovery) Keep() (ids []uint64) {
	for _, s := range l.Survivors {
		ids = append(ids, s.ID)
	}
	return ids
}

const (
	// recoveryTerms is how much higher the term is with which a log continues: more than lost
	// replicas reach that go on among themselves, and few enough for Kafka's leader epochs.
	recoveryTerms = 1 << 16
	// RecoveryWriterTerms is by how much the writer term of a log rises that continues without its
	// majority: the lost replicas may have granted some that the others have not heard of.
	RecoveryWriterTerms = 1 << 32
	// recoverySessions and recoveryBlocks cover what the lost part of the catalog may have
	// given: ids of sessions, and blocks of offsets and writer terms of memory logs.
	recoverySessions = 1 << 32
	recoveryBlocks   = 16
	// recoveryRevisions covers the changes of a log's configuration, and of the list of rights, that only the
	// lost part of the catalog may have: a revision that it gave means another configuration now, and a change
	// "if the revision is still that" has to be refused.
	recoveryRevisions = 1 << 32
	// recoveryIDs covers the ids of logs and replicas that it may have given.
	recoveryIDs = 1 << 20
)

// ErrNothingLost refuses a recovery of what needs none.
var ErrNothingLost = errors.New("a majority of the catalog and of every log is on these nodes: start them, the cluster goes on by itself")

// PlanRecovery decides what becomes of each log. Remains are those of all nodes that survive.
func PlanRecovery(remains []Remains) (*RecoveryPlan, error) {
	remains = slices.SortedFunc(slices.Values(remains), func(a, b Remains) int { return cmp.Compare(a.Node, b.Node) })
	for i, s := range remains {
		switch {
		case s.Cluster != remains[0].Cluster:
			return nil, fmt.Errorf("node %q belongs to cluster %s, node %q to %s", s.Name, s.Cluster, remains[0].Name, remains[0].Cluster)
		case i > 0 && s.Node == remains[i-1].Node:
			return nil, fmt.Errorf("node %q is named twice", s.Name)
		}
	}
	if len(remains) == 0 {
		return nil, errors.New("no node survives")
	}
	r := &recovery{plan: &RecoveryPlan{Was: remains[0].Cluster, Remains: remains}, byLog: map[uint64][]Survivor{}, damaged: map[uint64][]uint64{}}
	for _, s := range remains {
		r.plan.Unix = max(r.plan.Unix, s.Taken)
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(r.state.Logs))
	for _, name := range names {
		r.recover(name)
	}
	r.plan.State = r.state
	if !slices.ContainsFunc(r.plan.Logs, func(l LogRecovery) bool { return !l.Memory && (!l.Majority || l.Log != CatalogID && l.Term > 0) }) {
		return nil, ErrNothingLost
	}
	r.name()
	return r.plan, nil
}

// recovery is a plan that is being made.
type recovery struct {
	plan  *RecoveryPlan
	state State
	byLog map[uint64][]Survivor // those that can be used, the most complete first
	alive map[uint64]bool       // nodes
	// damaged are the replicas of each log that cannot be used.
	damaged map[uint64][]uint64
}

// begin finds the catalog that survives, and makes the others its members no more.
func (r *recovery) begin() error {
	catalogs := map[uint64]*State{}
	r.alive = map[uint64]bool{}
	var seen RemainingReplica // the highest ids
	for _, s := range r.plan.Remains {
		r.alive[s.Node], catalogs[s.Node] = true, s.Catalog
		for _, replica := range s.Replicas {
			seen.Log, seen.ID = max(seen.Log, replica.Log), max(seen.ID, replica.ID)
			if replica.Problem == "" && (replica.Log != CatalogID || s.Catalog != nil) {
				r.byLog[replica.Log] = append(r.byLog[replica.Log], Survivor{s.Node, s.Name, replica})
				continue
			}
			r.damaged[replica.Log] = append(r.damaged[replica.Log], replica.ID)
			r.plan.Unused = append(r.plan.Unused, UnusedReplica{s.Node, replica.Log, replica.ID, cmp.Or(replica.Problem, "the catalog cannot be read")})
		}
	}
	for _, log := range slices.Sorted(maps.Keys(r.byLog)) {
		r.sort(log)
	}
	best := r.byLog[CatalogID]
	if len(best) == 0 {
		return errors.New("no whole replica of the catalog survives: without it nobody knows what the logs are")
	}
	r.state = catalogs[best[0].Node].Clone()
	for _, s := range r.plan.Remains {
		if r.state.Nodes[s.Node].ID == 0 {
			return fmt.Errorf("the catalog that survives does not have node %q, or has it no more: leave it out", s.Name)
		}
	}
	for _, n := range r.state.Members() {
		if !r.alive[n.ID] {
			r.plan.Lost = append(r.plan.Lost, n)
			r.state.Gone[n.ID] = n.Name
			delete(r.state.Nodes, n.ID)
		}
	}
	for _, s := range r.plan.Remains {
		n := r.state.Nodes[s.Node]
		for _, replica := range s.Replicas {
			if replica.Log == CatalogID {
				n.Catalog = replica.ID // which the catalog that survives may not know
			}
		}
		r.state.Nodes[s.Node] = n
	}
	catalog := r.continued(CatalogID, CatalogName)
	best = catalog.Survivors
	voters := votersOf(best[0], best)
	for _, n := range r.state.Members() {
		n.Votes = slices.Contains(voters, n.Catalog)
		r.state.Nodes[n.ID] = n
	}
	r.plan.Logs = append(r.plan.Logs, catalog)
	r.state.NextLog, r.state.NextReplica = max(r.state.NextLog, seen.Log+1)+recoveryIDs, max(r.state.NextReplica, seen.ID+1)+recoveryIDs
	r.state.NextSession += recoverySessions
	if r.state.Access.Revision > 0 { // 0: nobody has said anything about rights
		r.state.Access.Revision += recoveryRevisions
	}
	return nil
}

// sort puts the most complete replica of a log first. Whatever any of them knows to be committed
// is in that, as it would be in a leader. Those that it does not know as members are not used.
func (r *recovery) sort(log uint64) {
	all := r.byLog[log]
	slices.SortStableFunc(all, func(a, b Survivor) int {
		return cmp.Or(cmp.Compare(b.LastTerm, a.LastTerm), cmp.Compare(b.Last, a.Last))
	})
	first, kept := all[0], all[:1]
	members := slices.Concat(first.Voters, first.Outgoing, first.Learners)
	for _, s := range all[1:] {
		if slices.Contains(members, s.ID) {
			kept = append(kept, s)
			continue
		}
		r.plan.Unused = append(r.plan.Unused, UnusedReplica{s.Node, log, s.ID, "it is no member of its log any more"})
	}
	r.byLog[log] = kept
}

// continued is how a log continues of which something is left.
func (r *recovery) continued(log uint64, name string) LogRecovery {
	survivors := r.byLog[log]
	l := LogRecovery{Log: log, Name: name, Survivors: survivors, Damaged: r.damaged[log]}
	if len(survivors) == 0 {
		return l
	}
	first := survivors[0]
	left := map[uint64]bool{}
	for _, id := range l.Keep() {
		left[id] = true
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(first.Voters, first.Outgoing)))) {
		if l.Voters++; !left[id] {
			l.LostVoters++
		}
	}
	l.Majority = elects(first, survivors)
	term := uint64(0)
	for _, s := range survivors {
		l.Committed, term = max(l.Committed, s.Committed), max(term, s.Term)
	}
	// By any configuration that one of them has: whose is the newest that counts, an election finds out.
	continues := !slices.ContainsFunc(survivors, func(s Survivor) bool { return !elects(s, survivors) || !electsAtFirst(s, survivors) })
	if continues && log != CatalogID {
		l.Survivors = voterFirst(survivors)
	} else {
		l.Term = term + recoveryTerms
		r.leaveOutElectors(&l)
	}
	l.End = l.Survivors[0].End
	l.Committed = min(l.Committed, l.End)
	return l
}

// elects reports whether these replicas can elect a leader by the configuration that one of them knows.
func elects(by Survivor, replicas []Survivor) bool {
	there := func(id uint64) bool {
		return slices.ContainsFunc(replicas, func(s Survivor) bool { return s.ID == id })
	}
	return majority(by.Voters, there) && (len(by.Outgoing) == 0 || majority(by.Outgoing, there))
}

// electsAtFirst does so for the configuration that one of them begins with.
func electsAtFirst(by Survivor, replicas []Survivor) bool {
	if len(by.InForce) == 0 {
		return true // a release before this one has not said it
	}
	by.Voters, by.Outgoing = by.InForce, by.OutgoingInForce
	return elects(by, replicas)
}

// voterFirst puts the most complete of those replicas first that may be elected.
func voterFirst(survivors []Survivor) []Survivor {
	voters := slices.Concat(survivors[0].Voters, survivors[0].Outgoing)
	at := slices.IndexFunc(survivors, func(s Survivor) bool { return slices.Contains(voters, s.ID) })
	return slices.Concat(survivors[at:at+1], survivors[:at], survivors[at+1:])
}

// leaveOutElectors leaves the first survivor alone where the others could elect a leader without it: only
// the first is written anew, and what they acknowledged among themselves would not be in it. They may elect by
// the configuration that they begin with, too, and commit then what they have of a newer one.
func (r *recovery) leaveOutElectors(l *LogRecovery) {
	first, others := l.Survivors[0], l.Survivors[1:]
	elect := func(s Survivor) bool { return elects(s, others) || len(s.InForce) > 0 && electsAtFirst(s, others) }
	if !slices.ContainsFunc(others, elect) {
		return
	}
	for _, s := range others {
		r.plan.Unused = append(r.plan.Unused, UnusedReplica{s.Node, l.Log, s.ID,
			fmt.Sprintf("the log continues with replica %d on node %q alone, and is copied from there", first.ID, first.Name)})
	}
	l.Survivors = l.Survivors[:1:1]
}

// votersOf are the survivors that vote from now on: those that did, and the one that the log
// continues with.
func votersOf(first Survivor, survivors []Survivor) (ids []uint64) {
	for _, s := range survivors {
		if s.ID == first.ID || slices.Contains(first.Voters, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// recover decides what becomes of a log, and places it.
func (r *recovery) recover(name string) {
	l := r.state.Logs[name]
	l.Config.Revision += recoveryRevisions
	r.state.Logs[name] = l
	if l.Config.InMemory() {
		r.beginAnew(l)
		return
	}
	out := r.continued(l.ID, name)
	delete(r.byLog, l.ID)
	r.plan.Logs = append(r.plan.Logs, out)
	if len(out.Survivors) == 0 {
		return // it stays as it is, without a leader, until somebody deletes it
	}
	voters := votersOf(out.Survivors[0], out.Survivors)
	readers := l.Readers
	l.Replicas, l.Readers, l.Leaving = nil, nil, nil
	for _, s := range out.Survivors {
		at := slices.IndexFunc(readers, func(r Replica) bool { return r.ID == s.ID })
		if at >= 0 && !slices.Contains(voters, s.ID) {
			l.Readers = append(l.Readers, readers[at])
			continue
		}
		l.Replicas = append(l.Replicas, Replica{ID: s.ID, Node: s.Node, New: !slices.Contains(voters, s.ID)})
	}
	r.state.Logs[name] = l
}

// beginAnew lets a memory log begin anew: its processes have ended.
func (r *recovery) beginAnew(l Log) {
	gone := func(replica Replica) bool { return !r.alive[replica.Node] }
	l.Replicas, l.Readers = slices.DeleteFunc(slices.Clone(l.Replicas), gone), slices.DeleteFunc(slices.Clone(l.Readers), gone)
	if len(l.Replicas) == 0 {
		l.Readers = nil // they get other places
		for _, node := range Place(&r.state, &l, func(uint64) bool { return true }) {
			l.Replicas = append(l.Replicas, Replica{Node: node})
		}
	}
	l.Ceiling += recoveryBlocks * OffsetBlock
	l.TermCeiling += recoveryBlocks * TermBlock
	r.state.NextReplica = l.BeginAnew(r.state.NextReplica)
	r.state.Logs[l.Name] = l
	r.plan.Logs = append(r.plan.Logs, LogRecovery{Log: l.ID, Name: l.Name, Memory: true, End: l.Lost})
}

// name gives the cluster its new id, and says which replicas are of no log that is known.
func (r *recovery) name() {
	delete(r.byLog, CatalogID)
	for _, log := range slices.Sorted(maps.Keys(r.byLog)) {
		for _, s := range r.byLog[log] {
			r.plan.Unused = append(r.plan.Unused, UnusedReplica{s.Node, log, s.ID, "the catalog that survives has no such log"})
		}
	}
	data, err := json.Marshal(r.plan.Remains)
	if err != nil {
		panic(err) // it was decoded from JSON, or has nothing that JSON does not have
	}
	sum := sha256.Sum256(data)
	r.plan.Cluster = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26] // as long as others
}
