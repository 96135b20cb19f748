package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// Label is a property of a node, KEY=VALUE, such as dc=fra.
type Label string

// Key is what stands before the "=".
func (l Label) Key() string {
	key, _, _ := strings.Cut(string(l), "=")
	return key
}

// Value is what stands behind the "=".
func (l Label) Value() string {
	_, value, _ := strings.Cut(string(l), "=")
	return value
}

const (
	// MaxLabels bounds the labels of a node, and of each list of a rule.
	MaxLabels = 16
	// MaxRules bounds the default rules.
	MaxRules = 100
)

var (
	validLabel  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}=[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	validPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]{0,249}$`)
)

// CheckLabels refuses what cannot be the labels of a node.
func CheckLabels(labels []Label) *record.Refusal {
	if refusal := checkList(labels); refusal != nil {
		return refusal
	}
	for i, l := range labels {
		if slices.ContainsFunc(labels[:i], func(other Label) bool { return other.Key() == l.Key() }) {
			return record.Refuse(record.Invalid, "label %s is given twice: a node has one value of each", l.Key())
		}
	}
	return nil
}

func checkList(labels []Label) *record.Refusal {
	if len(labels) > MaxLabels {
		return record.Refuse(record.Invalid, "%d labels, the most is %d", len(labels), MaxLabels)
	}
	for _, l := range labels {
		if !validLabel.MatchString(string(l)) {
			return record.Refuse(record.Invalid, "%q is no label: KEY=VALUE, each 1 to 63 of a-z A-Z 0-9 . _ -", l)
		}
	}
	return nil
}

// label is the node's label of a key; empty: it has none.
func (n *Node) label(key string) Label {
	for _, l := range n.Labels {
		if l.Key() == key {
			return l
		}
	}
	return ""
}

func (n *Node) hasAny(of []Label) bool {
	return slices.ContainsFunc(of, func(l Label) bool { return slices.Contains(n.Labels, l) })
}

// Apart reports whether two nodes have different labels of a key, or one has none.
func Apart(a, b *Node, key string) bool { return a.label(key) == "" || a.label(key) != b.label(key) }

// rank is the place of the node in an order of choices; len(homes): it is none of them.
func (n *Node) rank(homes []Label) int {
	for i, l := range homes {
		if slices.Contains(n.Labels, l) {
			return i
		}
	}
	return len(homes)
}

// Rule is a placement rule: it says where the voters of a log are to be, where its leader, and where
// read replicas. It never changes in place.
type Rule struct {
	// Spread is the key of a label: of three values or more none has more than half of the
	// voters, of two both have one.
	Spread string `json:"spread,omitempty"`
	// In: voters are on nodes with one of these labels only; Out: on none with one of these.
	In  []Label `json:"in,omitempty"`
	Out []Label `json:"out,omitempty"`
	// Homes are where the leader is to be, the best first. One voter at least is in the first.
	Homes []Label `json:"homes,omitempty"`
	// Readers are the read replicas that the log has beside its voters, on other nodes.
	Readers []ReadReplicas  `json:"read_replicas,omitempty" since:"3"`
	Unknown unknown.Members `json:"-"`
}

// Empty reports whether the rule demands nothing.
func (r *Rule) Empty() bool {
	return r == nil || r.Spread == "" && len(r.In)+len(r.Out)+len(r.Homes)+len(r.Readers) == 0 && r.Unknown == ""
}

func (r *Rule) String() string {
	if r.Empty() {
		return ""
	}
	var parts []string
	if r.Spread != "" {
		parts = append(parts, "spread "+r.Spread)
	}
	parts = appendPart(parts, "voters in", r.In)
	parts = appendPart(parts, "voters not in", r.Out)
	parts = appendPart(parts, "leader home", r.Homes)
	parts = appendPart(parts, "read replicas", r.Readers)
	return strings.Join(parts, "; ")
}

func appendPart[T any](parts []string, name string, list []T) []string {
	if len(list) == 0 {
		return parts
	}
	return append(parts, name+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]"))
}

// check refuses a rule that makes no sense anywhere.
func (r *Rule) check() *record.Refusal {
	if r.Spread != "" && !validLabel.MatchString(r.Spread+"=x") {
		return record.Refuse(record.Invalid, "%q is no key of a label", r.Spread)
	}
	for _, list := range [][]Label{r.In, r.Out, r.Homes} {
		if refusal := checkList(list); refusal != nil {
			return refusal
		}
	}
	return checkReaders(r.Readers)
}

// allows reports whether a voter may be on a node, whatever the others are on.
func (r *Rule) allows(n Node) bool {
	return (len(r.In) == 0 || n.hasAny(r.In)) && !n.hasAny(r.Out) && (r.Spread == "" || n.label(r.Spread) != "")
}

// RuleOf is the rule of a log: its own or, without one, that of the longest prefix of its
// name that has one.
func (s *State) RuleOf(l *Log) *Rule {
	if !l.Config.Rule.Empty() {
		return l.Config.Rule
	}
	var found *Rule
	longest := -1
	for prefix, rule := range s.Rules {
		if len(prefix) > longest && strings.HasPrefix(l.Name, prefix) {
			found, longest = &rule, len(prefix)
		}
	}
	return found
}

// SetRule gives the logs whose names begin with a prefix, and that have no rule of their own,
// a rule; an empty one takes it away. It is refused where one of those logs, or a new one,
// could not keep it.
func SetRule(s *State, prefix string, rule Rule) (c Change, refusal *record.Refusal) {
	if !validPrefix.MatchString(prefix) {
		return c, record.Refuse(record.Invalid, "%q cannot begin the name of a log", prefix)
	}
	if refusal := rule.check(); refusal != nil {
		return c, refusal
	}
	_, known := s.Rules[prefix]
	switch {
	case rule.Empty() && !known:
		return c, nil
	case !rule.Empty() && !known && len(s.Rules) >= MaxRules:
		return c, record.Refuse(record.TooLarge, "there are %d default rules, which is the limit", len(s.Rules))
	}
	c.Rules = map[string]Rule{prefix: rule}
	then := s.Clone()
	setRules(then.Rules, c.Rules)
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		if !strings.HasPrefix(name, prefix) || reflect.DeepEqual(s.RuleOf(&l), then.RuleOf(&l)) {
			continue // one that it does not concern may have a rule that is not met any more
		}
		if refusal := refuseRule(&then, &l); refusal != nil {
			return Change{}, refusal
		}
	}
	return c, refuseRule(&then, &Log{Name: prefix})
}

func setRules(rules, changed map[string]Rule) {
	for prefix, rule := range changed {
		if rule.Empty() {
			delete(rules, prefix)
		} else {
			rules[prefix] = rule
		}
	}
}

// refuseRule refuses a log whose rule its members cannot keep, whether they are up or not.
func refuseRule(s *State, l *Log) *record.Refusal {
	p := newPlacer(s, l)
	if p.rule.Empty() {
		return nil
	}
	if refusal := p.rule.check(); refusal != nil {
		return refusal
	}
	var members []uint64
	allowed := 0
	for _, n := range s.Members() {
		if !n.Leaving {
			members = append(members, n.ID)
			if p.rule.allows(n) {
				allowed++
			}
		}
	}
	plan := p.choose(nil, members)
	missing := append(p.unmet(plan), p.unmetReaders(p.chooseReaders(nil, plan, members), plan)...)
	if want := min(p.want, len(members)); len(plan) < want {
		short := fmt.Sprintf("%d of %d replicas can be placed", len(plan), want)
		if allowed < want {
			short += fmt.Sprintf(": of %d nodes %d may hold one", len(members), allowed)
		}
		missing = append(missing, short)
	}
	return refuseUnmet(p.rule, l.Name, missing)
}

func refuseUnmet(rule *Rule, log string, missing []string) *record.Refusal {
	if len(missing) == 0 {
		return nil
	}
	return record.Refuse(record.Precondition, "log %q cannot be placed as asked (%v): %s", log, rule, strings.Join(missing, "; "))
}

// Unmet is what a log's rule demands and its replicas and read replicas do not keep.
func Unmet(s *State, l *Log) []string {
	p := newPlacer(s, l)
	if p.rule.Empty() {
		return nil
	}
	voters := nodesOf(l.Replicas)
	return append(p.unmet(voters), p.unmetReaders(nodesOf(l.Readers), voters)...)
}

func nodesOf(replicas []Replica) []uint64 {
	nodes := make([]uint64, len(replicas))
	for i, r := range replicas {
		nodes[i] = r.Node
	}
	return nodes
}

// placer chooses nodes for the voters of one log.
type placer struct {
	state *State
	rule  *Rule
	want  int
	// values are those of Rule.Spread that nodes have on which voters may be.
	values []Label
}

func newPlacer(s *State, l *Log) placer {
	p := placer{state: s, rule: s.RuleOf(l), want: WantedReplicas(s, l)}
	if p.rule.Empty() || p.rule.Spread == "" {
		return p
	}
	for _, n := range s.Members() {
		if value := n.label(p.rule.Spread); !n.Leaving && p.rule.allows(n) && !slices.Contains(p.values, value) {
			p.values = append(p.values, value)
		}
	}
	return p
}

// most is how many voters may be on nodes of one value.
func (p *placer) most() int {
	switch len(p.values) {
	case 0, 1:
		return p.want
	case 2:
		return max(1, p.want-1)
	}
	return max(1, p.want/2)
}

// homeRank is Node.rank of a node, 0 without a rule.
func (p *placer) homeRank(node uint64) int {
	if p.rule.Empty() {
		return 0
	}
	n := p.state.Nodes[node]
	return n.rank(p.rule.Homes)
}

// perVoter is what a voter that does not keep the rule costs: more than all read replicas that
// have no place, each of which costs 1.
const perVoter = MaxReadReplicas + 1

// cost is how far nodes are from the rule; 0: they keep it, as far as any could, and leave room
// for the read replicas.
func (p *placer) cost(nodes []uint64) int {
	return p.costOfVoters(nodes)*perVoter + len(p.shortage(nodes))
}

func (p *placer) costOfVoters(nodes []uint64) (cost int) {
	if p.rule.Empty() {
		return 0
	}
	count, home := map[Label]int{}, len(p.rule.Homes) == 0
	for _, id := range nodes {
		n := p.state.Nodes[id]
		home = home || n.rank(p.rule.Homes) == 0
		if !p.rule.allows(n) {
			cost++
		} else if p.rule.Spread != "" {
			count[n.label(p.rule.Spread)]++
		}
	}
	for _, c := range count {
		cost += max(0, c-p.most())
	}
	if !home {
		cost++
	}
	return cost
}

// best returns the candidate that, with the given nodes, keeps the rule best, then spreads
// them most evenly, then covers the best home that has none; of equal ones the first. It
// must not cost more than limit. 0: there is none. Where a voter has to come, limit is
// voterLimit: it may take the place of a read replica.
func (p *placer) best(nodes, candidates []uint64, limit int) (best uint64) {
	if p.rule.Empty() {
		if len(candidates) > 0 {
			best = candidates[0]
		}
		return best
	}
	type key struct{ cost, same, home int }
	var lowest key
	for _, id := range candidates {
		n := p.state.Nodes[id]
		if slices.Contains(nodes, id) || !p.rule.allows(n) {
			continue
		}
		k := key{cost: p.cost(append(slices.Clip(nodes), id)), home: n.rank(p.rule.Homes)}
		for _, other := range nodes {
			o := p.state.Nodes[other]
			if p.rule.Spread != "" && o.label(p.rule.Spread) == n.label(p.rule.Spread) {
				k.same++
			}
			if o.rank(p.rule.Homes) == k.home {
				k.home = len(p.rule.Homes)
			}
		}
		if k.cost > limit {
			continue
		}
		if best == 0 || cmp.Or(cmp.Compare(k.cost, lowest.cost), cmp.Compare(k.same, lowest.same), cmp.Compare(k.home, lowest.home)) < 0 {
			best, lowest = id, k
		}
	}
	return best
}

// voterLimit is the most that nodes may cost where their voters keep the rule as well as now.
func (p *placer) voterLimit(now []uint64) int { return p.costOfVoters(now)*perVoter + MaxReadReplicas }

// choose adds candidates to nodes, the first of equal ones, until there are as many as the
// log wants or no other keeps the rule.
func (p *placer) choose(nodes, candidates []uint64) []uint64 {
	for len(nodes) < p.want {
		next := p.best(nodes, candidates, p.voterLimit(nodes))
		if next == 0 {
			break
		}
		nodes = append(nodes, next)
	}
	return nodes
}

// unmet is what the rule demands and nodes do not keep.
func (p *placer) unmet(nodes []uint64) (missing []string) {
	count, home := map[Label]int{}, len(p.rule.Homes) == 0
	for _, id := range nodes {
		n := p.state.Nodes[id]
		home = home || n.rank(p.rule.Homes) == 0
		switch {
		case p.rule.Spread != "" && n.label(p.rule.Spread) == "":
			missing = append(missing, fmt.Sprintf("node %q has no label %s", n.Name, p.rule.Spread))
		case !p.rule.allows(n):
			missing = append(missing, fmt.Sprintf("node %q is none that voters may be on", n.Name))
		default:
			count[n.label(p.rule.Spread)]++
		}
	}
	if p.rule.Spread != "" {
		for _, value := range p.values {
			if count[value] > p.most() {
				missing = append(missing, fmt.Sprintf("%s has %d of %d voters, and may have %d", value, count[value], max(p.want, len(nodes)), p.most()))
			}
		}
		switch {
		case len(p.values) == 0:
			missing = append(missing, fmt.Sprintf("no node that voters may be on has a label %s", p.rule.Spread))
		case len(p.values) == 1:
			missing = append(missing, fmt.Sprintf("all nodes that voters may be on have %s, and two values of %s are needed", p.values[0], p.rule.Spread))
		case p.want < 2:
			missing = append(missing, fmt.Sprintf("one replica cannot be spread over %s", p.rule.Spread))
		}
	}
	if !home {
		missing = append(missing, fmt.Sprintf("no voter is on a node with %s, the home of its leader", p.rule.Homes[0]))
	}
	return missing
}
