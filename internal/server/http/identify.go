package httpserver

import "net/http"

// identify refuses requests without a certificate where one is needed.
func (o Options) identify(next http.Handler) http.Handler {
	if !o.Identified {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if probe := q.URL.Path == "/livez" || q.URL.Path == "/readyz"; probe || identified(q) {
			next.ServeHTTP(w, q)
			return
		}
		text(w)
		http.Error(w, "this needs a client certificate", http.StatusUnauthorized)
	})
}

// identified reports whether the client has shown a certificate. One that is not
// believed ends the connection before.
func identified(q *http.Request) bool { return q.TLS != nil && len(q.TLS.PeerCertificates) > 0 }
