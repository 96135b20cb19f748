package client

import (
	"context"
	"fmt"
	"math"
	"strings"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// PlacementRule says where the voters of a log are to be, where its leader and where read replicas,
// by the labels of nodes: KEY=VALUE, such as dc=fra.
type PlacementRule struct {
	// Spread is the key of a label: of three values or more none has more than half of the
	// voters, of two both have one. Empty: voters need not be spread.
	Spread string
	// VotersIn: voters are on nodes with one of these labels only; empty: on any.
	VotersIn []string
	// VotersNotIn: voters are on no node with one of these labels.
	VotersNotIn []string
	// LeaderHomes are where the leader is to be, the best first. One voter at least is in the
	// first.
	LeaderHomes []string
	// ReadReplicas are those that the log has beside its voters, on other nodes.
	ReadReplicas []ReadReplicas
}

// ReadReplicas are read replicas on nodes with a label. They follow the log for ever, count for
// no majority, and serve readers, see WithNearest.
type ReadReplicas struct {
	Label string // KEY=VALUE
	Count int    // 1 to 16; 16 at the most of one log
}

// String returns LABEL:COUNT.
func (r ReadReplicas) String() string { return fmt.Sprintf("%s:%d", r.Label, r.Count) }

// Empty reports whether the rule demands nothing. A nil rule is empty.
func (r *PlacementRule) Empty() bool {
	return r == nil || r.Spread == "" && len(r.VotersIn)+len(r.VotersNotIn)+len(r.LeaderHomes)+len(r.ReadReplicas) == 0
}

// String returns the rule as people read it, empty for an empty one.
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

// DefaultRule is the rule of logs without one of their own whose names begin with a prefix.
type DefaultRule struct {
	Prefix string
	Rule   PlacementRule
}

// SetDefaultRule gives all logs without a rule of their own, and whose names begin with a
// prefix, a rule; an empty one takes it away. It is refused with ErrPrecondition if one of
// those logs, or a new one, could not keep it. Replicas move afterwards: ClusterStatus shows
// what is not kept yet.
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
