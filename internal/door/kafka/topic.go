package kafkadoor

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
)

// topic is one or several logs as Kafka's clients see them.
type topic struct {
	name string
	// partitions are the topic's logs from 0 on.
	partitions []node.Info
}

// topicName is what a topic may be called; node.CreateLog has the last word.
var topicName = regexp.MustCompile(`^[A-Za-z0-9.-][A-Za-z0-9._-]{0,199}$`)

// visible reports whether a name can be that of a topic: the system's logs are
// none, nor are single partitions.
func visible(name string) bool {
	return name != "" && name[0] != '_' && !strings.Contains(name, "/")
}

// topics are all topics by name.
func (s *Server) topics(ctx context.Context) ([]topic, error) {
	logs, err := s.node.ListLogs(ctx, anonymous, false)
	if err != nil {
		return nil, err
	}
	byName := map[string][]node.Info{}
	for _, l := range logs {
		name, _ := l.TopicOf()
		byName[name] = append(byName[name], l)
	}
	var all []topic
	for name, partitions := range byName {
		if t := (topic{name, contiguous(partitions)}); len(t.partitions) > 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b topic) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// contiguous brings partitions into order and leaves out what follows a gap: a
// creation or a deletion that was not finished.
func contiguous(partitions []node.Info) []node.Info {
	slices.SortFunc(partitions, func(a, b node.Info) int {
		_, p := a.TopicOf()
		_, q := b.TopicOf()
		return int(p) - int(q)
	})
	for i := range partitions {
		if _, p := partitions[i].TopicOf(); int(p) != i {
			return partitions[:i]
		}
	}
	return partitions
}

// topic finds a topic by name. The error is a *record.Refusal.
func (s *Server) topic(name string) (topic, error) {
	t := topic{name: name}
	if !visible(name) {
		return t, record.Refuse(record.LogNotFound, "there is no topic %q", name)
	}
	for {
		l, err := s.node.KnownInfo(anonymous, node.PartitionLog(name, int32(len(t.partitions))))
		switch {
		case errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) && len(t.partitions) > 0:
			return t, nil
		case err != nil:
			return t, err
		}
		t.partitions = append(t.partitions, l)
	}
}
