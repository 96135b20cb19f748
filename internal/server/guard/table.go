package guard

import (
	"maps"
	"strings"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
)

// Verb is an operation that callers request: a row of the table in verbs.go.
type Verb struct {
	Name string // in refusals and in the audit log
	// Right is the right that the caller needs on an object of the kind On; None means that it only
	// has to authenticate.
	Right access.Rights
	On    access.Kind
	// Audited verbs change something: each call is in the audit log with its outcome. Refused calls
	// of every verb are in the audit log.
	Audited bool
	// Open verbs may be called without authentication.
	Open bool
	// Renews: the verb keeps or gives back what the caller holds for a time, which ends if the call comes late.
	// Its calls count for quotas, and never wait for one.
	Renews bool
}

const (
	audited = true
	silent  = false
)

// method is how a method of gRPC calls a verb.
type method struct {
	verb *Verb
	// large reports that the verb accepts requests that are expensive to decode, if the caller has
	// the right that the verb needs.
	large bool
}

// methods are those of the table, by full name.
var methods = map[string]method{}

// row adds a verb to the table, with the methods of gRPC that call it with requests that may be large.
func row(name string, right access.Rights, on access.Kind, audited bool, large ...string) *Verb {
	v := &Verb{Name: name, Right: right, On: on, Audited: audited}
	return v.calledBy(large, true)
}

// small adds methods that call the verb, whose requests are never large.
func (v *Verb) small(names ...string) *Verb { return v.calledBy(names, false) }

func (v *Verb) calledBy(names []string, large bool) *Verb {
	for _, name := range names {
		if !strings.Contains(name, ".") {
			name = "strandline.v1." + name
		}
		methods["/"+name] = method{v, large}
	}
	return v
}

func (v *Verb) open() *Verb {
	v.Open = true
	return v
}

func (v *Verb) renews() *Verb {
	v.Renews = true
	return v
}

// Of returns the object of the verb with a name. The name is not used if the object is the cluster.
func (v *Verb) Of(name string) access.Object {
	switch v.On {
	case access.Cluster:
		return access.OfCluster
	case access.Log:
		return access.OfLog(name)
	}
	return access.Object{Kind: v.On, Name: name}
}

// Methods returns the verbs that the methods of gRPC call, by the full names of the methods.
func Methods() map[string]*Verb {
	all := map[string]*Verb{}
	for name, m := range maps.All(methods) {
		all[name] = m.verb
	}
	return all
}

// do calls a verb of the node if the caller has the right that it needs on the object of a name, and audits the call
// if the verb is audited.
func do(g *Guard, c *verbs.Caller, v *Verb, name string, verb func() error) error {
	if refusal := g.may(c, v, name); refusal != nil {
		return refusal
	}
	err := verb()
	g.countCrowding(c, err)
	if v.Audited {
		g.record(c, v.Name, v.Of(name), err)
	}
	return err
}

// call is do for a verb with an answer.
func call[A any](g *Guard, c *verbs.Caller, v *Verb, name string, verb func() (A, error)) (answer A, err error) {
	err = do(g, c, v, name, func() (err error) {
		answer, err = verb()
		return err
	})
	return answer, err
}

// call2 is call for a verb with two.
func call2[A, B any](g *Guard, c *verbs.Caller, v *Verb, name string, verb func() (A, B, error)) (one A, two B, err error) {
	err = do(g, c, v, name, func() (err error) {
		one, two, err = verb()
		return err
	})
	return one, two, err
}

// May returns a refusal if a caller lacks a right. It is for operations of servers without a verb
// of the node, such as those of consumer groups.
func (g *Guard) May(c verbs.Caller, v *Verb, name string) error {
	if refusal := g.may(&c, v, name); refusal != nil {
		return refusal
	}
	return nil
}

// Able reports whether a caller has the right that a verb needs, without an entry in the audit log.
// It is for what a server does only if it may.
func (g *Guard) Able(c verbs.Caller, v *Verb, name string) bool { return g.has(c, v.Right, v.Of(name)) }

// Audit records the outcome of a verb that May has allowed, or a refusal, in the audit log.
func (g *Guard) Audit(c verbs.Caller, v *Verb, name string, err error) {
	g.record(&c, v.Name, v.Of(name), err)
}
