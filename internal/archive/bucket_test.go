package archive_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/archive/filebucket"
	"strandline.dev/internal/archive/s3bucket"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// s3 is a server of S3 in this process, and what is in front of it.
type s3 struct {
	http.Handler
	// before, if not nil, answers a request in place of the server if it returns true.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.before == nil || !s.before(w, r) {
		s.Handler.ServeHTTP(w, r)
	}
}

const secretKey = "do-not-show-this-key"

// newS3 returns a bucket of such a server.
func newS3(t *testing.T) (*s3, *s3bucket.Bucket) {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("logs"))
	s := &s3{Handler: gofakes3.New(backend).Server()}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	at, err := url.Parse("s3://logs/some/prefix")
	require.NoError(t, err)
	b, err := s3bucket.New(at, environment(map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-central-1"}))
	require.NoError(t, err)
	return s, b
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func buckets(t *testing.T) map[string]archive.Bucket {
	inMemory := filebucket.New(faultdisk.New(1), "archive")
	onDisk := filebucket.New(vfs.OS(), filepath.Join(t.TempDir(), "archive"))
	_, s3 := newS3(t)
	return map[string]archive.Bucket{"double": newMemory(), "file": onDisk, "file on a double": inMemory, "s3": s3}
}

func TestAPutOfAnyBucketReplacesOnlyTheVersionItNames(t *testing.T) {
	for kind, b := range buckets(t) {
		ctx := t.Context()
		_, _, err := b.Get(ctx, "clusters/a/x", 10)
		require.ErrorIs(t, err, archive.ErrNotFound, kind)
		_, err = b.Put(ctx, "clusters/a/x", []byte("zero"), "1")
		require.ErrorIs(t, err, archive.ErrChanged, kind)
		one, err := b.Put(ctx, "clusters/a/x", []byte("one"), "")
		require.NoError(t, err, kind)
		_, err = b.Put(ctx, "clusters/a/x", []byte("other"), "")
		require.ErrorIs(t, err, archive.ErrChanged, kind)
		data, version, err := b.Get(ctx, "clusters/a/x", 3)
		require.NoError(t, err, kind)
		require.Equal(t, "one", string(data), kind)
		require.Equal(t, one, version, kind)
		two, err := b.Put(ctx, "clusters/a/x", []byte("two"), one)
		require.NoError(t, err, kind)
		_, err = b.Put(ctx, "clusters/a/x", []byte("other"), one)
		require.ErrorIs(t, err, archive.ErrChanged, kind)
		data, version, err = b.Get(ctx, "clusters/a/x", 3)
		require.NoError(t, err, kind)
		require.Equal(t, "two", string(data), kind)
		require.Equal(t, two, version, kind)
		_, _, err = b.Get(ctx, "clusters/a/x", 2)
		require.ErrorIs(t, err, archive.ErrTooLarge, kind)

		_, err = b.Put(ctx, "clusters/b/logs/1/y", []byte("y"), "")
		require.NoError(t, err, kind)
		_, err = b.Put(ctx, "else", []byte("z"), "")
		require.NoError(t, err, kind)
		names, err := b.List(ctx, "clusters/", "")
		require.NoError(t, err, kind)
		require.ElementsMatch(t, []string{"clusters/a/x", "clusters/b/logs/1/y"}, names, kind)
		names, err = b.List(ctx, "clusters/", "/y")
		require.NoError(t, err, kind)
		require.Equal(t, []string{"clusters/b/logs/1/y"}, names, kind)
	}
}

func TestEveryBucketHoldsAnArchive(t *testing.T) {
	for kind, b := range buckets(t) {
		l := newLog(t, 0)
		one, other := l.uploader(b), l.uploader(b)
		for range 3 {
			l.append(2, 3)
			upload(t, one)
			l.append(1)
			require.NoError(t, other.Begin(t.Context()))
			if _, err := other.Upload(t.Context(), 1000); err != nil {
				require.ErrorIs(t, err, archive.ErrChanged, kind)
			}
			one = l.uploader(b)
		}
		upload(t, one)
		v := verify(t, b)
		require.Empty(t, v.Problems, kind)
		require.Equal(t, l.root(never), v.Digest.String(), kind)
		all, err := archive.Archive{Bucket: b}.List(t.Context())
		require.NoError(t, err, kind)
		require.Len(t, all, 1, kind)
		require.NoError(t, all[0].Err, kind)
	}
}

func TestAPowerCutLeavesAnArchiveOfFilesAsItWasOrAsItBecomes(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		for n := 1; ; n++ {
			disk := faultdisk.New(uint64(n))
			b := filebucket.New(disk, "archive")
			l := newLog(t, 2)
			upload(t, l.uploader(b))
			l.append(4)
			u := l.uploader(b)
			disk.StopAt(n)
			err := u.Begin(t.Context())
			if err == nil {
				_, err = u.Upload(t.Context(), 1000)
			}
			done := err == nil
			disk.PowerCut(remains)
			b = filebucket.New(disk, "archive")
			m := manifest(t, b)
			require.Empty(t, verify(t, b).Problems, "%v, operation %d", remains, n)
			if done {
				require.Equal(t, l.end(), m.End(), "%v: what was acknowledged is there", remains)
				require.Greater(t, n, 8)
				break
			}
			upload(t, l.uploader(b))
			require.Empty(t, verify(t, b).Problems, "%v, operation %d", remains, n)
			require.Equal(t, l.end(), manifest(t, b).End())
		}
	}
}

func TestAFailingServerOfS3IsReportedAndTheNextAttemptSucceeds(t *testing.T) {
	type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)
	answer := func(status int, code string) fault {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>not now</Message></Error>", code)
		}
	}
	for name, c := range map[string]struct {
		method  string
		fault   fault
		says    string
		refused bool
	}{
		"500":                    {method: http.MethodPut, fault: answer(500, "InternalError"), says: "InternalError"},
		"503 with Retry-After":   {method: http.MethodPut, fault: answer(503, "SlowDown"), says: "SlowDown"},
		"409":                    {method: http.MethodPut, fault: answer(409, "ConditionalRequestConflict"), says: "try again"},
		"denied":                 {method: http.MethodPut, fault: answer(403, "AccessDenied"), says: "check the credentials", refused: true},
		"500 of a get":           {method: http.MethodGet, fault: answer(500, "InternalError"), says: "InternalError"},
		"lost answer of a put":   {method: http.MethodPut, fault: lostAnswer, says: "may have been written"},
		"body of a get cut":      {method: http.MethodGet, fault: cutBody, says: "try again"},
		"no conditional puts":    {method: http.MethodPut, fault: answer(501, "NotImplemented"), says: "check", refused: true},
		"connection is cut":      {method: http.MethodPut, fault: func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }, says: "try again"},
		"answer without an ETag": {method: http.MethodPut, fault: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(200) }, says: "try again"},
	} {
		server, b := newS3(t)
		l := newLog(t, 3)
		upload(t, l.uploader(b)) // so that there is something to get
		l.append(3)
		u := l.uploader(b)
		var failed atomic.Bool
		server.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != c.method || !failed.CompareAndSwap(false, true) {
				return false
			}
			c.fault(w, r, server.Handler)
			return true
		}
		err := u.Begin(t.Context())
		if err == nil {
			_, err = u.Upload(t.Context(), 1000)
		}
		require.ErrorContains(t, err, c.says, name)
		var of *archive.Error
		require.ErrorAs(t, err, &of, name)
		require.Equal(t, c.refused, of.Refused, name)
		require.NotContains(t, err.Error(), secretKey)
		require.True(t, failed.Load(), name)
		upload(t, u)
		require.Empty(t, verify(t, b).Problems, name)
		require.Equal(t, l.end(), manifest(t, b).End(), name)
	}
}

// A gateway that restarts answers 404 in place of the server.
func TestAPutThatIsAnsweredWithNotFoundIsNoSuccess(t *testing.T) {
	server, b := newS3(t)
	l := newLog(t, 3)
	u := l.uploader(b)
	var failed atomic.Bool
	server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, ".obj") || !failed.CompareAndSwap(false, true) {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	require.NoError(t, u.Begin(t.Context()))
	_, err := u.Upload(t.Context(), 1000)
	require.ErrorContains(t, err, "it may have been written; try again")
	require.Empty(t, manifest(t, b).Objects)
	upload(t, u)
	require.Empty(t, verify(t, b).Problems)
	require.Equal(t, l.end(), manifest(t, b).End())
}

func TestAnObjectThatIsThereAlreadyIsListedOnlyIfItHasTheSameBytes(t *testing.T) {
	l, b := newLog(t, 3), newMemory()
	upload(t, l.uploader(b))
	name := objectName + manifest(t, b).Objects[0].Name
	delete(b.objects, objectName+"manifest.json")
	b.objects[name] = b.objects[name][:100]
	u := l.uploader(b)
	require.NoError(t, u.Begin(t.Context()))
	_, err := u.Upload(t.Context(), 1000)
	require.ErrorIs(t, err, archive.ErrObject)
	require.Empty(t, manifest(t, b).Objects)
}

// lostAnswer passes a request on, and cuts the connection in place of the answer.
func lostAnswer(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cutBody passes on half of an answer.
func cutBody(w http.ResponseWriter, r *http.Request, next http.Handler) {
	whole := httptest.NewRecorder()
	next.ServeHTTP(whole, r)
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	body := whole.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(body[:len(body)/2])
	w.(http.Flusher).Flush() // or the client would repeat a request without an answer
	panic(http.ErrAbortHandler)
}

func TestASlowServerOfS3HoldsUpNobodyLongerThanTheCallerWaits(t *testing.T) {
	server, b := newS3(t)
	release := make(chan struct{})
	server.before = func(http.ResponseWriter, *http.Request) bool { <-release; return false }
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Put(ctx, "x", []byte("x"), "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "may have been written")
}

func TestAnAnswerThatClaimsMoreThanTheLimitTakesNoMemory(t *testing.T) {
	server, b := newS3(t)
	server.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", strconv.Itoa(1<<40))
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.WriteHeader(200)
		return true
	}
	_, _, err := b.Get(t.Context(), "x", 10)
	require.ErrorIs(t, err, archive.ErrTooLarge)
}

func TestTheAddressOfABucketOfS3HasNoCredentials(t *testing.T) {
	for _, at := range []string{"s3://user:pass@logs/p", "s3:///p", "s3://logs/p?key=1"} {
		parsed, err := url.Parse(at)
		require.NoError(t, err)
		_, err = s3bucket.New(parsed, environment(nil))
		require.Error(t, err, at)
		require.NotContains(t, err.Error(), "pass@")
	}
	parsed, err := url.Parse("s3://logs/p")
	require.NoError(t, err)
	_, err = s3bucket.New(parsed, environment(map[string]string{"AWS_ENDPOINT_URL": "https://user:hidden@host"}))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden")
	_, err = s3bucket.New(parsed, environment(map[string]string{"AWS_ENDPOINT_URL": "https://host/path"}))
	require.ErrorContains(t, err, "without a path")
	b, err := s3bucket.New(parsed, environment(nil))
	require.NoError(t, err)
	require.Equal(t, "s3://logs/p/", b.String())
}

// Puts of two processes follow each other.
func TestAPutWaitsForTheLockOfAnotherProcessBesideIt(t *testing.T) {
	disk := faultdisk.New(1)
	b := filebucket.New(disk, "archive")
	lock, err := disk.Lock("archive/lock")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = b.Put(ctx, "x", []byte("x"), "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	done := make(chan error, 1)
	go func() {
		_, err := b.Put(t.Context(), "x", []byte("x"), "")
		done <- err
	}()
	require.NoError(t, lock.Close())
	require.NoError(t, <-done)
}
