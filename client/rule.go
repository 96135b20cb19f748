package client

import (
	"context"
	"fmt"
	"math"
	"strings"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// PlacementRule describes where the voters of a log, its leader and its read replicas should be,
// by the labels of nodes: KEY=VALUE, such as dc=fra.
type PlacementRule struct {
	// Spread is the key of a label. With three or more values, no value has more than half of the
	// voters; with two, both have one. If empty, voters need not be spread.
	Spread string
	// VotersIn restricts voters to nodes with one of these labels; empty: any node.
	VotersIn []string
	// VotersNotIn excludes nodes with one of these labels.
	VotersNotIn []string
	// LeaderHomes are the labels of the nodes that should lead, the preferred one first. At least
	// one voter is on a node with the first.
	LeaderHomes []string
	// ReadReplicas are the read replicas of the log, on other nodes than its voters.
	ReadReplicas []ReadReplicas
}

// ReadReplicas is a number of read replicas on nodes with a label. They never vote, count for no
// majority, and serve readers, see WithNearest.
type ReadReplicas struct {
	Label string // KEY=VALUE
	Count int    // 1 to 16, and at most 16 for a log
}

// String returns LABEL:COUNT.
func (r ReadReplicas) String() string { return fmt.Sprintf("%s:%d", r.Label, r.Count) }

// Empty reports whether the rule requires nothing. A nil rule is empty.
func (r *PlacementRule) Empty() bool {
	return r == nil || r.Spread == "" && len(r.VotersIn)+len(r.VotersNotIn)+len(r.LeaderHomes)+len(r.ReadReplicas) == 0
}

// String returns the rule in readable form, and "" for an empty rule.
func (r *PlacementRule) String() string {
	if r.Empty() {
		return ""
	}
	var parts []string
	if r.Spread != "" {
		parts = append(parts, "spread "+r.Spread)
	}
	var readers []string
	for _, one := range r.ReadReplicas {
		readers = append(readers, one.String())
	}
	for _, list := range []struct {
		name   string
		labels []string
	}{{"voters in", r.VotersIn}, {"voters not in", r.VotersNotIn}, {"leader home", r.LeaderHomes}, {"read replicas", readers}} {
		if len(list.labels) > 0 {
			parts = append(parts, list.name+" "+strings.Join(list.labels, ","))
		}
	}
	return strings.Join(parts, "; ")
}

// DefaultRule is the rule for logs without a rule of their own whose names begin with a prefix.
type DefaultRule struct {
	Prefix string
	Rule   PlacementRule
}

// SetDefaultRule sets the rule for all logs without a rule of their own whose names begin with a
// prefix. An empty rule removes it. The error is ErrPrecondition if one of those logs, or a new
// one, could not meet it. Replicas move afterwards: ClusterStatus shows what is not met yet.
func (a *Admin) SetDefaultRule(ctx context.Context, prefix string, rule PlacementRule) error {
	_, err := callCluster(ctx, a, a.toCatalog(), strandlinev1.ClusterServiceClient.SetDefaultRule, &strandlinev1.SetDefaultRuleRequest{Prefix: prefix, Rule: rule.toWire()})
	return err
}

func (r *PlacementRule) toWire() *strandlinev1.PlacementRule {
	if r == nil {
		return nil
	}
	w := &strandlinev1.PlacementRule{Spread: r.Spread, VotersIn: r.VotersIn, VotersNotIn: r.VotersNotIn, LeaderHomes: r.LeaderHomes}
	for _, one := range r.ReadReplicas {
		w.ReadReplicas = append(w.ReadReplicas, &strandlinev1.ReadReplicas{Label: one.Label, Count: int32(min(one.Count, math.MaxInt32))})
	}
	return w
}

func fromRule(w *strandlinev1.PlacementRule) *PlacementRule {
	if w == nil {
		return nil
	}
	r := &PlacementRule{Spread: w.Spread, VotersIn: w.VotersIn, VotersNotIn: w.VotersNotIn, LeaderHomes: w.LeaderHomes}
	for _, one := range w.ReadReplicas {
		r.ReadReplicas = append(r.ReadReplicas, ReadReplicas{Label: one.GetLabel(), Count: int(one.GetCount())})
	}
	return r
}
