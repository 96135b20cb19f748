package httpserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins keeps pages of other sites in a browser from calls: their requests are refused, unless their origin is in a
// list. Then its pages may read the answers too. Programs other than browsers send no Origin.
func origins(listed []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		from := q.Header.Get("Origin")
		if len(listed) > 0 {
			h.Add("Vary", "Origin")
		}
		switch {
		case from != "" && slices.Contains(listed, from):
			h.Set("Access-Control-Allow-Origin", from)
			h.Set("Cross-Origin-Resource-Policy", "cross-origin")
			h.Set("Access-Control-Expose-Headers", strings.Join(readable, ", "))
			if q.Method == http.MethodOptions && q.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE")
				h.Set("Access-Control-Allow-Headers", strings.Join(sendable, ", "))
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		case from != "" && !isOf(from, q.Host), q.Header.Get("Sec-Fetch-Site") == "cross-site":
			h.Set("Connection", "close")
			text(w)
			http.Error(w, "web pages of this origin may not call this port: allow the origin with --http-origins", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, q)
	})
}

// Headers that pages of listed origins may send, and read.
var (
	sendable = []string{
		"Authorization", "Content-Type", "Grpc-Timeout", "If-None-Match", "Traceparent",
		"Producer-Epoch", "Producer-Id", "Producer-Seq", "Stream-Closed", "Stream-Expires-At", "Stream-Seq", "Stream-TTL",
	}
	readable = []string{
		"ETag", "Location", "WWW-Authenticate", "Producer-Epoch", "Producer-Expected-Seq", "Producer-Received-Seq", "Producer-Seq",
		"Stream-Closed", "Stream-Cursor", "Stream-Expires-At", "Stream-Next-Offset", "Stream-SSE-Data-Encoding", "Stream-TTL", "Stream-Up-To-Date",
	}
)

// isOf reports whether an origin is that of a host, as requests name it.
func isOf(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
