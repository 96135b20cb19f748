package guard

import (
	"context"
	"net"
	"strings"
	"unicode"

	"strandline.dev/internal/cluster/access"
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
// looked at, for all methods but those that need no right. Who has proved it is for the verb to decide on.
func (g *callers) Admit(ctx context.Context, method string) error {
	if g.Proved(ctx) || strings.HasPrefix(method, "/grpc.") || method == whoAmI {
		return nil
	}
	c := CallerOf(ctx)
	if refusal := g.may(&c, verbOf(method), access.None, access.OfCluster); refusal != nil {
		return refusal
	}
	return nil
}

const whoAmI = "/strandline.v1.AccessService/WhoAmI"

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
