package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/transport/secure"
)

// Callers identifies the caller and checks its rights. See guard.Guard.
type Callers interface {
	Identify(certified identity.Principal, from net.Addr, authorization string) (*guard.Holder, *record.Refusal)
	May(c node.Caller, verb string, need access.Rights, o access.Object) error
	Sees(c node.Caller, o access.Object) bool
	Enforced() bool
}

// addressKey is of a request's context, and has the address of its connection.
type addressKey struct{}

// connected notes the address of a connection, which knows the principal.
func connected(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, addressKey{}, conn.RemoteAddr())
}

// needing serves a path to those who have a right on the cluster. Where rights are not
// enforced it serves those who have a certificate, if clients need one.
func (o Options) needing(need access.Rights, verb string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		err := o.may(q, verb, need)
		if err == nil {
			next.ServeHTTP(w, q)
			return
		}
		text(w)
		status := http.StatusServiceUnavailable
		switch {
		case errors.Is(err, &record.Refusal{Reason: record.Denied}):
			status = http.StatusForbidden
		case errors.Is(err, &record.Refusal{Reason: record.Unauthenticated}):
			w.Header().Set("WWW-Authenticate", "Bearer")
			status = http.StatusUnauthorized
		}
		http.Error(w, record.RefusalOf(err).Detail, status)
	})
}

// sees reports whether the caller of a page that is open to everybody is shown more than
// others are.
func (o Options) sees(q *http.Request) bool {
	if o.Callers == nil {
		return true
	}
	h, refusal := o.identify(q)
	if refusal != nil {
		return false
	}
	if !o.Callers.Enforced() {
		return !o.Identified || h.Principal != ""
	}
	return o.Callers.Sees(node.Caller{By: h}, access.OfCluster)
}

func (o Options) identify(q *http.Request) (*guard.Holder, *record.Refusal) {
	from, _ := q.Context().Value(addressKey{}).(net.Addr)
	if from == nil {
		from = new(net.TCPAddr)
	}
	return o.Callers.Identify(secure.PrincipalAt(from), from, q.Header.Get("Authorization"))
}

func (o Options) may(q *http.Request, verb string, need access.Rights) error {
	if o.Callers == nil {
		return nil
	}
	h, refusal := o.identify(q)
	if refusal != nil {
		return refusal
	}
	if o.Identified && !o.Callers.Enforced() && h.Principal == "" {
		return record.Refuse(record.Unauthenticated, "this needs a client certificate")
	}
	return o.Callers.May(node.Caller{By: h}, verb, need, access.OfCluster)
}
