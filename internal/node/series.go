package node

import (
	"path"

	"github.com/prometheus/client_golang/prometheus"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// series gives the metrics of a node.
type series struct {
	metrics      *metrics.Metrics
	memory       *budget.Memory
	logs         *hosted.Logs
	space        *peers.Space
	clusterAdmin *membership.ClusterAdmin
	statuses     *verbs.Statuses
	describer    *verbs.Describer
	holds        *verbs.Holds
}

func newSeries(
	metrics *metrics.Metrics, memory *budget.Memory, logs *hosted.Logs, space *peers.Space, clusterAdmin *membership.ClusterAdmin,
	statuses *verbs.Statuses, describer *verbs.Describer, holds *verbs.Holds,
) *series {
	return &series{
		metrics: metrics, memory: memory, logs: logs, space: space, clusterAdmin: clusterAdmin, statuses: statuses, describer: describer, holds: holds,
	}
}

// Metrics of the node, for a Prometheus registry.
func (se *series) Metrics() prometheus.Collector { return collector{se} }

// LogMetrics are the series of single logs on this node: those whose names match
// one of the patterns, as path.Match has them.
func (se *series) LogMetrics(patterns []string) (prometheus.Collector, error) {
	var hosts []*hosted.Log
	for name, h := range se.logs.All() {
		for _, p := range patterns {
			match, err := path.Match(p, name)
			if err != nil {
				return nil, record.Refuse(record.Invalid, "%q is no pattern of names: %v", p, err)
			}
			if match {
				hosts = append(hosts, h)
				break
			}
		}
	}
	switch {
	case len(hosts) == 0:
		return nil, record.Refuse(record.LogNotFound, "no log on this node is named %q", patterns)
	case len(hosts) > maxLogSeries:
		return nil, record.Refuse(record.TooLarge, "%d logs match, %d at most are shown at once", len(hosts), maxLogSeries)
	}
	return logCollector{se, hosts}, nil
}
