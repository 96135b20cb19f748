package access

import (
	"maps"
	"slices"
	"strings"
)

// Anybody in a grant stands for every authenticated principal.
const Anybody = "*"

// Rules is a List prepared for decisions. It is never changed.
type Rules struct {
	// Enforced is set if requests without a grant are refused. Otherwise every request is allowed.
	Enforced bool
	list     List
	grants   map[string]*grants // by principal
	members  []string           // names of the nodes, sorted; empty: they are not known
}

// grants are those of one principal.
type grants struct {
	on map[Object]Rights // by known objects
	// prefixes are the lengths of the names of the prefixes in on. A principal may have MaxGrants, but there are at
	// most as many lengths as a name has bytes.
	prefixes []int
}

// Compile returns the rules of a list in a cluster of the named nodes. The list must not be
// changed afterwards.
func Compile(l List, members ...string) *Rules {
	r := &Rules{Enforced: l.Enforced, list: l, grants: map[string]*grants{}, members: slices.Sorted(slices.Values(members))}
	for _, g := range l.Grants {
		of := r.grants[g.Principal]
		if of == nil {
			of = &grants{on: map[Object]Rights{}}
			r.grants[g.Principal] = of
		}
		of.on[g.On.known()] |= g.Rights
		if n := len(g.On.Name); g.On.Prefix && !slices.Contains(of.prefixes, n) {
			of.prefixes = append(of.prefixes, n)
		}
	}
	return r
}

// all returns the rights by object.
func (gs *grants) all() map[Object]Rights {
	if gs == nil {
		return nil
	}
	return gs.on
}

// rightsOn returns the rights on o that follow from the grants.
func (gs *grants) rightsOn(o Object) (have Rights) {
	if gs == nil {
		return None
	}
	add := func(on Object) {
		if rights, granted := gs.on[on]; granted {
			have |= Grant{On: on, Rights: rights}.rightsOn(o)
		}
	}
	add(OfCluster)
	add(o.known())
	for _, n := range gs.prefixes {
		if n <= len(o.Name) {
			add(Object{Kind: o.Kind, Name: o.Name[:n], Prefix: true})
		}
	}
	return have
}

// Of returns the rights of a principal on an object. If scope is not nil, only the rights in it
// are returned.
//
// A grant on a log or group includes the right to observe it. A grant on the cluster applies to
// each of its objects. A node of the cluster has all rights, since it holds the logs anyway. A
// node that was removed, or never was a member, has none, whatever was granted to Anybody: its
// certificate is valid for a year. The empty principal has none.
//
// On a log of the system only principals that may administer have rights: the catalog contains
// all grants, token hashes and password verifiers, and the committed offsets are those of all
// groups.
func (r *Rules) Of(principal string, scope []Scope, o Object) Rights {
	var have Rights
	switch {
	case !r.Believes(principal):
		return None
	case strings.HasPrefix(principal, nodePrefix):
		have = All
	default:
		for _, who := range []string{principal, Anybody} {
			have |= r.grants[who].rightsOn(o)
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

// Believes reports whether a principal with a valid certificate belongs to the cluster: a user,
// or a node that is a member as far as is known.
func (r *Rules) Believes(principal string) bool {
	name, isNode := strings.CutPrefix(principal, nodePrefix)
	if !isNode || len(r.members) == 0 {
		return principal != ""
	}
	_, member := slices.BinarySearch(r.members, name)
	return member
}

// Members returns the sorted names of the nodes. They must not be changed.
func (r *Rules) Members() []string { return r.members }

// rightsOn returns the rights on o that follow from the grant.
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

// Held returns the objects on which a principal has rights, each with all that it has there: by kind and name, a
// prefix before what begins with it. Its rights on other objects follow from these.
func (r *Rules) Held(principal string, scope []Scope) []Scope {
	if !r.Believes(principal) {
		return nil
	}
	granted, within := map[Object]Rights{OfCluster: None}, map[Object]Rights{}
	for _, who := range []string{principal, Anybody} {
		for on, rights := range r.grants[who].all() {
			granted[on] |= rights
		}
	}
	if strings.HasPrefix(principal, nodePrefix) {
		granted[OfCluster] = All
	}
	for _, s := range scope {
		within[s.On.known()] |= s.Rights
	}
	objects := slices.Collect(maps.Keys(granted))
	for o := range within {
		if _, has := granted[o]; !has {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, Object.compare)
	rights := spread(objects, granted)
	if scope != nil {
		for i, some := range spread(objects, within) {
			rights[i] &= some
		}
	}
	var all []Scope
	for i, o := range objects {
		if rights[i] != None {
			all = append(all, Scope{On: o, Rights: rights[i]})
		}
	}
	return all
}

// spread returns the rights on each of the sorted objects that follow from those given on some of them. An object
// comes after the prefixes that cover it, so that one pass finds them all: a principal may have MaxGrants.
func spread(objects []Object, given map[Object]Rights) []Rights {
	rights := make([]Rights, len(objects))
	var over []int // the prefixes that cover the last object, itself among them
	for i, o := range objects {
		for len(over) > 0 && !objects[over[len(over)-1]].covers(o) {
			over = over[:len(over)-1]
		}
		rights[i] = given[o]
		if len(over) > 0 {
			rights[i] |= rights[over[len(over)-1]]
		}
		if rights[i] != None && o.Kind != Cluster {
			rights[i] |= Observe
		}
		if o.Prefix {
			over = append(over, i)
		}
	}
	everywhere := given[OfCluster]
	for i, o := range objects {
		switch {
		case everywhere&Administer != 0:
			rights[i] = All
		case o.system():
			rights[i] = None
		default:
			rights[i] |= everywhere
		}
	}
	return rights
}

// nodePrefix is the beginning of a node's principal.
const nodePrefix = "node/"

// HoldsAnywhere reports whether a principal has the right on some object of the kind.
func (r *Rules) HoldsAnywhere(principal string, scope []Scope, kind Kind, right Rights) bool {
	if r.Of(principal, scope, OfCluster)&right != 0 {
		return true
	}
	if !r.Believes(principal) {
		return false
	}
	if scope != nil { // it may be narrower than a grant, or the other way round
		return slices.ContainsFunc(r.Held(principal, scope), func(s Scope) bool { return s.On.Kind == kind && s.Rights&right != 0 })
	}
	for _, who := range []string{principal, Anybody} {
		for on, rights := range r.grants[who].all() {
			if on.Kind == kind && (Grant{On: on, Rights: rights}).rightsOn(on)&right != 0 {
				return true
			}
		}
	}
	return false
}

// Token returns the token with the given id if it is valid at the time now, in Unix milliseconds.
func (r *Rules) Token(id string, now int64) (Token, bool) {
	t, ok := r.list.Tokens[id]
	return t, ok && now < t.Expires
}

// User returns the stored password verifiers of a user.
func (r *Rules) User(name string) (User, bool) {
	u, ok := r.list.Users[name]
	return u, ok
}

// List returns the list from which the rules were compiled. It must not be changed.
func (r *Rules) List() List { return r.list }
