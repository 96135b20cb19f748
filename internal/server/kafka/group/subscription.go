package group

import "github.com/twmb/franz-go/pkg/kmsg"

// Subscribed returns the topics that members read, and whether that is known of all:
// members of another kind than consumers exchange other metadata.
func (d *Description) Subscribed() (topics []string, known bool) {
	for _, m := range d.Members {
		var wanted kmsg.ConsumerMemberMetadata
		if d.ProtocolType != "consumer" || wanted.ReadFrom(m.Metadata) != nil {
			return nil, false
		}
		topics = append(topics, wanted.Topics...)
	}
	return topics, true
}
