package grpcserver

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

func encodeInfo(i verbs.Info) *strandlinev1.LogInfo {
	out := &strandlinev1.LogInfo{
		Name:         i.Name,
		Id:           i.ID,
		Config:       encodeConfig(i.Config),
		Created:      timestamppb.New(time.UnixMilli(i.Created)),
		StartOffset:  int64(i.Start),
		EndOffset:    int64(i.End),
		BytesUsed:    i.BytesUsed,
		BytesFree:    i.BytesFree,
		WriterTerm:   uint64(i.WriterTerm),
		OpenSessions: int32(i.OpenSessions),
		LeaderTerm:   i.LeaderTerm,
		Leader:       i.Leader,
		Sealed:       i.Sealed,
		Problem:      i.Problem,
		Unknown:      i.Unknown,
	}
	for _, r := range i.Replicas {
		out.Replicas = append(out.Replicas, &strandlinev1.ReplicaAddress{Node: r.Node, Address: r.Address, Leader: r.Leader, ReadReplica: r.Reader, Labels: texts(r.Labels), Lag: r.Lag})
	}
	return out
}

func encodeHolds(holds []verbs.Hold) []*strandlinev1.Hold {
	out := make([]*strandlinev1.Hold, len(holds))
	for k := range holds {
		out[k] = rpc.EncodeHold(&holds[k].Hold)
		out[k].KeptBytes, out[k].Principal = holds[k].Kept, holds[k].Principal
	}
	return out
}

func encodeConfig(c settings.Config) *strandlinev1.LogConfig {
	out := &strandlinev1.LogConfig{
		Durability:     strandlinev1.Durability_DURABILITY_DISK,
		RetentionBytes: c.RetentionBytes,
		Replicas:       int32(c.Replicas),
		Fenced:         c.Fenced,
		Revision:       c.Revision,
		Rule:           encodeRule(c.Rule),
	}
	if c.Durability == settings.Memory {
		out.Durability = strandlinev1.Durability_DURABILITY_MEMORY
	}
	if c.Retention != 0 {
		out.Retention = durationpb.New(c.Retention)
	}
	return out
}

// decodeConfig refuses a configuration that the node cannot represent. The node validates the rest.
func decodeConfig(c *strandlinev1.LogConfig) (settings.Config, *record.Refusal) {
	out := settings.Config{
		Retention:      c.GetRetention().AsDuration(),
		RetentionBytes: c.GetRetentionBytes(),
		Replicas:       int(c.GetReplicas()),
		Fenced:         c.GetFenced(),
		Revision:       c.GetRevision(),
		Rule:           decodeRule(c.GetRule()),
	}
	if r := c.GetRetention(); r != nil && r.CheckValid() != nil {
		return out, record.Refuse(record.Invalid, "retention: %v", r.CheckValid())
	}
	switch c.GetDurability() {
	case strandlinev1.Durability_DURABILITY_UNSPECIFIED, strandlinev1.Durability_DURABILITY_DISK:
	case strandlinev1.Durability_DURABILITY_MEMORY:
		out.Durability = settings.Memory
	default:
		return out, record.Refuse(record.Unsupported, "unknown durability %v", c.GetDurability())
	}
	return out, nil
}

func encodeRule(r *cluster.Rule) *strandlinev1.PlacementRule {
	if r.Empty() {
		return nil
	}
	return &strandlinev1.PlacementRule{Spread: r.Spread, VotersIn: texts(r.In), VotersNotIn: texts(r.Out), LeaderHomes: texts(r.Homes), ReadReplicas: encodeReadReplicas(r.Readers)}
}

func encodeReadReplicas(wanted []cluster.ReadReplicas) (out []*strandlinev1.ReadReplicas) {
	for _, r := range wanted {
		out = append(out, &strandlinev1.ReadReplicas{Label: string(r.Label), Count: int32(r.Count)})
	}
	return out
}

// decodeRule returns nil for nil. The node validates the rule.
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
