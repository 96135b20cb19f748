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

// Key returns the part before the "=".
func (l Label) Key() string {
	key, _, _ := strings.Cut(string(l), "=")
	return key
}

// Value returns the part after the "=".
func (l Label) Value() string {
	_, value, _ := strings.Cut(string(l), "=")
	return value
}

const (
	// MaxLabels is the maximum number of labels of a node, and of each list of a rule.
	MaxLabels = 16
	// MaxRules is the maximum number of default rules.
	MaxRules = 100
)

var (
	validLabel  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}=[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	validPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]{0,249}$`)
)

// CheckLabels refuses labels that a node cannot have.
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
		return record.Refuse(record.Invalid, "%d labels, the limit is %d", len(labels), MaxLabels)
	}
	for _, l := range labels {
		if !validLabel.MatchString(string(l)) {
			return record.Refuse(record.Invalid, "a label must be KEY=VALUE, each of 1 to 63 characters out of a-z A-Z 0-9 . _ -, not %q", l)
		}
	}
	return nil
}

// label returns the node's label with the given key, or "" if it has none.
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

// Apart reports whether two nodes have different labels with the given key, or the first has
// none.
func Apart(a, b *Node, key string) bool { return a.label(key) == "" || a.label(key) != b.label(key) }

// rank returns the position of the first of homes that the node has, or len(homes) if it has
// none.
func (n *Node) rank(homes []Label) int {
	for i, l := range homes {
		if slices.Contains(n.Labels, l) {
			return i
		}
	}
	return len(homes)
}

// Rule is a placement rule: where the voters of a log, its leader and its read replicas should
// be. It is never changed in place.
type Rule struct {
	// Spread is the key of a label. With three or more values, no value has more than half of the
	// voters; with two, both have one.
	Spread string `json:"spread,omitempty"`
	// In restricts voters to nodes with one of these labels; Out excludes nodes with one of these.
	In  []Label `json:"in,omitempty"`
	Out []Label `json:"out,omitempty"`
	// Homes are the labels of the nodes that should lead, the preferred one first. At least one
	// voter is on a node with the first.
	Homes []Label `json:"homes,omitempty"`
	// Readers are the read replicas that the log has besides its voters, on other nodes.
	Readers []ReadReplicas  `json:"read_replicas,omitempty" since:"3"`
	Unknown unknown.Members `json:"-"`
}

// Empty reports whether the rule requires nothing.
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

// check refuses a rule that is not valid in any cluster.
func (r *Rule) check() *record.Refusal {
	if r.Spread != "" && !validLabel.MatchString(r.Spread+"=x") {
		return record.Refuse(record.Invalid, "%q is not a label key", r.Spread)
	}
	for _, list := range [][]Label{r.In, r.Out, r.Homes} {
		if refusal := checkList(list); refusal != nil {
			return refusal
		}
	}
	return checkReadReplicas(r.Readers)
}

// allows reports whether a voter may be on a node, regardless of the others.
func (r *Rule) allows(n Node) bool {
	return (len(r.In) == 0 || n.hasAny(r.In)) && !n.hasAny(r.Out) && (r.Spread == "" || n.label(r.Spread) != "")
}

// RuleOf returns the rule of a log: its own, or else that of the longest prefix of its name that
// has one, or nil.
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

// SetRule sets the default rule for logs whose names begin with a prefix and that have no rule of
// their own. An empty rule removes it. It is refused if one of those logs, or a new one, could
// not meet it.
func SetRule(s *State, prefix string, rule Rule) (c Change, refusal *record.Refusal) {
	if !validPrefix.MatchString(prefix) {
		return c, record.Refuse(record.Invalid, "%q cannot be the beginning of a log name", prefix)
	}
	if refusal := rule.check(); refusal != nil {
		return c, refusal
	}
	_, known := s.Rules[prefix]
	switch {
	case rule.Empty() && !known:
		return c, nil
	case !rule.Empty() && !known && len(s.Rules) >= MaxRules:
		return c, record.Refuse(record.TooLarge, "the cluster has %d default rules, the limit", len(s.Rules))
	}
	c.Rules = map[string]Rule{prefix: rule}
	then := s.Clone()
	setRules(then.Rules, c.Rules)
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		if !strings.HasPrefix(name, prefix) || reflect.DeepEqual(s.RuleOf(&l), then.RuleOf(&l)) {
			continue // a log whose rule does not change may have one that is no longer met
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

// refuseRule refuses a log whose rule the members cannot meet, up or down.
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
	missing := append(p.unmet(plan), p.unmetReadReplicas(p.chooseReadReplicas(nil, plan, members), plan)...)
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

// Unmet describes how the replicas and read replicas of a log fall short of its rule.
func Unmet(s *State, l *Log) []string {
	p := newPlacer(s, l)
	if p.rule.Empty() {
		return nil
	}
	voters := nodesOf(l.Replicas)
	return append(p.unmet(voters), p.unmetReadReplicas(nodesOf(l.Readers), voters)...)
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
	// values are the values of Rule.Spread on the nodes that may hold voters.
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

// most returns how many voters may be on nodes with the same value.
func (p *placer) most() int {
	switch len(p.values) {
	case 0, 1:
		return p.want
	case 2:
		return max(1, p.want-1)
	}
	return max(1, p.want/2)
}

// homeRank returns Node.rank of a node, or 0 without a rule.
func (p *placer) homeRank(node uint64) int {
	if p.rule.Empty() {
		return 0
	}
	n := p.state.Nodes[node]
	return n.rank(p.rule.Homes)
}

// perVoter is the cost of a voter that violates the rule: more than that of all read replicas
// without a place, each of which costs 1.
const perVoter = MaxReadReplicas + 1

// cost returns how far nodes are from the rule. It is 0 if they meet it as far as any nodes can,
// and leave room for the read replicas.
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

// best returns the candidate that, together with nodes, meets the rule best, then spreads them
// most evenly, then covers the most preferred home without a node. Among equal ones it returns
// the first. The cost must not exceed limit. It returns 0 if there is none. If a voter has to be
// added, limit is voterLimit: it may take the place of a read replica.
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

// voterLimit returns the maximum cost of nodes whose voters meet the rule as well as now.
func (p *placer) voterLimit(now []uint64) int { return p.costOfVoters(now)*perVoter + MaxReadReplicas }

// choose adds candidates to nodes until there are as many as the log should have or no other
// meets the rule.
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

// unmet describes how nodes fall short of the rule.
func (p *placer) unmet(nodes []uint64) (missing []string) {
	count, home := map[Label]int{}, len(p.rule.Homes) == 0
	for _, id := range nodes {
		n := p.state.Nodes[id]
		home = home || n.rank(p.rule.Homes) == 0
		switch {
		case p.rule.Spread != "" && n.label(p.rule.Spread) == "":
			missing = append(missing, fmt.Sprintf("node %q has no label %s", n.Name, p.rule.Spread))
		case !p.rule.allows(n):
			missing = append(missing, fmt.Sprintf("node %q may not hold voters", n.Name))
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
			missing = append(missing, fmt.Sprintf("no node that may hold voters has a label %s", p.rule.Spread))
		case len(p.values) == 1:
			missing = append(missing, fmt.Sprintf("all nodes that may hold voters have %s, but two values of %s are needed", p.values[0], p.rule.Spread))
		case p.want < 2:
			missing = append(missing, fmt.Sprintf("one replica cannot be spread over %s", p.rule.Spread))
		}
	}
	if !home {
		missing = append(missing, fmt.Sprintf("no voter is on a node with %s, the home of its leader", p.rule.Homes[0]))
	}
	return missing
}
