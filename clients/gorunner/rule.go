package gorunner

import "strandline.dev/client"

// rule is a placement rule as commands and answers write it.
type rule struct {
	Spread       string         `json:"spread"`
	VotersIn     []string       `json:"voters_in"`
	VotersNotIn  []string       `json:"voters_not_in"`
	LeaderHomes  []string       `json:"leader_homes"`
	ReadReplicas []readReplicas `json:"read_replicas"`
}

type readReplicas struct {
	Label string `json:"label"`
	Count int    `json:"count"`
}

func (r *rule) in() *client.PlacementRule {
	if r == nil {
		return nil
	}
	in := client.PlacementRule{Spread: r.Spread, VotersIn: r.VotersIn, VotersNotIn: r.VotersNotIn, LeaderHomes: r.LeaderHomes}
	for _, one := range r.ReadReplicas {
		in.ReadReplicas = append(in.ReadReplicas, client.ReadReplicas(one))
	}
	return &in
}

func shownRule(r *client.PlacementRule) *rule {
	if r == nil {
		return nil
	}
	shown := rule{Spread: r.Spread, VotersIn: r.VotersIn, VotersNotIn: r.VotersNotIn, LeaderHomes: r.LeaderHomes}
	for _, one := range r.ReadReplicas {
		shown.ReadReplicas = append(shown.ReadReplicas, readReplicas(one))
	}
	return &shown
}
