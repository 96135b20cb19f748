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

// What finds out who calls, before a verb is called.

// Call returns the context of a call that came from an address, with an Authorization
// header or without.
func (g *Guard) Call(ctx context.Context, from net.Addr, authorization string) (context.Context, error) {
	h, refusal := g.Identify(secure.PrincipalAt(from), from, authorization)
	if refusal != nil {
		return nil, refusal
	}
	return With(ctx, h), nil
}

// Proved reports whether the caller that a context knows has proved who it is.
func (g *Guard) Proved(ctx context.Context) bool {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	return h != nil && h.Principal != ""
}

// Admit refuses a caller that has not proved who it is, before anything that it sends is
// looked at, for all methods but those of open verbs and the one that probes ask. Watching the health is not among them: streams
// that stay cost memory, and thousands fit into a few KiB of requests. Who has proved it is for the verb to decide on.
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

// AdmitLarge refuses a caller that lacks the right which a method needs, before a request of so many
// bytes is decoded, which may cost much more than they. named returns the name that the request begins
// with: that of the log, where the method is about one.
func (g *Guard) AdmitLarge(ctx context.Context, method string, bytes int, named func() (string, bool)) error {
	m := methods[method]
	if !m.large {
		return record.Refuse(record.Invalid, "a request of %d bytes, which this call never needs", bytes)
	}
	var name string
	if m.verb.On != access.Cluster {
		var ok bool
		if name, ok = named(); !ok && g.Enforced() {
			return record.Refuse(record.Invalid, "a request of %d bytes has to begin with the name of its %s, as encoders do that write fields in the order of their numbers", bytes, m.verb.On)
		}
	}
	c := CallerOf(ctx)
	if refusal := g.mayDo(&c, verbOf(method), m.verb.Right, m.verb.Of(name)); refusal != nil {
		return refusal
	}
	return nil
}

// HoldsSome reports whether a caller has a right on some object of a kind. It is not audited.
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

// verbOf is a method in the words of the audit log: that of GetInfo is get-info.
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

// Stream makes a context of Call one of a call that lasts: it ends when the caller loses a
// right to read or observe that the call relies on. end has to be called after it.
func (g *Guard) Stream(ctx context.Context) (_ context.Context, end func()) {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{h, cancel}
	g.mu.Lock()
	g.streams[s] = struct{}{}
	g.mu.Unlock()
	return ctx, func() {
		g.mu.Lock()
		delete(g.streams, s)
		g.mu.Unlock()
		cancel(nil)
	}
}
