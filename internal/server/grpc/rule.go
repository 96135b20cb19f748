package grpcserver

import (
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster"
)

func encodeRule(r *cluster.Rule) *strandlinev1.PlacementRule {
	if r.Empty() {
		return nil
	}
	return &strandlinev1.PlacementRule{Spread: r.Spread, VotersIn: texts(r.In), VotersNotIn: texts(r.Out), LeaderHomes: texts(r.Homes), ReadReplicas: encodeReaders(r.Readers)}
}

func encodeReaders(readers []cluster.ReadReplicas) (out []*strandlinev1.ReadReplicas) {
	for _, r := range readers {
		out = append(out, &strandlinev1.ReadReplicas{Label: string(r.Label), Count: int32(r.Count)})
	}
	return out
}

// decodeRule returns nil for none. Whether it makes sense is for the node to say.
func decodeRule(w *strandlinev1.PlacementRule) *cluster.Rule {
	if w == nil {
		return nil
	}
	rule := &cluster.Rule{Spread: w.Spread, In: labels(w.VotersIn), Out: labels(w.VotersNotIn), Homes: labels(w.LeaderHomes)}
	for _, r := range w.ReadReplicas {
		rule.Readers = append(rule.Readers, cluster.ReadReplicas{Label: cluster.Label(r.GetLabel()), Count: int(r.GetCount())})
	}
	return rule
}

func texts(labels []cluster.Label) (texts []string) {
	for _, l := range labels {
		texts = append(texts, string(l))
	}
	return texts
}

func labels(texts []string) (labels []cluster.Label) {
	for _, text := range texts {
		labels = append(labels, cluster.Label(text))
	}
	return labels
}
