package group

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Description is a group as tools show it.
type Description struct {
	State                  State
	ProtocolType, Protocol string
	Members                []MemberDescription
}

// MemberDescription is one member of a Description.
type MemberDescription struct {
	ID, Instance, ClientID, Host string
	Principal                    string // whose client it is; empty: not known
	Metadata, Share              []byte
}

// Describe the group as it is now.
func (g *Group) Describe() Description {
	d := Description{State: g.state, ProtocolType: g.protocolType}
	if g.state == Stable || g.state == Syncing {
		d.Protocol = g.protocol
	}
	for _, m := range g.members {
		d.Members = append(d.Members, m.description(d.Protocol, g.state == Stable))
	}
	return d
}

// Assigned is what a member reads of one topic.
type Assigned struct {
	Topic      string
	Partitions []int32
}

// Assigned returns what a member of a group of consumers reads, up to so many partitions and topics, and whether that is
// all. Of other members, and of what no consumer understands, it returns what can be read of it. Leaders of groups
// write it: as structures a few bytes of it may take a hundred.
func (d *Description) Assigned(m *MemberDescription, most int) (all []Assigned, whole bool) {
	rest := m.Share
	if d.ProtocolType != "consumer" || len(rest) < 6 {
		return nil, len(rest) == 0
	}
	topics := binary.BigEndian.Uint32(rest[2:])
	for rest = rest[6:]; topics > 0; topics-- {
		if len(rest) < 2 {
			return all, false
		}
		n := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; len(rest) < n+4 || most == 0 {
			return all, false
		}
		one := Assigned{Topic: string(rest[:n])}
		count := int(binary.BigEndian.Uint32(rest[n:]))
		rest = rest[n+4:]
		shown := min(count, len(rest)/4, most)
		for i := range shown {
			one.Partitions = append(one.Partitions, int32(binary.BigEndian.Uint32(rest[4*i:])))
		}
		if all, most = append(all, one), most-max(1, shown); shown < count {
			return all, false
		}
		rest = rest[4*count:]
	}
	return all, true
}

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
