package guard

import (
	"context"
	"net"
	"strings"
	"unicode"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/secure"
)

// The functions in this file identify the caller before a verb is called.

// Call returns the context of a call from an address, with or without an Authorization header.
func (g *Guard) Call(ctx context.Context, from net.Addr, authorization string) (context.Context, error) {
	h, refusal := g.Identify(secure.PrincipalAt(from), from, authorization)
	if refusal != nil {
		return nil, refusal
	}
	return With(ctx, h), nil
}

// Proved reports whether the caller of a context has authenticated.
func (g *Guard) Proved(ctx context.Context) bool {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	return h != nil && h.Principal != ""
}

// Admit refuses an unauthenticated caller before its request is read, for all methods except those
// of open verbs and the health check. Health watches are refused too: open streams cost memory, and
// a few KiB of requests could open thousands. The verb checks the rights of authenticated callers.
func (g *Guard) Admit(ctx context.Context, method string) error {
	if m := methods[method]; g.Proved(ctx) || method == probe || m.verb != nil && m.verb.Open {
		return nil
	}
	c := CallerOf(ctx)
	if refusal := g.mayDo(&c, verbOf(method), access.None, access.OfCluster); refusal != nil {
		return refusal
	}
	return nil
}

const probe = "/grpc.health.v1.Health/Check"

// AdmitLarge refuses a caller without the right that a method needs, before a large request is
// decoded, which may cost much more than its bytes. named returns the first name in the request:
// the name of the log, for methods of a log.
func (g *Guard) AdmitLarge(ctx context.Context, method string, bytes int, named func() (string, bool)) error {
	m := methods[method]
	if !m.large {
		return record.Refuse(record.Invalid, "a request of %d bytes is too large for this call", bytes)
	}
	var name string
	if m.verb.On != access.Cluster {
		var ok bool
		if name, ok = named(); !ok && g.Enforced() {
			return record.Refuse(record.Invalid, "a request of %d bytes must begin with the name of its %s: encode the fields in the order of their numbers", bytes, m.verb.On)
		}
	}
	c := CallerOf(ctx)
	if refusal := g.mayDo(&c, verbOf(method), m.verb.Right, m.verb.Of(name)); refusal != nil {
		return refusal
	}
	return nil
}

// HoldsSome reports whether a caller has a right on any object of a kind. It is not audited.
func (g *Guard) HoldsSome(c verbs.Caller, right access.Rights, kind access.Kind) bool {
	if g.has(c, right, access.OfCluster) {
		return true
	}
	h, _ := c.By.(*Holder)
	rules, _ := g.node.Rules()
	if h == nil || !rules.Enforced {
		return false
	}
	scope, _, valid := h.shown(rules, now)
	return valid && rules.HoldsAnywhere(h.Principal, scope, kind, right)
}

// verbOf returns the verb of a method as in the audit log: get-info for GetInfo.
func verbOf(method string) string {
	var out strings.Builder
	for i, r := range method[strings.LastIndexByte(method, '/')+1:] {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('-')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
