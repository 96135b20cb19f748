// Package console serves the web console: static pages that a browser runs, which stand on the HTTP API alone. They
// show nothing by themselves, so that everybody may have them and sign in.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets
var assets embed.FS

// Prefix is what the path of each file begins with. The page itself is at "/".
const Prefix = "/console/"

// policy lets a page load what this port serves, and nothing else: no code or style within a page, no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one file as it is served.
type file struct {
	kind         string // its media type
	etag         string
	plain, small []byte // small is compressed by gzip
}

// files reads and compresses all files, by their path below assets, when the first one is asked for.
var files = sync.OnceValue(func() map[string]file {
	all := map[string]file{}
	err := fs.WalkDir(assets, "assets", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		plain, err := assets.ReadFile(at)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		all[strings.TrimPrefix(at, "assets/")] = file{
			kind: mediaType(at), plain: plain, small: compressed(plain),
			etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		}
		return nil
	})
	if err != nil {
		panic(fmt.Errorf("read the files of the console, which are in this program: %w", err))
	}
	return all
})

// mediaType does not ask the machine, whose answer may be another one.
func mediaType(at string) string {
	switch path.Ext(at) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

func compressed(plain []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // a level that there is
	_, _ = w.Write(plain)                                   // to memory
	_ = w.Close()
	return out.Bytes()
}

// Handler serves the page at "/", and its files below Prefix. A browser asks each time whether a file is still the same, so
// that after an upgrade it has the files of one release.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		name := "index.html"
		if q.URL.Path != "/" {
			name = strings.TrimPrefix(q.URL.Path, Prefix)
		}
		f, there := files()[name]
		if !there {
			http.NotFound(w, q)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("Vary", "Accept-Encoding")
		h.Set("ETag", f.etag)
		if matches(q.Header.Get("If-None-Match"), f.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", f.kind)
		body := f.plain
		if takesGzip(q.Header.Get("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			body = f.small
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if q.Method != http.MethodHead {
			_, _ = w.Write(body)
		}
	})
}

// matches reports whether a list of ETags has one. A proxy may have weakened it.
func matches(list, etag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == etag {
			return true
		}
	}
	return false
}

// takesGzip reports whether a client that accepts these encodings takes gzip.
func takesGzip(accepts string) bool {
	for one := range strings.SplitSeq(accepts, ",") {
		name, parameter, _ := strings.Cut(one, ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		_, weight, weighted := strings.Cut(parameter, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}
