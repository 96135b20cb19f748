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

// Describe returns the current state of the group.
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

// Assigned holds the partitions of one topic that a member reads.
type Assigned struct {
	Topic      string
	Partitions []int32
}

// Assigned returns the partitions that a member of a consumer group reads, up to limits on
// partitions and topics, and reports whether that is all. For other kinds of members, and for
// malformed assignments, it returns the part that can be decoded. The limits exist because the
// group's leader writes the assignment, and a few bytes of it may become a hundred bytes of
// structures.
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

// Subscribed returns the topics that members read, and reports whether they are known for all
// members: members other than consumers have other metadata.
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
