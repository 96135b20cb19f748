package guard

import (
	"context"
	"maps"
	"slices"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Session is an open session with its principal.
type Session struct {
	sequence.OpenSession
	// Principal is the principal that opened it, or empty if that is unknown.
	Principal string
}

// ListSessions returns some of the open sessions of a log, with ids above a given one, and reports
// whether there are more. It is for administrators, who see which principals hold sessions.
func (g *Guard) ListSessions(ctx context.Context, c verbs.Caller, log string, after record.SessionID) (all []Session, more bool, err error) {
	open, more, err := call2(g, &c, ListSessions, log, func() ([]sequence.OpenSession, bool, error) { return g.node.ListSessions(ctx, c, log, after) })
	if err != nil {
		return nil, false, err
	}
	rules, _ := g.node.Rules()
	principals := principalsByNumber(rules)
	for _, one := range open {
		all = append(all, Session{one, principals[one.ID.Principal()]})
	}
	return all, more, nil
}

// principalsByNumber returns all principals that the rules name, by their number in the ids of sessions.
func principalsByNumber(rules *access.Rules) map[uint32]string {
	known := map[string]bool{}
	list := rules.List()
	for name := range list.Users {
		known[access.OfUser(name)] = true
	}
	for _, t := range list.Tokens {
		known[t.Principal] = true
	}
	for _, g := range list.Grants {
		known[g.Principal] = true
	}
	for _, name := range rules.Members() {
		known["node/"+name] = true
	}
	all := map[uint32]string{}
	for _, principal := range slices.Sorted(maps.Keys(known)) {
		all[numberOf(principal)] = principal
	}
	return all
}

// CloseSession ends a session of the caller. An administrator may end any session, which is
// audited.
func (g *Guard) CloseSession(ctx context.Context, c verbs.Caller, log string, id record.SessionID) error {
	h, _ := c.By.(*Holder)
	if number := id.Principal(); number != 0 && (h == nil || h.number != number) && g.has(c, EndSession.Right, EndSession.Of(log)) {
		return do(g, &c, EndSession, log, func() error { return g.node.CloseSession(ctx, c, log, id) })
	}
	if refusal := g.mayUse(&c, CloseSession, log, id); refusal != nil {
		return refusal
	}
	return g.node.CloseSession(ctx, c, log, id)
}
