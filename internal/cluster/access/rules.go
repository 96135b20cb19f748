package access

import (
	"maps"
	"slices"
	"strings"
)

// Anybody in a grant is every principal that has proved who it is.
const Anybody = "*"

// Rules are a List made ready for decisions. They are never changed.
type Rules struct {
	// Enforced: what is not granted is refused. Until then everybody may do everything.
	Enforced bool
	list     List
	grants   map[string][]Grant // by principal
	members  []string           // names of the nodes, sorted; none: it is not known which there are
}

// Compile makes the rules of a list, which must not be changed afterwards, in a cluster of
// nodes of these names.
func Compile(l List, members ...string) *Rules {
	r := &Rules{Enforced: l.Enforced, list: l, grants: map[string][]Grant{}, members: slices.Sorted(slices.Values(members))}
	for _, key := range slices.Sorted(maps.Keys(l.Grants)) {
		g := l.Grants[key]
		r.grants[g.Principal] = append(r.grants[g.Principal], g)
	}
	return r
}

// Of returns the rights of a principal on one object, of which scope, unless it is nil,
// leaves some. Whatever is granted on a log or group includes that it may be observed,
// and what can be granted on all of the cluster holds for each of its objects. A node of
// the cluster may do everything: it holds the logs anyway. One that was removed, or never
// was a member, may do nothing, whatever was granted to all: its certificate is valid for
// a year. Nobody in particular, "", may do nothing.
// On a log of the system only those have rights who may administer: whoever reads the
// catalog knows all grants, token hashes and password verifiers, and the committed offsets are
// those of all groups.
func (r *Rules) Of(principal string, scope []Scope, o Object) Rights {
	var have Rights
	switch {
	case !r.Believes(principal):
		return None
	case strings.HasPrefix(principal, nodePrefix):
		have = All
	default:
		for _, who := range []string{principal, Anybody} {
			for _, g := range r.grants[who] {
				have |= g.rightsOn(o)
			}
		}
	}
	if scope != nil {
		var within Rights
		for _, s := range scope {
			within |= Grant{On: s.On, Rights: s.Rights}.rightsOn(o)
		}
		have &= within
	}
	return have
}

// Believes reports whether a principal whose certificate is valid is one of the cluster: a
// user, or a node that is a member as far as is known.
func (r *Rules) Believes(principal string) bool {
	name, isNode := strings.CutPrefix(principal, nodePrefix)
	if !isNode || len(r.members) == 0 {
		return principal != ""
	}
	_, member := slices.BinarySearch(r.members, name)
	return member
}

// Members returns the names of the nodes, sorted. They must not be changed.
func (r *Rules) Members() []string { return r.members }

// rightsOn are the rights on one object that follow from a grant.
func (g Grant) rightsOn(o Object) Rights {
	switch {
	case g.On.Kind == Cluster && g.Rights&Administer != 0:
		return All
	case o.system():
		return None
	case g.On.Kind == Cluster:
		return g.Rights
	case !g.On.covers(o):
		return None
	}
	return g.Rights | Observe
}

// nodePrefix begins the principal of a node.
const nodePrefix = "node/"

// HoldsAnywhere reports whether a principal has a right on some object of a kind.
func (r *Rules) HoldsAnywhere(principal string, scope []Scope, kind Kind, right Rights) bool {
	if r.Of(principal, scope, OfCluster)&right != 0 {
		return true
	}
	if !r.Believes(principal) {
		return false
	}
	for _, who := range []string{principal, Anybody} {
		for _, g := range r.grants[who] {
			if g.On.Kind != kind {
				continue
			}
			// A scope may be narrower than the grant, or the other way round.
			if scope == nil && g.rightsOn(g.On)&right != 0 || r.Of(principal, scope, g.On)&right != 0 {
				return true
			}
			for _, s := range scope {
				if r.Of(principal, scope, s.On)&right != 0 {
					return true
				}
			}
		}
	}
	return false
}

// Token returns a token that is valid at a time in unix ms.
func (r *Rules) Token(id string, now int64) (Token, bool) {
	t, ok := r.list.Tokens[id]
	return t, ok && now < t.Expires
}

// User returns what is kept of a user's password.
func (r *Rules) User(name string) (User, bool) {
	u, ok := r.list.Users[name]
	return u, ok
}

// List returns what the rules are made of. It must not be changed.
func (r *Rules) List() List { return r.list }
