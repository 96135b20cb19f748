package access

import "strandline.dev/internal/unknown"

// As in package cluster, objects in the catalog keep the JSON members that this version does not
// know. Unknown members of a Change are refused there.

func (l List) MarshalJSON() ([]byte, error) {
	type known List
	return unknown.Marshal(known(l), l.Unknown)
}

func (l *List) UnmarshalJSON(data []byte) (err error) {
	type known List
	l.Unknown, err = unknown.Unmarshal(data, (*known)(l))
	return err
}

func (u User) MarshalJSON() ([]byte, error) {
	type known User
	return unknown.Marshal(known(u), u.Unknown)
}

func (u *User) UnmarshalJSON(data []byte) (err error) {
	type known User
	u.Unknown, err = unknown.Unmarshal(data, (*known)(u))
	return err
}

func (v Verifier) MarshalJSON() ([]byte, error) {
	type known Verifier
	return unknown.Marshal(known(v), v.Unknown)
}

func (v *Verifier) UnmarshalJSON(data []byte) (err error) {
	type known Verifier
	v.Unknown, err = unknown.Unmarshal(data, (*known)(v))
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

func (s Scope) MarshalJSON() ([]byte, error) {
	type known Scope
	return unknown.Marshal(known(s), s.Unknown)
}

func (s *Scope) UnmarshalJSON(data []byte) (err error) {
	type known Scope
	s.Unknown, err = unknown.Unmarshal(data, (*known)(s))
	return err
}

func (g Grant) MarshalJSON() ([]byte, error) {
	type known Grant
	return unknown.Marshal(known(g), g.Unknown)
}

func (g *Grant) UnmarshalJSON(data []byte) (err error) {
	type known Grant
	g.Unknown, err = unknown.Unmarshal(data, (*known)(g))
	return err
}

func (o Object) MarshalJSON() ([]byte, error) {
	type known Object
	return unknown.Marshal(known(o), o.Unknown)
}

func (o *Object) UnmarshalJSON(data []byte) (err error) {
	type known Object
	o.Unknown, err = unknown.Unmarshal(data, (*known)(o))
	return err
}

func (c Change) MarshalJSON() ([]byte, error) {
	type known Change
	return unknown.Marshal(known(c), c.Unknown)
}

func (c *Change) UnmarshalJSON(data []byte) (err error) {
	type known Change
	c.Unknown, err = unknown.Unmarshal(data, (*known)(c))
	return err
}

func (q Quota) MarshalJSON() ([]byte, error) {
	type known Quota
	return unknown.Marshal(known(q), q.Unknown)
}

func (q *Quota) UnmarshalJSON(data []byte) (err error) {
	type known Quota
	q.Unknown, err = unknown.Unmarshal(data, (*known)(q))
	return err
}
