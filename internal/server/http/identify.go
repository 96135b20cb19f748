package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/transport/secure"
)

// Callers identifies the caller and checks its rights. See guard.Guard.
type Callers interface {
	Identify(certified identity.Principal, from net.Addr, authorization string) (*guard.Holder, *record.Refusal)
	May(c verbs.Caller, v *guard.Verb, name string) error
	Able(c verbs.Caller, v *guard.Verb, name string) bool
	Sees(c verbs.Caller, o access.Object) bool
	Enforced() bool
	Slow(ctx context.Context, from net.Addr)
	Unproved(ctx context.Context, h *guard.Holder)
	Whose(ctx context.Context, from net.Addr) string
	Connected(port string, most int, from net.Addr, end func()) (proved func(context.Context) error, left func())
}

// addressKey is the context key of the address of a request's connection.
type addressKey struct{}

// connKey is the context key of a request's connection.
type connKey struct{}

// connOf returns the connection of a request, or nil.
func connOf(q *http.Request) net.Conn {
	conn, _ := q.Context().Value(connKey{}).(net.Conn)
	return conn
}

// connected stores a connection and its address, which contains the principal, in a context.
func connected(ctx context.Context, conn net.Conn) context.Context {
	ctx = context.WithValue(ctx, addressKey{}, conn.RemoteAddr())
	ctx = context.WithValue(ctx, connKey{}, conn)
	if c, ok := conn.(*clientConn); ok {
		conn = c.Conn
	}
	if _, encrypted := conn.(interface{ ConnectionState() tls.ConnectionState }); encrypted {
		ctx = context.WithValue(ctx, encryptedKey{}, true)
	}
	return ctx
}

// encryptedKey is the context key of a request that arrived over TLS.
type encryptedKey struct{}

// needing serves a path to callers that may call a verb on the cluster. If rights are not enforced,
// it serves callers with a certificate, provided that clients need one.
func (o Options) needing(v *guard.Verb, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		err := o.may(q, v)
		if err == nil {
			next.ServeHTTP(w, q)
			return
		}
		o.Callers.Slow(context.WithoutCancel(q.Context()), addressOf(q))
		text(w)
		w.Header().Set("Connection", "close") // see once
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

// once closes the connection after the answer. Only callers that have shown more rights than
// everybody has may keep an idle connection; before its request, a client has readTimeout. It
// delays a client that sends requests without pause; the connection counts until then, even if the
// client has closed it.
func (o Options) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if o.Callers != nil {
			ctx := context.WithoutCancel(q.Context())
			if h, refusal := o.identify(q); refusal == nil {
				o.Callers.Unproved(ctx, h)
			} else {
				o.Callers.Slow(ctx, addressOf(q))
			}
		}
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, q)
	})
}

// listensKey is the context key of the address at which the port listens.
type listensKey struct{}

// listening stores the address of a listener in a context.
func listening(l net.Listener) context.Context {
	return context.WithValue(context.Background(), listensKey{}, l.Addr())
}

// atHome refuses requests from web pages under a host name that resolves to this machine, because
// local callers need no credentials. A port that listens only for this machine accepts requests for
// an address, localhost or the machine's name. With TLS, the certificate determines the name.
func atHome(next http.Handler, machine string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if byAnotherName(q, machine) {
			text(w)
			w.Header().Set("Connection", "close")
			http.Error(w, "this port serves this machine only: use localhost, its address or the machine's name as the host; a proxy must set the Host header to one of them", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, q)
	})
}

// byAnotherName reports whether a request to a port that listens only for this machine has another
// host name.
func byAnotherName(q *http.Request, machine string) bool {
	at, _ := q.Context().Value(listensKey{}).(*net.TCPAddr)
	encrypted, _ := q.Context().Value(encryptedKey{}).(bool)
	return !encrypted && at != nil && at.IP.IsLoopback() && !isHome(q.Host, machine)
}

// isHome reports whether the host of a request is localhost, an address, the name of the machine
// with or without its domain, or missing.
func isHome(hostPort, machine string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.Trim(hostPort, "[]")
	}
	host, machine = plainName(host), plainName(machine)
	short, _, _ := strings.Cut(machine, ".")
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || host == machine || host == short || net.ParseIP(host) != nil
}

func plainName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// sees reports whether the caller of a page that is open to everybody may see more than others.
func (o Options) sees(q *http.Request) bool {
	if byAnotherName(q, o.machine) {
		return false // it may be a page in a browser, see atHome
	}
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
	return o.Callers.Sees(verbs.Caller{By: h}, access.OfCluster)
}

// addressOf returns the client address of a request.
func addressOf(q *http.Request) net.Addr {
	if from, _ := q.Context().Value(addressKey{}).(net.Addr); from != nil {
		return from
	}
	return new(net.TCPAddr)
}

func (o Options) identify(q *http.Request) (*guard.Holder, *record.Refusal) {
	from := addressOf(q)
	return o.Callers.Identify(secure.PrincipalAt(from), from, q.Header.Get("Authorization"))
}

func (o Options) may(q *http.Request, v *guard.Verb) error {
	if o.Callers == nil {
		return nil
	}
	h, refusal := o.identify(q)
	if refusal != nil {
		return refusal
	}
	if o.Identified && !o.Callers.Enforced() && h.Principal == "" {
		return record.Refuse(record.Unauthenticated, "this port needs a client certificate")
	}
	if conn, counted := connOf(q).(*clientConn); counted {
		if err := conn.provedBy(guard.With(q.Context(), h)); err != nil {
			return err
		}
	}
	return o.Callers.May(verbs.Caller{By: h}, v, "")
}
