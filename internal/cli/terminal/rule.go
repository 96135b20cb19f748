package terminal

import (
	"github.com/spf13/pflag"

	"strandline.dev/client"
)

// RuleFlags are the flags of which each is a part of a placement rule.
var RuleFlags = []string{"spread", "voters-in", "voters-not-in", "leader-home"}

// AddRuleFlags gives a command RuleFlags.
func AddRuleFlags(flags *pflag.FlagSet, rule *client.PlacementRule) {
	flags.StringVar(&rule.Spread, "spread", "", "`key` of the label over whose values the replicas are spread, such as dc")
	flags.StringSliceVar(&rule.VotersIn, "voters-in", nil, "`labels` of which each node that holds a replica has one, such as dc=fra,dc=ams")
	flags.StringSliceVar(&rule.VotersNotIn, "voters-not-in", nil, "`labels` of which no node that holds a replica has one")
	flags.StringSliceVar(&rule.LeaderHomes, "leader-home", nil, "`labels` of the nodes that are to lead, the best first, such as dc=fra,dc=ams")
}

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
}

// NewRuleJSON returns nil for no rule.
func NewRuleJSON(r *client.PlacementRule) *RuleJSON {
	if r.Empty() {
		return nil
	}
	return &RuleJSON{r.Spread, append([]string{}, r.VotersIn...), append([]string{}, r.VotersNotIn...), append([]string{}, r.LeaderHomes...)}
}
