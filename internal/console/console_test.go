package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// most is how many bytes all files together may have as a browser fetches them.
const most = 200_000

func get(path string, headers map[string]string) *http.Response {
	q := httptest.NewRequest(http.MethodGet, path, nil)
	for name, value := range headers {
		q.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, q)
	return w.Result()
}

func TestAllFilesTogetherAreSmall(t *testing.T) {
	total := 0
	for name, f := range files() {
		total += len(f.small)
		t.Logf("%6d bytes  %s", len(f.small), name)
	}
	t.Logf("%6d bytes in all", total)
	require.Less(t, total, most)
}

func TestAFileIsSentCompressedToWhoTakesIt(t *testing.T) {
	want := files()["app.js"].plain
	for accepts, compressed := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "": false, "identity": false, "gzip;q=0": false, "gzip; q=0.0": false} {
		r := get("/console/app.js", map[string]string{"Accept-Encoding": accepts})
		require.Equal(t, http.StatusOK, r.StatusCode)
		var body io.Reader = r.Body
		require.Equal(t, compressed, r.Header.Get("Content-Encoding") == "gzip", accepts)
		if compressed {
			var err error
			body, err = gzip.NewReader(r.Body)
			require.NoError(t, err)
		}
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, "Accept-Encoding", r.Header.Get("Vary"))
	}
}

func TestAFileThatABrowserHasIsNotSentAgain(t *testing.T) {
	etag := get("/", nil).Header.Get("ETag")
	require.NotEmpty(t, etag)
	require.NotEqual(t, etag, get("/console/app.js", nil).Header.Get("ETag"))
	for _, has := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
		r := get("/", map[string]string{"If-None-Match": has})
		require.Equal(t, http.StatusNotModified, r.StatusCode, has)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Empty(t, body)
	}
	require.Equal(t, http.StatusOK, get("/", map[string]string{"If-None-Match": `"other"`}).StatusCode)
	require.Equal(t, "no-cache", get("/", nil).Header.Get("Cache-Control"), "a browser asks each time")
}

func TestNothingRunsOrIsLoadedButTheseFiles(t *testing.T) {
	for _, path := range []string{"/", "/console/app.js", "/console/style.css"} {
		h := get(path, nil).Header
		policy := h.Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			require.Contains(t, policy, directive)
		}
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	}
	page := string(files()["index.html"].plain)
	require.NotRegexp(t, `(?i)<script[^>]*>[^<]`, page, "code in the page")
	require.NotRegexp(t, `(?i)<style|\sstyle=|\son\w+=`, page)
}

func TestEveryFileThatAFileNamesIsThereAndNoOther(t *testing.T) {
	named := map[string]bool{"index.html": true, "vendor/LICENSES": true}
	for name, f := range files() {
		for _, found := range regexp.MustCompile(`(?:href|src)="/console/([^"]+)"`).FindAllStringSubmatch(string(f.plain), -1) {
			named[found[1]] = true
		}
		if strings.HasSuffix(name, ".js") && !strings.HasPrefix(name, "vendor/") {
			for _, found := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(string(f.plain), -1) {
				named[found[1]] = true
			}
			require.NotRegexp(t, `https?://[a-z]`, string(f.plain), "%s names another site", name)
		}
	}
	for name := range named {
		require.Contains(t, files(), name)
	}
	require.Len(t, files(), len(named))
}

func TestWhatIsNoFileIsNotFound(t *testing.T) {
	for _, path := range []string{"/console/", "/console/nothing.js", "/console/../console.go", "/console/vendor"} {
		require.Equal(t, http.StatusNotFound, get(path, nil).StatusCode, path)
	}
}
