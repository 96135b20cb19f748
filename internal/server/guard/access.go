package guard

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// The verbs of users, tokens, grants and quotas.

// Bounds of passwords, in bytes, and of the lifetime of a token.
const (
	minPassword  = 8
	maxPassword  = 256
	MaxTokenTime = 366 * 24 * time.Hour
)

// Me is the identity of a caller.
type Me struct {
	Principal string
	Token     string // its id
	Enforced  bool   // rights are
	// Rights are those of the caller where they are enforced, on at most maxHeld objects.
	Rights     []access.Scope
	MoreRights bool // on others
}

// maxHeld is the maximum number of objects whose rights WhoAmI returns: a principal may have access.MaxGrants.
const maxHeld = 1000

// WhoAmI returns the identity of the caller and its rights.
func (g *Guard) WhoAmI(c verbs.Caller) Me {
	h, _ := c.By.(*Holder)
	rules, _ := g.node.Rules()
	return whoIs(h, rules)
}

// whoIs returns the principal of a holder, or nil if it is unknown.
func whoIs(h *Holder, rules *access.Rules) Me {
	me := Me{Enforced: rules.Enforced}
	if h == nil {
		return me
	}
	me.Principal, me.Token = h.Principal, h.Token
	if scope, _, valid := h.shown(rules, now); me.Enforced && valid {
		me.Rights = rules.Held(h.Principal, scope)
	}
	if len(me.Rights) > maxHeld {
		me.Rights, me.MoreRights = me.Rights[:maxHeld], true
	}
	return me
}

// Rules returns the newest rules that this node knows.
func (g *Guard) Rules() *access.Rules {
	rules, _ := g.node.Rules()
	return rules
}

// Believed reports whether the credentials of a caller are still valid: its token was not revoked,
// its user has the same password, its node is a member.
func (g *Guard) Believed(h *Holder) bool {
	rules, _ := g.node.Rules()
	_, _, valid := h.shown(rules, now)
	return valid || h.Principal == ""
}

// PutUser adds a user with a password, or changes the password. If the password is empty, PutUser
// generates one and returns it.
func (g *Guard) PutUser(ctx context.Context, c verbs.Caller, name, password string) (made string, existed bool, err error) {
	err = do(g, &c, PutUser, "", func() error {
		if refusal := access.CheckUserName(name); refusal != nil {
			return refusal
		}
		if password == "" {
			made = rand.Text()
		} else if len(password) < minPassword || len(password) > maxPassword {
			return record.Refuse(record.Invalid, "a password must have %d to %d bytes, not %d", minPassword, maxPassword, len(password))
		}
		verifiers, err := g.derive(ctx, cmp.Or(made, password))
		if err != nil {
			return err
		}
		return g.node.ChangeAccess(ctx, func(l access.List, now int64) (change access.Change, refusal *record.Refusal) {
			change, existed, refusal = access.PutUser(l, access.User{Name: name, Created: now, Verifiers: verifiers})
			return change, refusal
		})
	})
	return made, existed, err
}

// RemoveUser removes a user's password, tokens, grants and quota.
func (g *Guard) RemoveUser(ctx context.Context, c verbs.Caller, name string) error {
	return g.changeAccess(ctx, &c, RemoveUser, func(l access.List, _ int64) (access.Change, *record.Refusal) { return access.RemoveUser(l, name) })
}

// CreateAccessToken creates a token that acts for a user. It returns the text, which is stored only
// as a hash.
func (g *Guard) CreateAccessToken(ctx context.Context, c verbs.Caller, user string, lifetime time.Duration, scope []access.Scope) (text string, t access.Token, err error) {
	id, text, hash := newToken()
	err = g.changeAccess(ctx, &c, CreateAccessToken, func(l access.List, now int64) (access.Change, *record.Refusal) {
		if lifetime < time.Second || lifetime > MaxTokenTime {
			return access.Change{}, record.Refuse(record.Invalid, "a token's lifetime must be between 1s and %d days, not %v", MaxTokenTime/(24*time.Hour), lifetime)
		}
		t = access.Token{ID: id, Hash: hash, Principal: access.OfUser(user), Created: now, Expires: now + lifetime.Milliseconds(), Scope: scope}
		return access.AddToken(l, t, now)
	})
	if err != nil {
		return "", access.Token{}, err
	}
	return text, t, nil
}

// RevokeAccessToken makes a token invalid.
func (g *Guard) RevokeAccessToken(ctx context.Context, c verbs.Caller, id string) error {
	return g.changeAccess(ctx, &c, RevokeAccessToken, func(l access.List, _ int64) (access.Change, *record.Refusal) { return access.RevokeToken(l, id) })
}

// AddGrants adds grants, all or none.
func (g *Guard) AddGrants(ctx context.Context, c verbs.Caller, all []access.Grant) error {
	return g.changeAccess(ctx, &c, AddGrants, func(l access.List, _ int64) (access.Change, *record.Refusal) { return access.AddGrants(l, all) })
}

// RemoveGrants removes grants, all or none.
func (g *Guard) RemoveGrants(ctx context.Context, c verbs.Caller, all []access.Grant) error {
	return g.changeAccess(ctx, &c, RemoveGrants, func(l access.List, _ int64) (access.Change, *record.Refusal) { return access.RemoveGrants(l, all) })
}

// EnforceRights starts or stops the refusal of calls without a grant.
func (g *Guard) EnforceRights(ctx context.Context, c verbs.Caller, on bool, administrator string) error {
	return g.changeAccess(ctx, &c, EnforceRights, func(l access.List, _ int64) (access.Change, *record.Refusal) {
		return access.Enforce(l, on, administrator)
	})
}

// SetQuota sets the quota of a subject in place of the one that it has.
func (g *Guard) SetQuota(ctx context.Context, c verbs.Caller, q access.Quota) error {
	return g.changeAccess(ctx, &c, SetQuota, func(l access.List, _ int64) (access.Change, *record.Refusal) { return access.SetQuota(l, q) })
}

// ChangeQuota changes the quota of a subject, or removes it if it has no limits then. With validateOnly it only
// checks the change against what this node knows.
func (g *Guard) ChangeQuota(ctx context.Context, c verbs.Caller, subject string, validateOnly bool, change func(*access.Quota)) error {
	if validateOnly {
		if refusal := g.may(&c, SetQuota, ""); refusal != nil {
			return refusal
		}
		_, refusal := access.ChangeQuota(g.Rules().List(), subject, change)
		return asError(refusal)
	}
	return g.changeAccess(ctx, &c, SetQuota, func(l access.List, _ int64) (access.Change, *record.Refusal) {
		return access.ChangeQuota(l, subject, change)
	})
}

// asError returns a nil error for a nil refusal.
func asError(refusal *record.Refusal) error {
	if refusal == nil {
		return nil
	}
	return refusal
}

// RemoveQuota removes the quota of a subject.
func (g *Guard) RemoveQuota(ctx context.Context, c verbs.Caller, subject string) error {
	return g.changeAccess(ctx, &c, RemoveQuota, func(l access.List, _ int64) (access.Change, *record.Refusal) { return access.RemoveQuota(l, subject) })
}

// Quotas returns the quotas, by subject, the name of this node, and what is taken of them here: at most maxUses, those
// first that wait longest.
func (g *Guard) Quotas(ctx context.Context, c verbs.Caller) (all []access.Quota, at string, uses []budget.Consumption, err error) {
	l, err := call(g, &c, ListQuotas, "", func() (access.List, error) { return g.node.AccessList(ctx) })
	if err != nil {
		return nil, "", nil, err
	}
	if len(l.Quotas) > 0 {
		rules, _ := g.node.Rules()
		uses = g.uses(rules)
	}
	return sorted(l.Quotas), g.node.Name(), uses[:min(len(uses), maxUses)], nil
}

func (g *Guard) changeAccess(ctx context.Context, c *verbs.Caller, v *Verb, decide func(access.List, int64) (access.Change, *record.Refusal)) error {
	return do(g, c, v, "", func() error { return g.node.ChangeAccess(ctx, decide) })
}

// Users returns the users that have a password, by name.
func (g *Guard) Users(ctx context.Context, c verbs.Caller) ([]access.User, error) {
	l, err := g.list(ctx, &c)
	return sorted(l.Users), err
}

// AccessTokens returns the valid tokens, by id.
func (g *Guard) AccessTokens(ctx context.Context, c verbs.Caller) ([]access.Token, error) {
	l, err := g.list(ctx, &c)
	return slices.DeleteFunc(sorted(l.Tokens), func(t access.Token) bool { return t.Expires <= now() }), err
}

// Grants returns the grants, by principal and object, and whether they are enforced.
func (g *Guard) Grants(ctx context.Context, c verbs.Caller) (all []access.Grant, enforced bool, err error) {
	l, err := g.list(ctx, &c)
	return sorted(l.Grants), l.Enforced, err
}

func (g *Guard) list(ctx context.Context, c *verbs.Caller) (access.List, error) {
	return call(g, c, ListAccess, "", func() (access.List, error) { return g.node.AccessList(ctx) })
}

func sorted[V any](m map[string]V) []V {
	all := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[key])
	}
	return all
}
