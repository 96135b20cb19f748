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

// When a majority is permanently lost, an operator can let the rest continue as a new cluster:
// each surviving node describes what it has (Remains), PlanRecovery decides about each log, and
// each node carries out its part while it is stopped. The plan is a function of the remains
// alone, so that nodes without a shared file compute the same plan.

// Remains describes what a stopped node has on its disk.
type Remains struct {
	Cluster string `json:"cluster"`
	Node    uint64 `json:"node"`
	Name    string `json:"name"`
	// Taken is the time in Unix milliseconds, and Nonce is random, so that no two recoveries make
	// the same cluster.
	Taken    int64              `json:"taken_ms"`
	Nonce    string             `json:"nonce"`
	Replicas []RemainingReplica `json:"replicas"` // those on disk, by log and id
	// Catalog is the state of the node's replica of the catalog including all of its entries, or nil
	// if it cannot be read.
	Catalog *State `json:"catalog,omitempty"`
}

// RemainingReplica describes what is left of one replica. All entries on the disk count,
// committed or not.
type RemainingReplica struct {
	Log      uint64        `json:"log"`
	ID       uint64        `json:"replica"`
	Term     uint64        `json:"term"` // the newest that it knows
	Last     uint64        `json:"last_index"`
	LastTerm uint64        `json:"last_term"`
	Start    record.Offset `json:"start"`
	End      record.Offset `json:"end"`
	// Committed is the offset up to which it knows records to be committed.
	Committed record.Offset `json:"committed"`
	Voters    []uint64      `json:"voters"`
	Outgoing  []uint64      `json:"outgoing,omitempty"` // of a joint configuration
	Learners  []uint64      `json:"learners,omitempty"`
	// InForce are the voters whose votes it counts when it starts, and OutgoingInForce those of a
	// joint configuration: the newest configuration change may not be known to be committed.
	InForce         []uint64 `json:"in_force,omitempty"`
	OutgoingInForce []uint64 `json:"outgoing_in_force,omitempty"`
	Problem         string   `json:"problem,omitempty"` // why it cannot be used; empty if it can
}

// Same reports whether a node still has what it had when the other remains were taken.
func (s Remains) Same(other Remains) bool {
	a, errA := json.Marshal(s.alone())
	b, errB := json.Marshal(other.alone())
	return errA == nil && errB == nil && string(a) == string(b)
}

// alone returns the remains without the time and nonce, and without the texts of errors, in which
// the directory may have another name.
func (s Remains) alone() Remains {
	s.Taken, s.Nonce, s.Replicas = 0, "", slices.Clone(s.Replicas)
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Problem != "" {
			r.Problem = "some"
		}
	}
	return s
}

// RecoveryPlan is the plan for a cluster some of whose nodes are lost.
type RecoveryPlan struct {
	Was     string    `json:"was"`     // id of the cluster before
	Cluster string    `json:"cluster"` // id of the cluster afterwards
	Unix    int64     `json:"unix_ms"` // time of what is written
	Remains []Remains `json:"remains"` // input of the plan, by node
	Lost    []Node    `json:"lost"`    // nodes that are no longer members, by id
	// Logs are the logs on disk and in memory, the catalog first, then by name.
	Logs []LogRecovery `json:"logs"`
	// Unused are replicas with which no log continues: damaged ones, and those of unknown logs.
	Unused []UnusedReplica `json:"unused,omitempty"`
	State  State           `json:"state"` // of the catalog afterwards
}

// LogRecovery is the plan for one log.
type LogRecovery struct {
	Log  uint64 `json:"log"`
	Name string `json:"name"`
	// Memory is set for a log in memory, which restarts without its records at offset End.
	Memory bool `json:"memory,omitempty"`
	// Survivors are the usable replicas. The log continues with the first one, which is the most
	// complete. If there is none, nothing of the log is left.
	Survivors []Survivor `json:"survivors"`
	// Damaged are the ids of replicas that exist but cannot be used. One may have records that no
	// survivor has; it may be repaired from others once its node is started.
	Damaged []uint64 `json:"damaged,omitempty"`
	// Term is the term of the entries that remove the lost replicas. It is 0 if a majority is left
	// that elects a leader and removes them as usual. A majority cannot do so if it does not know
	// yet that the configuration change that makes it a majority has committed.
	Term uint64 `json:"term,omitempty"`
	// Voters is how many replicas had a vote, and LostVoters how many of these are lost. Majority is
	// set if those that are left have all acknowledged records.
	Voters     int  `json:"voters"`
	LostVoters int  `json:"lost_voters"`
	Majority   bool `json:"majority"`
	// Records up to Committed are proven to be committed. Those up to End are kept, unless Term is 0
	// and they were never acknowledged.
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

// Keep returns the ids of the members of the log after the recovery.
func (l *LogRecovery) Keep() (ids []uint64) {
	for _, s := range l.Survivors {
		ids = append(ids, s.ID)
	}
	return ids
}

const (
	// recoveryTerms is how much the term of a continued log is raised: by more than lost replicas
	// that continue among themselves can reach, and by little enough for Kafka's leader epochs.
	recoveryTerms = 1 << 16
	// RecoveryWriterTerms is how much the writer term of a log is raised that continues without its
	// majority: the lost replicas may have granted some that the others do not know.
	RecoveryWriterTerms = 1 << 32
	// recoverySessions and recoveryBlocks cover what the lost part of the catalog may have assigned:
	// ids of sessions, and blocks of offsets and writer terms of memory logs.
	recoverySessions = 1 << 32
	recoveryBlocks   = 16
	// recoveryRevisions covers the changes of a log's configuration, and of the list of rights, that only the
	// lost part of the catalog may have: a revision that it assigned means another configuration now, and a change
	// on the condition of that revision must be refused.
	recoveryRevisions = 1 << 32
	// recoveryIDs covers the ids of logs and replicas that it may have assigned.
	recoveryIDs = 1 << 20
)

// ErrNothingLost is returned by PlanRecovery if no recovery is needed.
var ErrNothingLost = errors.New("these nodes have a majority of the catalog and of every log: start them; no recovery is needed")

// PlanRecovery decides how each log continues. remains are those of all surviving nodes.
func PlanRecovery(remains []Remains) (*RecoveryPlan, error) {
	remains = slices.SortedFunc(slices.Values(remains), func(a, b Remains) int { return cmp.Compare(a.Node, b.Node) })
	for i, s := range remains {
		switch {
		case s.Cluster != remains[0].Cluster:
			return nil, fmt.Errorf("node %q belongs to cluster %s, node %q to %s", s.Name, s.Cluster, remains[0].Name, remains[0].Cluster)
		case i > 0 && s.Node == remains[i-1].Node:
			return nil, fmt.Errorf("node %q is given twice", s.Name)
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

// recovery is a plan under construction.
type recovery struct {
	plan  *RecoveryPlan
	state State
	byLog map[uint64][]Survivor // usable replicas, the most complete first
	alive map[uint64]bool       // nodes
	// damaged are the replicas of each log that cannot be used.
	damaged map[uint64][]uint64
}

// begin finds the surviving catalog and removes the lost nodes from its members.
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
		return errors.New("no intact replica of the catalog survives, so the logs are unknown")
	}
	r.state = catalogs[best[0].Node].Clone()
	for _, s := range r.plan.Remains {
		if r.state.Nodes[s.Node].ID == 0 {
			return fmt.Errorf("the surviving catalog does not contain node %q: leave it out", s.Name)
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
				n.Catalog = replica.ID // the surviving catalog may not know it
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
	if r.state.Access.Revision > 0 { // 0: rights were never changed
		r.state.Access.Revision += recoveryRevisions
	}
	return nil
}

// sort puts the most complete replica of a log first. As with an elected leader, it has
// everything that any replica knows to be committed. Replicas that it does not know as members
// are not used.
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
		r.plan.Unused = append(r.plan.Unused, UnusedReplica{s.Node, log, s.ID, "it is no longer a member of its log"})
	}
	r.byLog[log] = kept
}

// continued decides how a log continues of which something is left.
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
	// By the configuration of each of them, since the election decides which one is in effect.
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

// elects reports whether these replicas can elect a leader by the configuration of by.
func elects(by Survivor, replicas []Survivor) bool {
	there := func(id uint64) bool {
		return slices.ContainsFunc(replicas, func(s Survivor) bool { return s.ID == id })
	}
	return majority(by.Voters, there) && (len(by.Outgoing) == 0 || majority(by.Outgoing, there))
}

// electsAtFirst is like elects for the configuration with which by starts.
func electsAtFirst(by Survivor, replicas []Survivor) bool {
	if len(by.InForce) == 0 {
		return true // an earlier release did not record it
	}
	by.Voters, by.Outgoing = by.InForce, by.OutgoingInForce
	return elects(by, replicas)
}

// voterFirst moves the most complete replica that may be elected to the front.
func voterFirst(survivors []Survivor) []Survivor {
	voters := slices.Concat(survivors[0].Voters, survivors[0].Outgoing)
	at := slices.IndexFunc(survivors, func(s Survivor) bool { return slices.Contains(voters, s.ID) })
	return slices.Concat(survivors[at:at+1], survivors[:at], survivors[at+1:])
}

// leaveOutElectors keeps the first survivor alone if the others could elect a leader without it:
// only the first is rewritten, and it would lack what they acknowledge among themselves. They may
// also elect by the configuration with which they start, and then commit what they have of a
// newer one.
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

// votersOf returns the survivors that vote afterwards: those that voted before, and the one with
// which the log continues.
func votersOf(first Survivor, survivors []Survivor) (ids []uint64) {
	for _, s := range survivors {
		if s.ID == first.ID || slices.Contains(first.Voters, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// recover decides how a log continues and places it.
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
		return // it stays as it is, without a leader, until it is deleted
	}
	voters := votersOf(out.Survivors[0], out.Survivors)
	readReplicas := l.Readers
	l.Replicas, l.Readers, l.Leaving = nil, nil, nil
	for _, s := range out.Survivors {
		at := slices.IndexFunc(readReplicas, func(r Replica) bool { return r.ID == s.ID })
		if at >= 0 && !slices.Contains(voters, s.ID) {
			l.Readers = append(l.Readers, readReplicas[at])
			continue
		}
		l.Replicas = append(l.Replicas, Replica{ID: s.ID, Node: s.Node, New: !slices.Contains(voters, s.ID)})
	}
	r.state.Logs[name] = l
}

// beginAnew restarts a memory log, whose processes have ended.
func (r *recovery) beginAnew(l Log) {
	gone := func(replica Replica) bool { return !r.alive[replica.Node] }
	l.Replicas, l.Readers = slices.DeleteFunc(slices.Clone(l.Replicas), gone), slices.DeleteFunc(slices.Clone(l.Readers), gone)
	if len(l.Replicas) == 0 {
		l.Readers = nil // they are placed again
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

// name sets the new id of the cluster, and lists the replicas of unknown logs as unused.
func (r *recovery) name() {
	delete(r.byLog, CatalogID)
	for _, log := range slices.Sorted(maps.Keys(r.byLog)) {
		for _, s := range r.byLog[log] {
			r.plan.Unused = append(r.plan.Unused, UnusedReplica{s.Node, log, s.ID, "the surviving catalog has no such log"})
		}
	}
	data, err := json.Marshal(r.plan.Remains)
	if err != nil {
		panic(err) // all of it can be encoded as JSON
	}
	sum := sha256.Sum256(data)
	r.plan.Cluster = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26] // as long as other cluster ids
}
