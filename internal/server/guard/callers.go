package guard

import (
	"context"
	"net"
	"strings"
	"unicode"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/secure"
)

// callers find out who calls, before a verb is called.
type callers struct{ *core }

// Call returns the context of a call that came from an address, with an Authorization
// header or without.
func (g *callers) Call(ctx context.Context, from net.Addr, authorization string) (context.Context, error) {
	h, refusal := g.Identify(secure.PrincipalAt(from), from, authorization)
	if refusal != nil {
		return nil, refusal
	}
	return With(ctx, h), nil
}

// Proved reports whether the caller that a context knows has proved who it is.
func (g *callers) Proved(ctx context.Context) bool {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	return h != nil && h.Principal != ""
}

// Admit refuses a caller that has not proved who it is, before anything that it sends is
// looked at, for all methods but WhoAmI and the one that probes ask. Watching the health is not among them: streams
// that stay cost memory, and thousands fit into a few KiB of requests. Who has proved it is for the verb to decide on.
func (g *callers) Admit(ctx context.Context, method string) error {
	if g.Proved(ctx) || method == probe || method == whoAmI {
		return nil
	}
	c := CallerOf(ctx)
	if refusal := g.may(&c, verbOf(method), access.None, access.OfCluster); refusal != nil {
		return refusal
	}
	return nil
}

const (
	probe  = "/grpc.health.v1.Health/Check"
	whoAmI = "/strandline.v1.AccessService/WhoAmI"
)

// AdmitLarge refuses a caller that lacks the right which a method needs, before a request of so many
// bytes is decoded, which may cost much more than they. named returns the name that the request begins
// with: that of the log, where the method is about one.
func (g *callers) AdmitLarge(ctx context.Context, method string, bytes int, named func() (string, bool)) error {
	need, takes := takesLarge[method]
	if !takes {
		return record.Refuse(record.Invalid, "a request of %d bytes, which this call never needs", bytes)
	}
	on := access.OfCluster
	if need.onLog {
		log, ok := named()
		if !ok && g.Enforced() {
			return record.Refuse(record.Invalid, "a request of %d bytes has to begin with the name of its log, as encoders do that write fields in the order of their numbers", bytes)
		}
		on = access.OfLog(log)
	}
	c := CallerOf(ctx)
	if refusal := g.may(&c, verbOf(method), need.right, on); refusal != nil {
		return refusal
	}
	return nil
}

// HoldsSome reports whether a caller has a right on some object of a kind. It is not audited.
func (g *callers) HoldsSome(c node.Caller, right access.Rights, kind access.Kind) bool {
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

// takesLarge are the methods with a right that their verb needs, too. Those that are not here take
// small requests only, as do all whose requests to append are admitted one by one.
var takesLarge = func() map[string]need {
	all := map[string]need{}
	for service, methods := range map[string]map[string]need{
		"LogService": {
			"Read": {access.Read, true}, "Digest": {access.Read, true}, "Prove": {access.Read, true}, "Trim": {access.Trim, true},
			"AcquireWriter": {access.Append, true}, "SetHold": {access.Trim, true}, "KeepHold": {access.Trim, true}, "ReleaseHold": {access.Trim, true},
			"GetInfo": {access.Observe, true}, "WatchInfo": {access.Observe, true},
		},
		"SessionService": {
			"OpenSession": {access.Append, true}, "KeepSession": {access.Append, true}, "CloseSession": {access.Append, true}, "Resolve": {access.Append, true},
		},
		"CatalogService": {
			"CreateLog": {access.Create, true}, "ConfigureLog": {access.Configure, true}, "DeleteLog": {access.Delete, true},
		},
		"ClusterService": {
			"InitCluster": {access.Administer, false}, "AddNode": {access.Administer, false}, "CreateToken": {access.Administer, false},
			"RemoveNode": {access.Administer, false}, "ReplaceNode": {access.Administer, false}, "Rebalance": {access.Administer, false},
			"TransferLeader": {access.Administer, false}, "SetDefaultRule": {access.Administer, false}, "DrainNode": {access.Administer, false},
			"ListSessions": {access.Administer, true}, "ListConnections": {access.Administer, false}, "CloseConnections": {access.Administer, false},
			"FinalizeCluster": {access.Administer, false}, "GetClusterStatus": {access.Observe, false},
		},
		"AccessService": {
			"PutUser": {access.Administer, false}, "RemoveUser": {access.Administer, false}, "ListUsers": {access.Administer, false},
			"CreateAccessToken": {access.Administer, false}, "RevokeAccessToken": {access.Administer, false}, "ListAccessTokens": {access.Administer, false},
			"AddGrants": {access.Administer, false}, "RemoveGrants": {access.Administer, false}, "ListGrants": {access.Administer, false},
			"EnforceRights": {access.Administer, false},
		},
	} {
		for method, needed := range methods {
			all["/strandline.v1."+service+"/"+method] = needed
		}
	}
	return all
}()

// need is the right that a method needs, on the log that its request names or on the cluster.
type need struct {
	right access.Rights
	onLog bool
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
func (g *callers) Stream(ctx context.Context) (_ context.Context, end func()) {
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
