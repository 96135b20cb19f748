// Package access decides the rights and the quotas of principals, from the users, tokens, grants and
// quotas in the catalog. Like the rest of internal/cluster it does no I/O and reads no clock.
//
// List is the state in the catalog; Rules is a List prepared for decisions.
package access

import (
	"maps"

	"strandline.dev/internal/unknown"
)

// List is the users, tokens, grants and quotas in the catalog. Its maps are never changed in place.
type List struct {
	Users  map[string]User  `json:"users,omitempty"`  // by name
	Tokens map[string]Token `json:"tokens,omitempty"` // by id
	Grants map[string]Grant `json:"grants,omitempty"` // by Grant.key
	Quotas map[string]Quota `json:"quotas,omitempty"` // by subject
	// Enforced is set if requests without a grant are refused.
	Enforced bool `json:"enforced,omitempty"`
	// Secret is random, created with the first change and the same on all nodes. Answers about users
	// that do not exist are derived from it, so that all nodes give the same ones.
	Secret []byte `json:"secret,omitempty"`
	// Revision rises with each change; a recovery of the cluster raises it by more.
	Revision uint64          `json:"revision,omitempty"`
	Unknown  unknown.Members `json:"-"`
}

// User is a user that authenticates with a password, of which only verifiers are stored.
type User struct {
	Name      string              `json:"name"`
	Created   int64               `json:"created_ms"`
	Verifiers map[string]Verifier `json:"verifiers"` // by mechanism, such as SCRAM-SHA-256
	Unknown   unknown.Members     `json:"-"`
}

// Verifier is what a server stores of a password according to RFC 5802. The password cannot be
// derived from it.
type Verifier struct {
	Salt       []byte          `json:"salt"`
	Iterations int             `json:"iterations"`
	StoredKey  []byte          `json:"stored_key"`
	ServerKey  []byte          `json:"server_key"`
	Unknown    unknown.Members `json:"-"`
}

// Token is an access token: the bearer of its secret acts for a principal. Only the hash of the
// secret is stored. Times are in Unix milliseconds.
type Token struct {
	ID        string `json:"id"`
	Hash      string `json:"hash"`
	Principal string `json:"principal"`
	Created   int64  `json:"created_ms"`
	Expires   int64  `json:"expires_ms"`
	// Scope limits the token to some of the principal's rights; nil: it has all of them.
	Scope   []Scope         `json:"scope,omitempty"`
	Unknown unknown.Members `json:"-"`
}

// Scope is rights on an object that a token may use if its principal has them.
type Scope struct {
	On      Object          `json:"on"`
	Rights  Rights          `json:"rights"`
	Unknown unknown.Members `json:"-"`
}

// Grant gives a principal rights on an object.
type Grant struct {
	Principal string          `json:"principal"` // user/NAME, node/NAME or Anybody
	On        Object          `json:"on"`
	Rights    Rights          `json:"rights"`
	Unknown   unknown.Members `json:"-"`
}

func (g Grant) key() string { return g.Principal + " " + g.On.String() + exact(g.On) }

// exact returns the end of a key, which distinguishes a name that ends in * from a prefix.
func exact(o Object) string {
	if o.Prefix {
		return " prefix"
	}
	return ""
}

// Change is a change of a List. It takes effect atomically.
type Change struct {
	Users        []User          `json:"users,omitempty"`        // new, or with other passwords
	RemoveUsers  []string        `json:"remove_users,omitempty"` // names
	Tokens       []Token         `json:"tokens,omitempty"`       // new
	Revoke       []string        `json:"revoke,omitempty"`       // ids of tokens
	Grants       []Grant         `json:"grants,omitempty"`       // new values; a grant without rights is removed
	Enforce      *bool           `json:"enforce,omitempty"`
	Secret       []byte          `json:"secret,omitempty" since:"4"`        // set if the list has none
	Quotas       []Quota         `json:"quotas,omitempty" since:"6"`        // new, or with other limits
	RemoveQuotas []string        `json:"remove_quotas,omitempty" since:"6"` // subjects
	Unknown      unknown.Members `json:"-"`
}

// SecretLevel is the feature level that permits a Secret.
const SecretLevel = 4

// Empty reports whether the change has no effect.
func (c *Change) Empty() bool {
	return c == nil || len(c.Users)+len(c.RemoveUsers)+len(c.Tokens)+len(c.Revoke)+len(c.Grants)+len(c.Quotas)+len(c.RemoveQuotas) == 0 && c.Enforce == nil
}

// With returns the list after a change.
func (l List) With(c *Change) List {
	if c.Empty() {
		return l
	}
	l.Users, l.Tokens, l.Grants = copied(l.Users), copied(l.Tokens), copied(l.Grants)
	if len(c.Quotas)+len(c.RemoveQuotas) > 0 {
		l.Quotas = copied(l.Quotas)
	}
	for _, name := range c.RemoveUsers {
		delete(l.Users, name)
	}
	for _, u := range c.Users {
		l.Users[u.Name] = u
	}
	for _, id := range c.Revoke {
		delete(l.Tokens, id)
	}
	for _, t := range c.Tokens {
		l.Tokens[t.ID] = t
	}
	for _, g := range c.Grants {
		if l.Grants[g.key()] = g; g.Rights == None {
			delete(l.Grants, g.key())
		}
	}
	for _, subject := range c.RemoveQuotas {
		delete(l.Quotas, subject)
	}
	for _, q := range c.Quotas {
		l.Quotas[q.Subject] = q
	}
	if c.Enforce != nil {
		l.Enforced = *c.Enforce
	}
	if len(l.Secret) == 0 {
		l.Secret = c.Secret
	}
	l.Revision++
	return l
}

func copied[V any](m map[string]V) map[string]V {
	fresh := make(map[string]V, len(m)+1)
	maps.Copy(fresh, m)
	return fresh
}
