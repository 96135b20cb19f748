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
}

// addressKey is of a request's context, and has the address of its connection.
type addressKey struct{}

// connKey is of a request's context, and has its connection.
type connKey struct{}

// connOf is the connection that a request came by, or nil.
func connOf(q *http.Request) net.Conn {
	conn, _ := q.Context().Value(connKey{}).(net.Conn)
	return conn
}

// connected notes a connection and its address, which knows the principal.
func connected(ctx context.Context, conn net.Conn) context.Context {
	ctx = context.WithValue(ctx, addressKey{}, conn.RemoteAddr())
	ctx = context.WithValue(ctx, connKey{}, conn)
	if lines, ok := conn.(*linesConn); ok {
		conn = lines.Conn
	}
	if _, encrypted := conn.(interface{ ConnectionState() tls.ConnectionState }); encrypted {
		ctx = context.WithValue(ctx, encryptedKey{}, true)
	}
	return ctx
}

// encryptedKey is of the context of a request that came over TLS.
type encryptedKey struct{}

// needing serves a path to those who may ask for a verb on the cluster. Where rights are not
// enforced it serves those who have a certificate, if clients need one.
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

// once ends the connection behind the answer: an idle one is for those who have shown that
// they may ask for more than everybody, and until it has asked a client has readTimeout.
// One who asks without end is held up, with a connection that counts until then, also where
// the client has left it.
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

// listensKey is of a request's context, and has the address that its port listens at.
type listensKey struct{}

// listening notes the address of a listener.
func listening(l net.Listener) context.Context {
	return context.WithValue(context.Background(), listensKey{}, l.Addr())
}

// atHome refuses what a page in a browser asks by a name of its own that leads to this machine,
// where nothing is asked of those who are here: a port that listens for this machine alone is asked for
// by an address, as localhost or by the machine's name. Behind TLS the name is the certificate's.
func atHome(next http.Handler, machine string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if byAnotherName(q, machine) {
			text(w)
			w.Header().Set("Connection", "close")
			http.Error(w, "this port is for this machine: ask for it as localhost, by its address or the machine's name, not by another name; a proxy sets the Host header so", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, q)
	})
}

// byAnotherName reports whether a request to a port for this machine alone asks for another one.
func byAnotherName(q *http.Request, machine string) bool {
	at, _ := q.Context().Value(listensKey{}).(*net.TCPAddr)
	encrypted, _ := q.Context().Value(encryptedKey{}).(bool)
	return !encrypted && at != nil && at.IP.IsLoopback() && !isHome(q.Host, machine)
}

// isHome reports whether the host of a request is localhost, an address, the name of the machine with or
// without its domain, or not said.
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

// sees reports whether the caller of a page that is open to everybody is shown more than
// others are.
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

// addressOf is where a request comes from.
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
		return record.Refuse(record.Unauthenticated, "this needs a client certificate")
	}
	return o.Callers.May(verbs.Caller{By: h}, v, "")
}
