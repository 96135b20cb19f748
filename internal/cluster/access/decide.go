package access

import (
	"maps"
	"slices"
	"strings"

	"strandline.dev/internal/record"
)

// Limits of what the catalog stores, since every node holds all of it.
const (
	MaxUsers  = 10_000
	MaxTokens = 10_000
	MaxGrants = 10_000
	// MaxScope is the maximum number of objects in the scope of a token.
	MaxScope = 32
)

const userPrefix = "user/"

// OfUser returns the principal of a user.
func OfUser(name string) string { return userPrefix + name }

// UserOf returns the name of the user of a principal, and reports whether it is one.
func UserOf(principal string) (name string, ok bool) { return strings.CutPrefix(principal, userPrefix) }

// PutUser adds a user, or changes its password if it exists, which existed reports.
func PutUser(l List, u User) (c Change, existed bool, refusal *record.Refusal) {
	before, existed := l.Users[u.Name]
	switch {
	case existed:
		u.Created = before.Created
	case len(l.Users) >= MaxUsers:
		return c, false, full(len(l.Users), "users")
	}
	c.Users = []User{u}
	return c, existed, nil
}

// RemoveUser removes a user with its tokens, grants and quota, so that a later user of the same name
// starts without any. A certificate of the user remains valid but has no rights.
func RemoveUser(l List, name string) (c Change, refusal *record.Refusal) {
	principal := OfUser(name)
	if _, ok := l.Users[name]; ok {
		c.RemoveUsers = []string{name}
	}
	for _, id := range slices.Sorted(maps.Keys(l.Tokens)) {
		if l.Tokens[id].Principal == principal {
			c.Revoke = append(c.Revoke, id)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.Grants)) {
		if g := l.Grants[key]; g.Principal == principal {
			g.Rights = None
			c.Grants = append(c.Grants, g)
		}
	}
	if _, limited := l.Quotas[principal]; limited {
		c.RemoveQuotas = []string{principal}
	}
	if c.Empty() {
		return c, record.Refuse(record.Precondition, "user %q does not exist: it has no password, token, grant or quota", name)
	}
	return c, keepsAdministrator(l, &c)
}

// AddToken adds a token and removes those that have expired.
func AddToken(l List, t Token, now int64) (c Change, refusal *record.Refusal) {
	for _, id := range slices.Sorted(maps.Keys(l.Tokens)) {
		if l.Tokens[id].Expires <= now {
			c.Revoke = append(c.Revoke, id)
		}
	}
	if err := CheckPrincipal(t.Principal); err != nil || t.Principal == Anybody {
		return Change{}, record.Refuse(record.Invalid, "a token must be for a user such as user/alice, not for %q", t.Principal)
	}
	if len(t.Scope) > MaxScope {
		return Change{}, record.Refuse(record.Invalid, "the scope has %d objects, the limit is %d", len(t.Scope), MaxScope)
	}
	for _, s := range t.Scope {
		if r := checkOn(s.On, s.Rights); r != nil {
			return Change{}, r
		}
	}
	if len(l.Tokens)-len(c.Revoke) >= MaxTokens {
		return Change{}, full(len(l.Tokens), "tokens")
	}
	c.Tokens = []Token{t}
	return c, nil
}

// RevokeToken removes a token.
func RevokeToken(l List, id string) (Change, *record.Refusal) {
	if _, ok := l.Tokens[id]; !ok {
		return Change{}, record.Refuse(record.Precondition, "token %q does not exist: it was revoked or has expired", id)
	}
	return Change{Revoke: []string{id}}, nil
}

// AddGrants adds rights to those that principals have. The change is empty if they have all of
// them already.
func AddGrants(l List, all []Grant) (c Change, refusal *record.Refusal) {
	after := l
	for _, g := range all {
		if err := CheckPrincipal(g.Principal); err != nil {
			return Change{}, record.Refuse(record.Invalid, "%v", err)
		}
		if g.Rights == None {
			return Change{}, record.Refuse(record.Invalid, "the grant has no rights")
		}
		if r := checkOn(g.On, g.Rights); r != nil {
			return Change{}, r
		}
		have := after.Grants[g.key()].Rights
		if g.Rights |= have; g.Rights == have {
			continue
		}
		c.Grants = append(c.Grants, g)
		after = after.With(&Change{Grants: []Grant{g}})
	}
	if len(after.Grants) > MaxGrants {
		return Change{}, full(len(l.Grants), "grants")
	}
	return c, nil
}

// RemoveGrants removes rights. It refuses to remove rights that the principal was not granted on
// exactly that object, since rights that follow from another grant would remain.
func RemoveGrants(l List, all []Grant) (c Change, refusal *record.Refusal) {
	after := l
	for _, g := range all {
		have := after.Grants[g.key()].Rights
		if g.Rights == None || g.Rights&^have != 0 {
			return Change{}, record.Refuse(record.Precondition, "%s has no grant of %s on %s: see `strandline grant list`", g.Principal, g.Rights&^have, g.On)
		}
		g.Rights = have &^ g.Rights
		c.Grants = append(c.Grants, g)
		after = after.With(&Change{Grants: []Grant{g}})
	}
	return c, keepsAdministrator(l, &c)
}

// Enforce turns the enforcement of rights on or off. If administrator is not empty, it is granted
// the right to administer in the same change. Enforcement is refused while no principal has that
// right.
func Enforce(l List, on bool, administrator string) (c Change, refusal *record.Refusal) {
	if administrator != "" {
		if c, refusal = AddGrants(l, []Grant{{Principal: administrator, On: OfCluster, Rights: Administer}}); refusal != nil {
			return Change{}, refusal
		}
	}
	if l.Enforced != on {
		c.Enforce = &on
	}
	return c, keepsAdministrator(l, &c)
}

// keepsAdministrator refuses a change after which rights are enforced and no principal may change
// them.
func keepsAdministrator(l List, c *Change) *record.Refusal {
	after := l.With(c)
	if !after.Enforced {
		return nil
	}
	for _, g := range after.Grants {
		if g.On.Kind == Cluster && g.Rights&Administer != 0 && g.Principal != Anybody {
			return nil
		}
	}
	return record.Refuse(record.Precondition,
		"no one would have the right to administer: grant it first, `strandline grant add user/NAME administer cluster`, or give --administrator user/NAME")
}

// CheckPrincipal returns an error if rights cannot be granted to p.
func CheckPrincipal(p string) error {
	name, isUser := strings.CutPrefix(p, userPrefix)
	if !isUser {
		name = strings.TrimPrefix(p, nodePrefix)
	}
	if p == Anybody || name != p && checkName(name) == nil {
		return nil
	}
	return record.Refuse(record.Invalid, "a principal must be user/NAME, node/NAME or *, with a name of 1 to %d characters out of a-z A-Z 0-9 . _ -, not %q", maxName, p)
}

// CheckUserName returns a refusal if name is not valid for a user.
func CheckUserName(name string) *record.Refusal { return checkName(name) }

// maxName is the maximum length of a principal's name in bytes, as in certificates.
const maxName = 63

func checkName(name string) *record.Refusal {
	known := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.TrimFunc(name, known) != "" {
		return record.Refuse(record.Invalid, "name %q: 1 to %d characters out of a-z A-Z 0-9 . _ -", name, maxName)
	}
	return nil
}

func checkOn(o Object, r Rights) *record.Refusal {
	if err := o.Check(); err != nil {
		return record.Refuse(record.Invalid, "%v", err)
	}
	if o.system() && !o.Prefix {
		return record.Refuse(record.Invalid, "%s belongs to the system: its rights cannot be granted; they come with the right to administer the cluster", o)
	}
	if wrong := r &^ onKind[o.Kind]; wrong != None || r == None {
		return record.Refuse(record.Invalid, "%q cannot be granted on %s; possible rights: %s", wrong.String(), o, onKind[o.Kind])
	}
	return nil
}

func full(n int, what string) *record.Refusal {
	return record.Refuse(record.TooLarge, "the cluster has %d %s, the limit", n, what)
}
