package cluster

import (
	"reflect"
	"slices"

	"strandline.dev/internal/record"
)

const (
	// MaxLogs is the maximum number of logs in a cluster: each takes files, two goroutines and an
	// entry in the catalog.
	MaxLogs = 10_000
	// MaxReplicas is the maximum number of replicas of a log that vote. Each one makes an append a
	// little slower, and five survive the loss of any two.
	MaxReplicas = 7
)

// NewLog is a log to be created.
type NewLog struct {
	Name    string
	Config  Config
	Created int64  // unix ms
	Request string // see Log.Request
	Creator string // see Log.Creator
	// Nodes are the nodes that will hold the log. The first will lead it. If nil, they are chosen.
	Nodes []uint64
}

// CreateLog plans a new log. alive reports whether a node can be reached.
func CreateLog(s *State, q NewLog, alive func(node uint64) bool) (Log, *record.Refusal) {
	if _, ok := s.Logs[q.Name]; ok {
		return Log{}, record.Refuse(record.LogExists, "log %q already exists", q.Name)
	}
	if len(s.Logs) >= MaxLogs {
		return Log{}, record.Refuse(record.TooLarge, "the cluster has %d logs, the limit", len(s.Logs))
	}
	l := Log{ID: s.NextLog, Name: q.Name, Config: q.Config, Created: q.Created, Request: q.Request}
	if q.Creator != "" && s.FeatureLevel() >= creatorLevel {
		if refusal := refuseCrowding(s, q.Creator); refusal != nil {
			return Log{}, refusal
		}
		l.Creator = q.Creator
	}
	l.Config.Revision = 1
	if l.Config.Rule.Empty() {
		l.Config.Rule = nil
	}
	nodes := q.Nodes
	if nodes == nil {
		if refusal := refuseRule(s, &l); refusal != nil && len(s.Nodes) > 0 {
			return Log{}, refusal
		}
		nodes = Place(s, &l, alive)
	} else if refusal := checkNodes(s, nodes); refusal != nil {
		return Log{}, refusal
	} else {
		l.Config.Replicas = len(nodes)
		if p := newPlacer(s, &l); !p.rule.Empty() {
			if refusal := refuseUnmet(p.rule, l.Name, append(p.unmet(nodes), p.unmetReadReplicas(placeReadReplicas(s, &l, nodes, alive), nodes)...)); refusal != nil {
				return Log{}, refusal
			}
		}
	}
	if len(nodes) == 0 {
		// For example between the formation of a cluster and the addition of its first node.
		return Log{}, record.Refuse(record.Busy, "no node of the cluster can hold a log at the moment")
	}
	for i, node := range nodes {
		r := Replica{ID: s.NextReplica + uint64(i), Node: node}
		l.Replicas = append(l.Replicas, r)
		l.Founders = append(l.Founders, r.ID)
	}
	next := s.NextReplica + uint64(len(nodes))
	for i, node := range placeReadReplicas(s, &l, nodes, alive) {
		l.Add(node, next+uint64(i), true)
	}
	if l.Config.InMemory() {
		l.Reserve(0, 0)
	}
	if len(nodes) > 1 {
		l.Stretch = s.Stretch // until its own round trips are known
	}
	return l, nil
}

// creatorLevel is the feature level that permits Log.Creator.
const creatorLevel = 4

// refuseCrowding refuses a new log if its creator would then have created more logs than can
// still be added to the cluster: one principal may use half of what is there, and leaves the
// other half to others.
func refuseCrowding(s *State, creator string) *record.Refusal {
	left := MaxLogs - len(s.Logs)
	if len(s.Logs) < left {
		return nil // no one has created more logs than there are
	}
	own := 0
	for _, l := range s.Logs {
		if l.Creator == creator {
			own++
		}
	}
	if own < left {
		return nil
	}
	r := record.Refuse(record.TooLarge,
		"%s has created %d of the cluster's logs, and the remaining %d are reserved for others: delete logs, or have an administrator create this one", creator, own, left)
	r.OwnShare = true
	return r
}

// checkNodes refuses nodes that cannot hold the replicas of one log.
func checkNodes(s *State, nodes []uint64) *record.Refusal {
	for i, id := range nodes {
		switch n, ok := s.Nodes[id]; {
		case !ok || n.Leaving:
			return record.Refuse(record.NoNode, "node %d, which should hold a replica, does not exist", id)
		case slices.Contains(nodes[:i], id):
			return record.Refuse(record.Invalid, "node %d cannot hold two replicas of one log", id)
		}
	}
	if len(nodes) == 0 || len(nodes) > MaxReplicas {
		return record.Refuse(record.Invalid, "a log has 1 to %d replicas, not %d", MaxReplicas, len(nodes))
	}
	return nil
}

// ReconfigureLog changes the settings of a log. A zero MaxBatchBytes or Replicas, nil Settings
// and a nil Rule leave these settings unchanged; an empty Rule removes the log's own rule. The
// durability and the topic of a log cannot change. id is the id of the log that the caller means;
// 0: any. to.Revision is the revision of the configuration that the caller has changed; 0: any. A
// request that is repeated after it took effect changes nothing.
func ReconfigureLog(s *State, name string, id uint64, to Config) (Change, *record.Refusal) {
	l, refusal := s.Find(name, id)
	if refusal != nil {
		return Change{}, refusal
	}
	if to.Durability != l.Config.Durability {
		return Change{}, record.Refuse(record.Invalid, "the durability of a log cannot be changed: create a new log and copy the records")
	}
	to.Topic, to.Partition, to.Unknown = l.Config.Topic, l.Config.Partition, l.Config.Unknown
	if to.Settings == nil {
		to.Settings = l.Config.Settings
		if to.MaxBatchBytes == 0 {
			to.MaxBatchBytes = l.Config.MaxBatchBytes
		}
	}
	// The default number of replicas is not made explicit.
	if to.Replicas == 0 || to.Replicas == WantedReplicas(s, &l) {
		to.Replicas = l.Config.Replicas
	}
	was := s.RuleOf(&l)
	switch {
	case to.Rule == nil:
		to.Rule = l.Config.Rule
	case to.Rule.Empty():
		to.Rule = nil
	}
	changed := to.Revision
	to.Revision = l.Config.Revision + 1
	if changed != 0 && changed != l.Config.Revision {
		if to.Revision = l.Config.Revision; changed == to.Revision-1 && reflect.DeepEqual(l.Config, to) {
			return Change{Put: []Log{l}}, nil
		}
		return Change{}, record.Refuse(record.Precondition,
			"log %q has revision %d of its configuration, the change is of revision %d: read it and change it again", name, l.Config.Revision, changed)
	}
	asked := to.Replicas != l.Config.Replicas
	l.Config = to
	// Otherwise a rule that is no longer met would prevent all other changes.
	if asked || !reflect.DeepEqual(was, s.RuleOf(&l)) {
		if refusal := refuseRule(s, &l); refusal != nil {
			return Change{}, refusal
		}
	}
	return Change{Put: []Log{l}}, nil
}

// DeleteLog removes a log that is not part of a topic with several partitions. id is as for
// ReconfigureLog.
func DeleteLog(s *State, name string, id uint64) (Change, *record.Refusal) {
	if _, refusal := s.Find(name, id); refusal != nil {
		return Change{}, refusal
	}
	if refusal := refusePartOfTopic(s, name); refusal != nil {
		return Change{}, refusal
	}
	return Change{Delete: []string{name}}, nil
}

// Find returns the log with the given name. id is the id by which the caller knows it; 0: any.
func (s *State) Find(name string, id uint64) (Log, *record.Refusal) {
	l, ok := s.Logs[name]
	if !ok {
		return l, record.Refuse(record.LogNotFound, "there is no log %q", name)
	}
	return l, Identify(name, id, l.ID)
}

// Identify refuses a request if the log of that name, whose id is id, is not the log with the id
// wanted that the caller knows; wanted 0: any.
func Identify(name string, wanted, id uint64) *record.Refusal {
	switch {
	case wanted == 0 || wanted == id:
		return nil
	case wanted > id:
		// Ids increase, so this node does not know the caller's log yet.
		return record.Refuse(record.NotLeader, "this node does not know log %q with id %d yet", name, wanted)
	}
	r := record.Refuse(record.LogReplaced,
		"log %q with id %d was deleted; another one of that name, with id %d, was created after it", name, wanted, id)
	r.LogID = id
	return r
}
