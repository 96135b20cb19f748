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
	if need.on != access.Cluster {
		name, ok := named()
		if !ok && g.Enforced() {
			return record.Refuse(record.Invalid, "a request of %d bytes has to begin with the name of its %s, as encoders do that write fields in the order of their numbers", bytes, need.on)
		}
		on = access.Object{Kind: need.on, Name: name}
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
			"Read": {access.Read, access.Log}, "Digest": {access.Read, access.Log}, "Prove": {access.Read, access.Log}, "Trim": {access.Trim, access.Log},
			"AcquireWriter": {access.Append, access.Log}, "SetHold": {access.Trim, access.Log}, "KeepHold": {access.Trim, access.Log}, "ReleaseHold": {access.Trim, access.Log},
			"GetInfo": {access.Observe, access.Log}, "WatchInfo": {access.Observe, access.Log},
		},
		"SessionService": {
			"OpenSession": {access.Append, access.Log}, "KeepSession": {access.Append, access.Log}, "CloseSession": {access.Append, access.Log}, "Resolve": {access.Append, access.Log},
		},
		"CatalogService": {
			"CreateLog": {access.Create, access.Log}, "ConfigureLog": {access.Configure, access.Log}, "DeleteLog": {access.Delete, access.Log},
		},
		"ClusterService": {
			"InitCluster": {access.Administer, access.Cluster}, "AddNode": {access.Administer, access.Cluster}, "CreateToken": {access.Administer, access.Cluster},
			"RemoveNode": {access.Administer, access.Cluster}, "ReplaceNode": {access.Administer, access.Cluster}, "Rebalance": {access.Administer, access.Cluster},
			"TransferLeader": {access.Administer, access.Cluster}, "SetDefaultRule": {access.Administer, access.Cluster}, "DrainNode": {access.Administer, access.Cluster},
			"ListSessions": {access.Administer, access.Log}, "ListConnections": {access.Administer, access.Cluster}, "CloseConnections": {access.Administer, access.Cluster},
			"FinalizeCluster": {access.Administer, access.Cluster}, "GetClusterStatus": {access.Observe, access.Cluster},
		},
		"GroupService": {
			"ListGroupOffsets": {access.Observe, access.Group}, "SetGroupOffsets": {access.Read, access.Group},
		},
		"AccessService": {
			"PutUser": {access.Administer, access.Cluster}, "RemoveUser": {access.Administer, access.Cluster}, "ListUsers": {access.Administer, access.Cluster},
			"CreateAccessToken": {access.Administer, access.Cluster}, "RevokeAccessToken": {access.Administer, access.Cluster}, "ListAccessTokens": {access.Administer, access.Cluster},
			"AddGrants": {access.Administer, access.Cluster}, "RemoveGrants": {access.Administer, access.Cluster}, "ListGrants": {access.Administer, access.Cluster},
			"EnforceRights": {access.Administer, access.Cluster},
		},
	} {
		for method, needed := range methods {
			all["/strandline.v1."+service+"/"+method] = needed
		}
	}
	return all
}()

// need is the right that a method needs, on the log or the group that its request names or on the cluster.
type need struct {
	right access.Rights
	on    access.Kind
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
