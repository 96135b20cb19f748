package group

import (
	"bytes"
	"slices"
)

// member of a group.
type member struct {
	id, instance   string
	clientID, host string
	principal      string
	sessionMs      int64
	rebalanceMs    int64
	protocols      []Protocol
	assignment     []byte
	silentFrom     int64 // when the session ends unless there is a sign of life
	join           func(Joined)
	sync           func(Synced)
	synced         bool // has asked for its assignment in this generation
	bytes          int
}

// Protocol is a way of sharing work that a member supports, with the metadata that it
// sends to the others for it. The preferred one comes first.
type Protocol struct {
	Name     string
	Metadata []byte
}

func (m *member) alive(now int64) { m.silentFrom = now + m.sessionMs }

func (m *member) answerJoin(j Joined) {
	if m.join != nil {
		done := m.join
		m.join = nil
		done(j)
	}
}

func (m *member) answerSync(s Synced) {
	if m.sync != nil {
		done := m.sync
		m.sync = nil
		done(s)
	}
}

func (m *member) knows(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

func (m *member) same(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (m *member) describe(j *Join) {
	m.instance, m.clientID, m.host = j.Instance, j.ClientID, j.Host
	m.principal = j.Principal
	m.sessionMs, m.rebalanceMs = j.SessionMs, j.RebalanceMs
	if m.rebalanceMs <= 0 {
		m.rebalanceMs = m.sessionMs
	}
	m.rebalanceMs = min(m.rebalanceMs, MaxRebalanceMs)
	m.protocols = j.Protocols
	m.bytes = len(m.id) + j.bytes()
}

// bytes returns the approximate memory of a member besides its id.
func (j *Join) bytes() int {
	n := bytesOfMember + len(j.Instance) + len(j.ClientID) + len(j.Host)
	for _, p := range j.Protocols {
		n += bytesOfProtocol + len(p.Name) + len(p.Metadata)
	}
	return n
}

// description is the member as tools show it.
func (m *member) description(protocol string, stable bool) MemberDescription {
	d := MemberDescription{ID: m.id, Instance: m.instance, ClientID: m.clientID, Host: m.host, Principal: m.principal}
	if protocol != "" {
		d.Metadata = m.metadata(protocol)
	}
	if stable {
		d.Share = m.assignment
	}
	return d
}

// dismiss answers all waiting requests of the member with err.
func (m *member) dismiss(err error) {
	m.answerJoin(Joined{Err: err, MemberID: m.id})
	m.answerSync(Synced{Err: err})
}
