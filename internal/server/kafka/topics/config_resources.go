package topics

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// ListConfigResources lists what has settings: the topics that the client may observe, and the
// brokers. In version 0 it lists subscriptions to metrics of clients, of which there are none.
func (s *Topics) ListConfigResources(q *backend.Call, m *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	r := kmsg.NewPtrListConfigResourcesResponse()
	if m.Version == 0 {
		return r
	}
	wanted := func(kind kmsg.ConfigResourceType) bool {
		return len(m.ResourceTypes) == 0 || slices.Contains(m.ResourceTypes, int8(kind))
	}
	for _, kind := range m.ResourceTypes {
		if !slices.Contains(configured, kmsg.ConfigResourceType(kind)) {
			r.ErrorCode = kerr.UnsupportedVersion.Code
			return r
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		out := kmsg.NewListConfigResourcesResponseConfigResource()
		out.Name, out.Type = name, int8(kind)
		r.ConfigResources = append(r.ConfigResources, out)
	}
	if wanted(kmsg.ConfigResourceTypeTopic) {
		all, err := shownTopics(q)
		r.ErrorCode = protocol.CodeOf(err)
		for i := range all {
			add(kmsg.ConfigResourceTypeTopic, all[i].Name)
		}
	}
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger} {
		if !wanted(kind) {
			continue
		}
		for _, b := range q.Brokers().All {
			add(kind, strconv.Itoa(int(b.ID)))
		}
	}
	return r
}

// configured are Kafka's kinds of resources. Of client metrics and groups there are none with
// settings.
var configured = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}
