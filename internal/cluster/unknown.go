package cluster

import "strandline.dev/internal/unknown"

// Objects in the catalog keep the JSON members that this version does not know: a node of a newer
// release may have written them, and this one writes the object again.

func (s State) MarshalJSON() ([]byte, error) {
	type known State
	return unknown.Marshal(known(s), s.Unknown)
}

func (s *State) UnmarshalJSON(data []byte) (err error) {
	type known State
	s.Unknown, err = unknown.Unmarshal(data, (*known)(s))
	return err
}

func (n Node) MarshalJSON() ([]byte, error) {
	type known Node
	return unknown.Marshal(known(n), n.Unknown)
}

func (n *Node) UnmarshalJSON(data []byte) (err error) {
	type known Node
	n.Unknown, err = unknown.Unmarshal(data, (*known)(n))
	return err
}

func (l Log) MarshalJSON() ([]byte, error) {
	type known Log
	return unknown.Marshal(known(l), l.Unknown)
}

func (l *Log) UnmarshalJSON(data []byte) (err error) {
	type known Log
	l.Unknown, err = unknown.Unmarshal(data, (*known)(l))
	return err
}

func (c Config) MarshalJSON() ([]byte, error) {
	type known Config
	return unknown.Marshal(known(c), c.Unknown)
}

func (c *Config) UnmarshalJSON(data []byte) (err error) {
	type known Config
	c.Unknown, err = unknown.Unmarshal(data, (*known)(c))
	return err
}

func (r Rule) MarshalJSON() ([]byte, error) {
	type known Rule
	return unknown.Marshal(known(r), r.Unknown)
}

func (r *Rule) UnmarshalJSON(data []byte) (err error) {
	type known Rule
	r.Unknown, err = unknown.Unmarshal(data, (*known)(r))
	return err
}

func (r ReadReplicas) MarshalJSON() ([]byte, error) {
	type known ReadReplicas
	return unknown.Marshal(known(r), r.Unknown)
}

func (r *ReadReplicas) UnmarshalJSON(data []byte) (err error) {
	type known ReadReplicas
	r.Unknown, err = unknown.Unmarshal(data, (*known)(r))
	return err
}

func (r Replica) MarshalJSON() ([]byte, error) {
	type known Replica
	return unknown.Marshal(known(r), r.Unknown)
}

func (r *Replica) UnmarshalJSON(data []byte) (err error) {
	type known Replica
	r.Unknown, err = unknown.Unmarshal(data, (*known)(r))
	return err
}

func (a Announced) MarshalJSON() ([]byte, error) {
	type known Announced
	return unknown.Marshal(known(a), a.Unknown)
}

func (a *Announced) UnmarshalJSON(data []byte) (err error) {
	type known Announced
	a.Unknown, err = unknown.Unmarshal(data, (*known)(a))
	return err
}

func (t Token) MarshalJSON() ([]byte, error) {
	type known Token
	return unknown.Marshal(known(t), t.Unknown)
}

func (t *Token) UnmarshalJSON(data []byte) (err error) {
	type known Token
	t.Unknown, err = unknown.Unmarshal(data, (*known)(t))
	return err
}

// UnmarshalJSON records the parts of the change that this version does not support, for Fold.
func (c *Change) UnmarshalJSON(data []byte) (err error) {
	type known Change
	c.unknown, err = unknown.Unmarshal(data, (*known)(c))
	if c.unknown == "" && c.Access != nil {
		c.unknown = c.Access.Unknown
	}
	return err
}
