package terminal

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"strandline.dev/client"
)

// RuleFlags are the flags of which each is a part of a placement rule.
var RuleFlags = []string{"spread", "voters-in", "voters-not-in", "leader-home", "read-replicas"}

// AddRuleFlags gives a command RuleFlags.
func AddRuleFlags(flags *pflag.FlagSet, rule *client.PlacementRule) {
	flags.StringVar(&rule.Spread, "spread", "", "`key` of the label over whose values the replicas are spread, such as dc")
	flags.StringSliceVar(&rule.VotersIn, "voters-in", nil, "only nodes with one of these `labels` hold replicas, such as dc=fra,dc=ams")
	flags.StringSliceVar(&rule.VotersNotIn, "voters-not-in", nil, "nodes with one of these `labels` hold no replicas")
	flags.StringSliceVar(&rule.LeaderHomes, "leader-home", nil, "`labels` of the nodes that are to lead, the best first, such as dc=fra,dc=ams")
	flags.Var((*readReplicas)(&rule.ReadReplicas), "read-replicas", "`LABEL:COUNT` of replicas that serve readers there and never vote, such as dc=syd:1,dc=nyc:2")
}

// readReplicas is a flag that may be given several times.
type readReplicas []client.ReadReplicas

// Set takes LABEL:COUNT, or several with commas between them; the empty text is none.
func (r *readReplicas) Set(text string) error {
	if text == "" {
		return nil
	}
	for _, one := range strings.Split(text, ",") {
		label, count, counted := strings.Cut(one, ":")
		n, err := strconv.Atoi(count)
		if !counted || err != nil || n < 1 {
			return errors.New("must be LABEL:COUNT, such as dc=syd:1")
		}
		*r = append(*r, client.ReadReplicas{Label: label, Count: n})
	}
	return nil
}

func (r *readReplicas) String() string {
	var parts []string
	for _, one := range *r {
		parts = append(parts, one.String())
	}
	return strings.Join(parts, ",")
}

func (*readReplicas) Type() string { return "LABEL:COUNT" }

// RuleChanged reports whether one of RuleFlags was given.
func RuleChanged(flags *pflag.FlagSet) bool {
	for _, name := range RuleFlags {
		if flags.Changed(name) {
			return true
		}
	}
	return false
}

// WithFlags is a rule with the parts of another that were given as flags.
func WithFlags(rule *client.PlacementRule, flags *pflag.FlagSet, given client.PlacementRule) *client.PlacementRule {
	out := new(client.PlacementRule)
	if rule != nil {
		*out = *rule
	}
	for name, set := range map[string]func(){
		"spread":        func() { out.Spread = given.Spread },
		"voters-in":     func() { out.VotersIn = given.VotersIn },
		"voters-not-in": func() { out.VotersNotIn = given.VotersNotIn },
		"leader-home":   func() { out.LeaderHomes = given.LeaderHomes },
		"read-replicas": func() { out.ReadReplicas = given.ReadReplicas },
	} {
		if flags.Changed(name) {
			set()
		}
	}
	return out
}

// RuleJSON is a placement rule as --json shows it.
type RuleJSON struct {
	Spread      string   `json:"spread"`
	VotersIn    []string `json:"voters_in"`
	VotersNotIn []string `json:"voters_not_in"`
	LeaderHomes []string `json:"leader_homes"`

	ReadReplicas []readReplicasJSON `json:"read_replicas"`
}

type readReplicasJSON struct {
	Label string `json:"label"`
	Count int    `json:"count"`
}

// NewRuleJSON returns nil for no rule.
func NewRuleJSON(r *client.PlacementRule) *RuleJSON {
	if r.Empty() {
		return nil
	}
	out := &RuleJSON{r.Spread, append([]string{}, r.VotersIn...), append([]string{}, r.VotersNotIn...), append([]string{}, r.LeaderHomes...), []readReplicasJSON{}}
	for _, one := range r.ReadReplicas {
		out.ReadReplicas = append(out.ReadReplicas, readReplicasJSON(one))
	}
	return out
}
