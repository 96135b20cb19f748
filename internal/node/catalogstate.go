package node

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"strandline.dev/internal/record"
)

// catalogState is what the catalog's changes add up to.
type catalogState struct {
	Logs        map[string]catalogLog `json:"logs"` // by name
	NextLog     uint64                `json:"next_log"`
	NextReplica uint64                `json:"next_replica"`
	NextSession record.SessionID      `json:"next_session"`
}

// catalogLog is one log as the catalog knows it.
type catalogLog struct {
	ID      uint64        `json:"id"`
	Name    string        `json:"name"`
	Config  catalogConfig `json:"config"`
	Created int64         `json:"created_ms"`
	// Replica is the id of the log's replica: one for each incarnation of its
	// data, never used again.
	Replica uint64 `json:"replica"`
	// Lost and Ceiling belong to memory logs, see hosted.
	Lost    record.Offset `json:"lost,omitempty"`
	Ceiling int64         `json:"ceiling,omitempty"`
}

// catalogConfig is Config as it is stored.
type catalogConfig struct {
	Durability     string `json:"durability"`
	RetentionMs    int64  `json:"retention_ms,omitempty"`
	RetentionBytes int64  `json:"retention_bytes,omitempty"`
	Replicas       int    `json:"replicas,omitempty"`
	Topic          string `json:"topic,omitempty"`
	Partition      int32  `json:"partition,omitempty"`
}

// catalogChange is one record of the catalog; exactly one field is set.
type catalogChange struct {
	Put        *catalogLog      `json:"put,omitempty"`        // a log is new or different
	Delete     string           `json:"delete,omitempty"`     // name of a log
	Sessions   record.SessionID `json:"sessions,omitempty"`   // all ids below are taken
	Checkpoint *catalogState    `json:"checkpoint,omitempty"` // everything so far
}

var errUnknownChange = errors.New("unknown kind of change; a newer version wrote it")

func newCatalogState() catalogState {
	return catalogState{Logs: map[string]catalogLog{}, NextLog: 1, NextReplica: 2, NextSession: 1}
}

func (s *catalogState) fold(c catalogChange) error {
	switch {
	case c.Put != nil:
		s.Logs[c.Put.Name] = *c.Put
		s.NextLog = max(s.NextLog, c.Put.ID+1)
		s.NextReplica = max(s.NextReplica, c.Put.Replica+1)
	case c.Delete != "":
		if _, ok := s.Logs[c.Delete]; !ok {
			return fmt.Errorf("deletes log %q, which there is not", c.Delete)
		}
		delete(s.Logs, c.Delete)
	case c.Sessions != 0:
		s.NextSession = max(s.NextSession, c.Sessions)
	case c.Checkpoint != nil:
		*s = c.Checkpoint.clone()
	default:
		return errUnknownChange
	}
	return nil
}

func (s *catalogState) clone() catalogState {
	out := *s
	out.Logs = maps.Clone(s.Logs)
	if out.Logs == nil {
		out.Logs = map[string]catalogLog{}
	}
	return out
}

// list returns the logs by name.
func (s *catalogState) list() []catalogLog {
	logs := slices.Collect(maps.Values(s.Logs))
	slices.SortFunc(logs, func(a, b catalogLog) int { return cmp.Compare(a.Name, b.Name) })
	return logs
}

func encodeConfig(c Config) catalogConfig {
	return catalogConfig{
		Durability: c.Durability.String(), RetentionMs: c.Retention.Milliseconds(),
		RetentionBytes: c.RetentionBytes, Replicas: c.Replicas, Topic: c.Topic, Partition: c.Partition,
	}
}

func (c catalogConfig) decode() Config {
	out := Config{
		Retention:      time.Duration(c.RetentionMs) * time.Millisecond,
		RetentionBytes: c.RetentionBytes, Replicas: c.Replicas, Topic: c.Topic, Partition: c.Partition,
	}
	if c.Durability == Memory.String() {
		out.Durability = Memory
	}
	return out
}
