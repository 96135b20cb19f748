package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
)

// A cluster has a feature level, which is stored in its catalog. Data that nodes of an older
// release would not understand is written only at the level that permits it. A release supports
// its own level and that of the previous release, so that nodes of both work together and each
// can be downgraded, until an operator raises the level.

// Levels is the range of feature levels that a node supports, both inclusive. The zero value is
// that of a release without levels, which supports the first.
type Levels struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// firstLevel is the level of everything written before levels were introduced.
const firstLevel = 1

// Understood is the range of levels that this release supports:
//
//	1  everything before levels were introduced
//	2  users, tokens and rights in the catalog, holds, labels of nodes and rules of logs
//	3  digests of logs, and their stretch
//	4  the secret of access.List, the creators of logs, and the principals of holds
//	5  writer leases, and idle logs with open sessions
//	6  quotas
//
// Fields of Change, Node, Log and Config that only a higher level permits have the tag since; for
// commands of logs see AllowCommand.
var Understood = Levels{Min: firstLevel, Max: access.QuotaLevel}

// DigestLevel permits entries that begin a digest or have contents for it, and snapshots with
// digests.
const DigestLevel = 3

// PrincipalLevel permits the principal of a hold, in its command and in snapshots.
const PrincipalLevel = 4

// WriterLevel permits the commands of writer leases, and snapshots with their holders.
const WriterLevel = 5

// RestLevel permits that the leader of an idle log with open sessions or leases of holds sends
// heartbeats rarely. Nodes of the release before would start an election.
const RestLevel = 5

// FeatureLevel returns the feature level of the cluster.
func (s *State) FeatureLevel() int { return max(s.Level, firstLevel) }

// Known returns the levels with explicit values in place of zeros.
func (l Levels) Known() Levels { return Levels{max(l.Min, firstLevel), max(l.Max, firstLevel)} }

func (l Levels) String() string {
	if l = l.Known(); l.Min == l.Max {
		return strconv.Itoa(l.Min)
	}
	return fmt.Sprintf("%d to %d", l.Min, l.Max)
}

// RefuseLevels returns a refusal if a node does not support the level of the cluster.
func RefuseLevels(node string, l Levels, level int) *record.Refusal {
	switch l = l.Known(); {
	case l.Max < level:
		return record.Refuse(record.Precondition,
			"the cluster is at feature level %d, and node %q understands %v: its program is too old; install the release that the other nodes run", level, node, l)
	case l.Min > level:
		return record.Refuse(record.Precondition,
			"the cluster is at feature level %d, and node %q understands %v: its program is too new; install the release before it on all nodes, one at a time, then run `strandline cluster finalize`, and upgrade again",
			level, node, l)
	}
	return nil
}

// Finalize raises the cluster to the highest level that any of its nodes supports. announced has
// the levels of the nodes that answered, by id. The change is empty if the cluster is at that
// level already. It is refused if a node does not answer or does not support that level.
func Finalize(s *State, announced map[uint64]Levels) (level int, c Change, refusal *record.Refusal) {
	level = s.FeatureLevel()
	for _, n := range s.Members() {
		if l, answered := announced[n.ID]; answered {
			level = max(level, l.Known().Max)
		}
	}
	if level == s.FeatureLevel() {
		return level, Change{}, nil
	}
	var cannot []string
	for _, n := range s.Members() {
		switch l, answered := announced[n.ID]; {
		case !answered:
			cannot = append(cannot, fmt.Sprintf("%q does not answer", n.Name))
		case RefuseLevels(n.Name, l, level) != nil:
			cannot = append(cannot, fmt.Sprintf("%q understands %v", n.Name, l))
		}
	}
	if len(cannot) > 0 {
		return level, Change{}, record.Refuse(record.Precondition,
			"the cluster stays at feature level %d; for level %d these nodes have to be upgraded and run: %s", s.FeatureLevel(), level, strings.Join(cannot, ", "))
	}
	return level, Change{Level: level}, nil
}

// FirstLevel returns the level of a new cluster: the highest that all of its nodes support.
func FirstLevel(all []Levels) int {
	return slices.MinFunc(all, func(a, b Levels) int { return cmp.Compare(a.Known().Max, b.Known().Max) }).Known().Max
}

// Allow refuses a change that nodes might not understand at the level of the cluster, which the
// change itself may raise.
func Allow(s *State, c Change) *record.Refusal {
	return allow(c.needs(), max(s.FeatureLevel(), c.Level))
}

// AllowCommand refuses a command of a log that replicas might not understand at the given level:
// they would stop.
func AllowCommand(level int, kind record.CommandKind) *record.Refusal {
	switch kind {
	case record.SetHold, record.ReleaseHold:
		return allow(2, level)
	case record.LeaseWriter, record.ReleaseWriter:
		return allow(WriterLevel, level)
	}
	return nil
}

func allow(needed, level int) *record.Refusal {
	if needed <= level {
		return nil
	}
	return record.Refuse(record.Precondition,
		"this needs feature level %d, and the cluster is at %d: upgrade all nodes, then run `strandline cluster finalize`", needed, level)
}

// needs returns the level that permits everything in the change.
func (c *Change) needs() int {
	needed := neededLevel(*c)
	if c.Access != nil {
		needed = max(needed, neededLevel(*c.Access))
	}
	for _, n := range c.Node {
		needed = max(needed, neededLevel(n))
	}
	for _, l := range c.Put {
		needed = max(needed, neededLevel(l), neededLevel(l.Placement), neededLevel(l.Config))
		if l.Config.Rule != nil {
			needed = max(needed, neededLevel(*l.Config.Rule))
		}
	}
	for _, r := range c.Rules {
		needed = max(needed, neededLevel(r))
	}
	return needed
}

// neededLevel returns the highest since tag of the fields that are set.
func neededLevel(of any) int {
	needed := firstLevel
	for v, i := reflect.ValueOf(of), 0; i < v.NumField(); i++ {
		if since, err := strconv.Atoi(v.Type().Field(i).Tag.Get("since")); err == nil && !v.Field(i).IsZero() {
			needed = max(needed, since)
		}
	}
	return needed
}

// CheckpointFormat is the version of the encoding of a checkpoint. It is raised when a reader
// that skips unknown members could misunderstand the state.
const CheckpointFormat = 1

// ErrNewer is wrapped by errors about data that only a newer version understands. They are
// permanent: the node must not continue with an incomplete state.
var ErrNewer = errors.New("written by a newer version of Strandline; install that version on this node")

// DecodeChange decodes a record of the catalog.
func DecodeChange(data []byte) (c Change, err error) {
	var header struct {
		Format int `json:"checkpoint_format"`
	}
	if err := json.Unmarshal(data, &header); err != nil {
		return Change{}, err
	}
	if header.Format > CheckpointFormat {
		return Change{}, fmt.Errorf("checkpoint of format %d, this version supports %d: %w", header.Format, CheckpointFormat, ErrNewer)
	}
	err = json.Unmarshal(data, &c)
	return c, err
}

// MaxCheckpointBytes bounds the encoded state in a checkpoint, which is one record. The remaining
// MiB of a record is for changes that are never refused: placements and members.
const MaxCheckpointBytes = record.MaxRecordBytes - 1<<20

// Fit refuses a change requested by a user that would make the state larger than most, which is
// MaxCheckpointBytes outside of tests. bytes is the resulting size. Fit encodes the state once or
// twice.
func Fit(s *State, c Change, most int) (bytes int, err error) {
	after := s.Clone()
	if err := after.Fold(c); err != nil {
		return 0, fmt.Errorf("decide a change: %w", err)
	}
	bytes = after.size()
	if bytes > most && s.asksForRoom(c) && bytes > s.size() {
		return bytes, record.Refuse(record.TooLarge,
			"the catalog would have %d bytes, more than %d: delete logs, or settings, users or grants of which there are many", bytes, most)
	}
	return bytes, nil
}

func (s *State) size() int {
	whole := s.Checkpoint("")
	value, err := json.Marshal(whole)
	if err != nil {
		return math.MaxInt // it cannot be encoded
	}
	return len(value)
}

// asksForRoom reports whether the change adds data whose amount users decide.
func (s *State) asksForRoom(c Change) bool {
	return len(c.Announce)+len(c.Tokens)+len(c.Rules) > 0 || !c.Access.Empty() ||
		slices.ContainsFunc(c.Put, func(l Log) bool {
			old, there := s.Logs[l.Name]
			return !there || !reflect.DeepEqual(old.Config, l.Config)
		})
}

// Checkpoint returns the change that replaces all changes before it.
func (s *State) Checkpoint(id string) Change {
	whole := s.Clone()
	return Change{ID: id, CheckpointFormat: CheckpointFormat, Checkpoint: &whole}
}
